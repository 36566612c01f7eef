"""The tables. Nothing but columns and indexes: each table's statements live in its own module.

Column order is for people; index comments say which question the index answers.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Index, LargeBinary, Table, Text, false, text
from sqlmodel import Field, SQLModel

from hookfast.deliveries.messages import Urgency
from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.database.feed_position import NextPosition


class Record(SQLModel):
    """What every table class is: gives typed access to its Core table."""

    __table__: ClassVar[Table]


class Tenant(Record, table=True):
    """A customer of the platform."""

    __tablename__ = "tenants"

    id: str = Field(primary_key=True)
    name: str = Field(sa_type=Text)
    meta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class ApiKey(Record, table=True):
    """An API key: only its SHA-256 is kept (a key has 256 random bits, so a slow hash adds
    nothing). `tenant_id` is None for operator keys."""

    __tablename__ = "api_keys"

    id: str = Field(primary_key=True)
    tenant_id: str | None = Field(default=None, index=True)
    scope: str
    name: str = Field(sa_type=Text)
    hint: str
    key_sha256: str = Field(unique=True)
    created_at: datetime = Field(sa_type=UtcDateTime)
    expires_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    revoked_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_used_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class EventType(Record, table=True):
    """A registered event type; `json_schema`, where present, is enforced when one is emitted."""

    __tablename__ = "event_types"

    name: str = Field(primary_key=True)
    description: str = Field(sa_type=Text)
    json_schema: dict[str, Any] | bool | None = Field(default=None, sa_type=JSON(none_as_null=True))
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)


class Endpoint(Record, table=True):
    """A URL with its secrets, signature profiles, retry plan, limits and state.

    `secrets` and `headers` are sealed; `hookfast.endpoints.secrets` tells their form. `encryption`
    is the receiver's public key and how it is used. Deleted endpoints keep their row, because their
    deliveries still point to it.
    """

    __tablename__ = "endpoints"
    __table_args__ = (
        # lists: one tenant's endpoints, newest first
        Index("ix_endpoints_tenant", "tenant_id", "id"),
    )

    id: str = Field(primary_key=True)
    tenant_id: str
    url: str = Field(sa_type=Text)
    description: str = Field(sa_type=Text)
    owner_emails: list[str] = Field(default_factory=list, sa_type=JSON)
    signatures: list[str] = Field(sa_type=JSON)
    signature_hash: str = "sha256"
    secrets: list[dict[str, Any]] = Field(sa_type=JSON)
    retry_plan: str | dict[str, Any] = Field(sa_type=JSON)
    timeout_seconds: float
    rate_limit_per_second: float | None = None
    max_in_flight: int | None = None
    headers: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    encryption: dict[str, Any] | None = Field(default=None, sa_type=JSON(none_as_null=True))
    allowed_networks: list[str] = Field(default_factory=list, sa_type=JSON)
    circuit: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    verification: str
    meta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    state: str = "enabled"
    state_reason: str | None = Field(default=None, sa_type=Text)
    # `poll`: no request is sent, it has no URL (''), and its consumer fetches (see `poll`)
    mode: str = Field(default="push", sa_column_kwargs={"server_default": "push"})
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class SigningKey(Record, table=True):
    """An RSA key of the service: `public` is its JWK, `sealed` its private part. It signs from
    `signs_from` until a newer one does, and is in the key directory until `retired_at`."""

    __tablename__ = "signing_keys"

    kid: str = Field(primary_key=True)
    kind: str
    public: dict[str, str] = Field(sa_type=JSON)
    sealed: str = Field(sa_type=Text)
    created_at: datetime = Field(sa_type=UtcDateTime)
    signs_from: datetime = Field(sa_type=UtcDateTime)
    retired_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class Subscription(Record, table=True):
    """Which event types go to which endpoint."""

    __tablename__ = "subscriptions"
    __table_args__ = (
        Index("ix_subscriptions_tenant", "tenant_id", "id"),
        Index("ix_subscriptions_endpoint", "endpoint_id", "id"),
    )

    id: str = Field(primary_key=True)
    endpoint_id: str
    tenant_id: str
    events: list[str] = Field(sa_type=JSON)
    payload: str = "full"
    active: bool = True
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)


class SubscriptionPattern(Record, table=True):
    """One row per pattern of a subscription. A three-part event type can match only a dozen or so
    patterns, so "who wants this event?" is an index lookup over those, however many subscribe."""

    __tablename__ = "subscription_patterns"
    __table_args__ = (Index("ix_subscription_patterns_subscription", "subscription_id"),)

    pattern: str = Field(primary_key=True)
    tenant_id: str = Field(primary_key=True)
    subscription_id: str = Field(primary_key=True)


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
    # where it stands in the feed; 0 for those from before there were positions
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


# Most deliveries end as delivered; leaving those out keeps the status indexes small and hot.
_UNDELIVERED = text("status <> 'delivered'")
_DEAD = text("status IN ('dead', 'gone')")


class Delivery(Record, table=True):
    """One (event, subscription) pair, its workflow and its message id.

    Its state is a `hookfast.deliveries.life.Life`, which `hookfast.storage.deliveries.lives` alone writes.
    `next_attempt_at` is made from it, for lists and for the sweep. `heard` names the signals made
    by hand that were applied.

    Also the outbox: a row whose `started_at` is NULL still needs its workflow started or woken, in
    the order of `urgency`. `wakes` counts how often it was put back; 0: it was never started.
    `batch_id` names the batch that took its first attempt, and keeps doing so.
    """

    __tablename__ = "deliveries"
    __table_args__ = (
        Index("ix_deliveries_event", "event_id", "id"),
        Index("ix_deliveries_endpoint", "endpoint_id", "id"),
        Index("ix_deliveries_tenant", "tenant_id", "id"),
        Index("ix_deliveries_subscription", "subscription_id", "id"),
        Index("ix_deliveries_type", "event_type", "id"),
        Index(
            "ix_deliveries_undelivered",
            "status",
            "id",
            sqlite_where=_UNDELIVERED,
            postgresql_where=_UNDELIVERED,
        ),
        Index(
            "ix_deliveries_tenant_undelivered",
            "tenant_id",
            "status",
            "id",
            sqlite_where=_UNDELIVERED,
            postgresql_where=_UNDELIVERED,
        ),
        Index(
            "ix_deliveries_endpoint_undelivered",
            "endpoint_id",
            "status",
            "id",
            sqlite_where=_UNDELIVERED,
            postgresql_where=_UNDELIVERED,
        ),
        # dead letters: all, a tenant's, an endpoint's; newest first
        Index("ix_deliveries_dead", "id", sqlite_where=_DEAD, postgresql_where=_DEAD),
        Index(
            "ix_deliveries_tenant_dead",
            "tenant_id",
            "id",
            sqlite_where=_DEAD,
            postgresql_where=_DEAD,
        ),
        Index(
            "ix_deliveries_endpoint_dead",
            "endpoint_id",
            "id",
            sqlite_where=_DEAD,
            postgresql_where=_DEAD,
        ),
        # which dead letters are of today, and which too old to keep
        Index(
            "ix_deliveries_dead_finished",
            "finished_at",
            sqlite_where=_DEAD,
            postgresql_where=_DEAD,
        ),
        # the outbox: only what is to be started or woken; who waits, and each one's oldest
        Index(
            "ix_deliveries_outbox",
            "urgency",
            "tenant_id",
            "endpoint_id",
            "id",
            sqlite_where=text("started_at IS NULL"),
            postgresql_where=text("started_at IS NULL"),
        ),
        # what should have been attempted by now
        Index(
            "ix_deliveries_due",
            "next_attempt_at",
            sqlite_where=text("next_attempt_at IS NOT NULL"),
            postgresql_where=text("next_attempt_at IS NOT NULL"),
        ),
    )

    id: str = Field(primary_key=True)
    event_id: str
    subscription_id: str
    endpoint_id: str
    tenant_id: str
    event_type: str
    payload: str
    status: str
    reason: str | None = Field(default=None, sa_type=Text)
    attempts: int = 0
    retries: int = 0
    next_attempt_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    due_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    look_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    began_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    excluded_seconds: float = Field(default=0, sa_column_kwargs={"server_default": "0"})
    waiting_since: datetime | None = Field(default=None, sa_type=UtcDateTime)
    resend_asked_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    resend_gently: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    resend_not_before: datetime | None = Field(default=None, sa_type=UtcDateTime)
    released: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    round: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    last_error: str | None = Field(default=None, sa_type=Text)
    heard: str | None = Field(default=None, sa_type=Text)
    deliver_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    leased_until: datetime | None = Field(default=None, sa_type=UtcDateTime)
    started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    wakes: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    urgency: int = Field(default=Urgency.FIRST, sa_column_kwargs={"server_default": "3"})
    batch_id: str | None = None
    batch_until: datetime | None = Field(default=None, sa_type=UtcDateTime)


class Attempt(Record, table=True):
    """One HTTP request of a delivery and what came of it. Partitioned like Event."""

    __tablename__ = "attempts"
    __table_args__ = (
        Index("ix_attempts_delivery", "delivery_id", "number"),
        {"postgresql_partition_by": "RANGE (id)"},
    )

    id: str = Field(primary_key=True)
    delivery_id: str
    endpoint_id: str
    number: int
    trigger: str
    started_at: datetime = Field(sa_type=UtcDateTime)
    duration_ms: float
    result: str
    status_code: int | None = None
    error: str | None = Field(default=None, sa_type=Text)
    response_excerpt: str | None = Field(default=None, sa_type=Text)


class WorkerHeartbeat(Record, table=True):
    """A worker process that is alive: `/readyz` asks for one seen lately. `batching`: it sends new
    deliveries in batches now."""

    __tablename__ = "workers"

    id: str = Field(primary_key=True)
    version: str
    started_at: datetime = Field(sa_type=UtcDateTime)
    seen_at: datetime = Field(sa_type=UtcDateTime)
    batching: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
