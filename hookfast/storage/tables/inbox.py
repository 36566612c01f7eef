"""The tables of the inbox: sources, the requests received from them, and the keys that detect
duplicates."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Index, LargeBinary, Text
from sqlmodel import Field

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.tables.record import Record, partial_index


class Source(Record, table=True):
    """A provider's account that sends to us. `secrets` is sealed (see `inbox.source_secrets`).
    `event_types` maps the provider's names to others, `idempotency` names the business fact (see
    `hookfast.inbox.verified_request`). Deleted sources keep their row, without secrets, because the
    inbox still refers to it."""

    __tablename__ = "sources"
    __table_args__ = (
        # lists: one tenant's sources, newest first
        Index("ix_sources_tenant", "tenant_id", "id"),
    )

    id: str = Field(primary_key=True)
    tenant_id: str
    name: str = Field(sa_type=Text)
    provider: str
    secrets: list[dict[str, Any]] = Field(sa_type=JSON)
    options: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    allowed_networks: list[str] = Field(default_factory=list, sa_type=JSON)
    event_types: dict[str, str] = Field(default_factory=dict, sa_type=JSON)
    id_expression: str | None = Field(default=None, sa_type=Text)
    idempotency: dict[str, Any] | None = Field(default=None, sa_type=JSON(none_as_null=True))
    active: bool = True
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class SourceStats(Record, table=True):
    """Counts of a source's requests by result. All but the rejected ones are counted in the
    transaction that stores the request. `loop_reported_at` is when operators were last told of a
    loop."""

    __tablename__ = "source_stats"

    source_id: str = Field(primary_key=True)
    accepted: int = 0
    duplicates: int = 0
    conflicts: int = 0
    suppressed: int = 0
    failed: int = 0
    rejected: int = 0
    last_accepted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_rejected_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    loop_reported_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_error: str | None = Field(default=None, sa_type=Text)


class SourceEventType(Record, table=True):
    """An event type that was registered because of a request to this source."""

    __tablename__ = "source_event_types"

    source_id: str = Field(primary_key=True)
    name: str = Field(primary_key=True)


class InboxEntry(Record, table=True):
    """A verified request, with its exact body and its result. `headers` are the ones worth
    forwarding, as pairs, without any credential; `hops` are those of its event. A repeated request
    adds to `duplicates`; one with a different body, which only a key expression makes the same
    request, also adds to `conflicts`, and its hash is kept.

    On PostgreSQL the table is partitioned by ranges of the id, whose first part is the time: old
    rows are deleted by dropping a partition. Hence only the id has a unique index; see InboxKey.
    """

    __tablename__ = "inbox"
    __table_args__ = (
        # lists, newest first: a source's, a tenant's, requests that did not become an event
        Index("ix_inbox_source", "source_id", "id"),
        Index("ix_inbox_tenant", "tenant_id", "id"),
        partial_index("ix_inbox_not_accepted", "status", "id", where="status <> 'accepted'"),
        {"postgresql_partition_by": "RANGE (id)"},
    )

    id: str = Field(primary_key=True)
    source_id: str
    tenant_id: str
    key: str = Field(sa_type=Text)
    event_type: str
    business_key: str | None = Field(default=None, sa_type=Text)
    hops: int = Field(default=1, sa_column_kwargs={"server_default": "1"})
    payload_sha256: str
    content_type: str
    headers: list[list[str]] = Field(sa_type=JSON)
    status: str
    event_id: str | None = None
    suppressed_by: str | None = None
    last_error: str | None = Field(default=None, sa_type=Text)
    duplicates: int = 0
    conflicts: int = 0
    conflict_sha256: str | None = None
    received_at: datetime = Field(sa_type=UtcDateTime)
    last_seen_at: datetime = Field(sa_type=UtcDateTime)
    # the last column: SQLite reads all pages of a long value to find the columns behind it
    body: bytes = Field(sa_type=LargeBinary)


class InboxKey(Record, table=True):
    """A key that a source must not receive twice before `expires_at`: a delivery id (`d:…`) or a
    business fact (`b:…`), and the inbox entry that had it first. `payload_sha256` is the hash of
    the body that the key is for, empty if it is for any body. The primary key decides between two
    at the same time."""

    __tablename__ = "inbox_keys"
    __table_args__ = (
        # expired keys
        Index("ix_inbox_keys_expiry", "expires_at"),
    )

    source_id: str = Field(primary_key=True)
    key: str = Field(primary_key=True, sa_type=Text)
    inbox_id: str
    payload_sha256: str = Field(primary_key=True)
    seen_at: datetime = Field(sa_type=UtcDateTime)
    expires_at: datetime = Field(sa_type=UtcDateTime)
