"""The tables of what is emitted: event types, events and their idempotency keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Index, LargeBinary, Text
from sqlmodel import Field

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.database.feed_position import NextPosition
from hookfast.storage.tables.record import Record


class EventType(Record, table=True):
    """A registered event type; `json_schema`, where present, is enforced when one is emitted."""

    __tablename__ = "event_types"

    name: str = Field(primary_key=True)
    description: str = Field(sa_type=Text)
    json_schema: dict[str, Any] | bool | None = Field(default=None, sa_type=JSON(none_as_null=True))
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)


class Event(Record, table=True):
    """One emitted fact. `body` is the exact bytes every `full` delivery sends and signs.

    On PostgreSQL it is partitioned by ranges of its id, whose first part is the time (see
    `partitions`). Hence no unique index but the id's; see IdempotencyKey.
    """

    __tablename__ = "events"
    __table_args__ = (
        Index("ix_events_tenant", "tenant_id", "id"),
        Index("ix_events_type", "type", "id"),
        # the feed: everyone's, a tenant's, in the order in which events became visible
        Index("ix_events_feed", "position", "id"),
        Index("ix_events_tenant_feed", "tenant_id", "position", "id"),
        {"postgresql_partition_by": "RANGE (id)"},
    )

    id: str = Field(primary_key=True)
    type: str
    tenant_id: str | None = None
    body: bytes = Field(sa_type=LargeBinary)
    traceparent: str
    deliveries: int
    created_at: datetime = Field(sa_type=UtcDateTime)
    deliver_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    inbox_id: str | None = None  # the request it came in with
    # its place in the feed
    position: int = Field(
        default=0, sa_type=BigInteger, sa_column_kwargs={"default": NextPosition()}
    )


class IdempotencyKey(Record, table=True):
    """An idempotency key that was used, and the event that it made. A table of its own, because it
    is unique over all time, and `events` is in parts by time on PostgreSQL."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        # which are too old; and which an event has
        Index("ix_idempotency_keys_event", "event_id"),
    )

    scope: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    event_id: str
    sha256: str
    created_at: datetime = Field(sa_type=UtcDateTime)
