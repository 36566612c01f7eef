"""The tables of what steers deliveries: circuits, limits, notices to owners, jobs. Like `tables`,
nothing but columns and indexes.

Three of them ask for a workflow: a row whose `conducted_at` is NULL needs one to be started or
woken (see `hookfast.dispatch.workflow_starter`). Whoever gives the workflow something new to see sets it to NULL
in the same transaction, so that a crash right after the commit loses nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Index, Text, text
from sqlmodel import Field

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.tables.deliveries import Record

_CIRCUIT_ASKS = text("circuit <> 'closed' AND conducted_at IS NULL")
_CIRCUIT_WAITS = text("circuit <> 'closed'")
_NOTICE_PENDING = text("status = 'pending'")
_NOTICE_ASKS = text("conducted_at IS NULL")
_NOTICE_SENT = text("sent_at IS NOT NULL")
_JOB_ASKS = text("conducted_at IS NULL")


class EndpointHealth(Record, table=True):
    """How an endpoint fares: its consecutive failures, counted in the transaction that records the
    attempt, and its circuit. An endpoint that never failed has no row.

    `episode` numbers the outages; `cause` says what began this one (`failures`, `gone`, `disabled`,
    `resumed`). While the circuit is half-open, `probe_delivery_id` is the one delivery that may go
    (NULL: the next that comes), until `probe_until`; `probed_last` is where the next probe looks
    for an older held delivery from.
    """

    __tablename__ = "endpoint_health"
    __table_args__ = (
        Index(
            "ix_endpoint_health_asks",
            "endpoint_id",
            sqlite_where=_CIRCUIT_ASKS,
            postgresql_where=_CIRCUIT_ASKS,
        ),
        Index(
            "ix_endpoint_health_open",
            "opened_at",
            sqlite_where=_CIRCUIT_WAITS,
            postgresql_where=_CIRCUIT_WAITS,
        ),
    )

    endpoint_id: str = Field(primary_key=True)
    consecutive_failures: int = 0
    first_failure_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_failure_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_success_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_error: str | None = Field(default=None, sa_type=Text)
    circuit: str = Field(default="closed", sa_column_kwargs={"server_default": "closed"})
    episode: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    cause: str | None = None
    opened_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    probes: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    next_probe_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    probe_delivery_id: str | None = None
    probe_until: datetime | None = Field(default=None, sa_type=UtcDateTime)
    probed_last: str | None = None
    drain_rate: float | None = None
    drained: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    conducted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class Notice(Record, table=True):
    """Something one owner of an endpoint is to be told by mail, once per (endpoint, episode, kind,
    address). `facts` is what was known when it was decided. `status` is a
    `hookfast.notice.NoticeStatus`; `error` says why it was refused or waits. `owner_hash` stands
    for the address wherever the address must not be seen. `message_id` is set before the mail is
    sent: what goes into one mail is then fixed, however often it is tried."""

    __tablename__ = "notices"
    __table_args__ = (
        Index("uq_notices", "endpoint_id", "episode", "kind", "email", unique=True),
        # what an endpoint's owners were told, newest first
        Index("ix_notices_endpoint", "endpoint_id", "id"),
        Index(
            "ix_notices_pending",
            "owner_hash",
            "id",
            sqlite_where=_NOTICE_PENDING,
            postgresql_where=_NOTICE_PENDING,
        ),
        Index(
            "ix_notices_asks",
            "owner_hash",
            "id",
            sqlite_where=_NOTICE_ASKS,
            postgresql_where=_NOTICE_ASKS,
        ),
        # when one owner last got a mail of one kind
        Index(
            "ix_notices_sent",
            "owner_hash",
            "kind",
            "sent_at",
            sqlite_where=_NOTICE_SENT,
            postgresql_where=_NOTICE_SENT,
        ),
    )

    id: str = Field(primary_key=True)
    endpoint_id: str
    tenant_id: str
    episode: int
    kind: str
    email: str
    owner_hash: str
    facts: dict[str, Any] = Field(sa_type=JSON)
    status: str = "pending"
    tries: int = 0
    error: str | None = Field(default=None, sa_type=Text)
    message_id: str | None = Field(default=None, sa_type=Text)
    created_at: datetime = Field(sa_type=UtcDateTime)
    sent_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    conducted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class Job(Record, table=True):
    """One action on many deliveries, carried out by a workflow. `tenant_id` is None for the
    operator's. `chosen` is the filter; `cursor` the last delivery that was asked, and
    `in_hand` those of the asked that are under way. `status`: `pending`, `running`, `done`,
    `cancelled`, `failed`."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_tenant", "tenant_id", "id"),
        Index("ix_jobs_asks", "id", sqlite_where=_JOB_ASKS, postgresql_where=_JOB_ASKS),
    )

    id: str = Field(primary_key=True)
    tenant_id: str | None = None
    kind: str
    action: str
    chosen: dict[str, Any] = Field(sa_type=JSON)
    rate_per_second: float
    status: str
    total: int
    done: int = 0
    skipped: int = 0
    failed: int = 0
    cursor: str | None = None
    in_hand: list[str] | None = Field(default=None, sa_type=JSON)
    error: str | None = Field(default=None, sa_type=Text)
    cancel_requested: bool = False
    requested_by: str
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    conducted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class EndpointPace(Record, table=True):
    """How fast an endpoint with a limit is being sent to: when its next request may start
    (`next_slot_at`), up to when waiting deliveries were told to come back (`promised_until`), and
    how long its requests take on average (`mean_seconds`)."""

    __tablename__ = "endpoint_pace"

    endpoint_id: str = Field(primary_key=True)
    next_slot_at: datetime = Field(sa_type=UtcDateTime)
    promised_until: datetime = Field(sa_type=UtcDateTime)
    mean_seconds: float


class InFlight(Record, table=True):
    """A request under way to an endpoint with `max_in_flight`; free again at `until` at the latest,
    should the worker that makes it die."""

    __tablename__ = "in_flight"
    __table_args__ = (Index("ix_in_flight_endpoint", "endpoint_id", "until"),)

    delivery_id: str = Field(primary_key=True)
    endpoint_id: str
    until: datetime = Field(sa_type=UtcDateTime)


class PollPosition(Record, table=True):
    """How far the consumer that polls an endpoint has acknowledged the feed: a `Cursor`, in parts.
    An endpoint that was never polled may have no row."""

    __tablename__ = "poll_positions"

    endpoint_id: str = Field(primary_key=True)
    position: int = Field(sa_type=BigInteger)
    event_id: str | None = None
    seen_at: datetime = Field(sa_type=UtcDateTime)
    acknowledged_at: datetime = Field(sa_type=UtcDateTime)
