"""The tables of events: event types, events and idempotency keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Index, LargeBinary, Text, false
from sqlmodel import Field

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.database.feed_position import NextPosition
from hookfast.storage.tables.record import Record


class EventType(Record, table=True):
    """A registered event type. `json_schema`, if any, is enforced when an event is emitted."""

    __tablename__ = "event_types"

    name: str = Field(primary_key=True)
    description: str = Field(sa_type=Text)
    json_schema: dict[str, Any] | bool | None = Field(default=None, sa_type=JSON(none_as_null=True))
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)


class Event(Record, table=True):
    """One emitted event. `body` is the exact bytes that every `full` delivery sends and signs.

    On PostgreSQL the table is partitioned by ranges of the id, whose first part is the time (see
    `partitions`). Hence only the id has a unique index; see IdempotencyKey.
    """

    __tablename__ = "events"
    __table_args__ = (
        Index("ix_events_tenant", "tenant_id", "id"),
        Index("ix_events_type", "type", "id"),
        # the feed, of all tenants and of one, in the order in which events became visible
        Index("ix_events_feed", "position", "id"),
        Index("ix_events_tenant_feed", "tenant_id", "position", "id"),
        {"postgresql_partition_by": "RANGE (id)"},
    )

    id: str = Field(primary_key=True)
    type: str
    tenant_id: str | None = None
    traceparent: str
    deliveries: int
    created_at: datetime = Field(sa_type=UtcDateTime)
    deliver_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    inbox_id: str | None = None  # the request that it was received with
    ordering_key: str | None = Field(default=None, sa_type=Text)
    # the sources that it has passed, here and elsewhere
    hops: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    # its data violate the schema of its type: only subscriptions with payload `raw` get it
    raw_only: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    # its position in the feed
    position: int = Field(
        default=0, sa_type=BigInteger, sa_column_kwargs={"default": NextPosition("events")}
    )
    # the last column: SQLite reads all pages of a long value to find the columns behind it
    body: bytes = Field(sa_type=LargeBinary)


class IdempotencyKey(Record, table=True):
    """A used idempotency key, and the event that was created with it. A table of its own, because a
    key is unique over all time, and `events` is partitioned by time on PostgreSQL."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        # keys that are too old; the keys of an event
        Index("ix_idempotency_keys_event", "event_id"),
    )

    scope: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    event_id: str
    sha256: str
    created_at: datetime = Field(sa_type=UtcDateTime)
