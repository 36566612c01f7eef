"""The tables of deliveries, attempts, tests, jobs on many deliveries, and workers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Index, Text, false
from sqlmodel import Field

from hookfast.deliveries.messages import Urgency
from hookfast.storage.database.column_types import ByteOrderText, UtcDateTime
from hookfast.storage.database.feed_position import NextPosition
from hookfast.storage.tables.record import Record, partial_index

# Most deliveries end as delivered; without those the status indexes stay small and cached.
_UNDELIVERED = "status <> 'delivered'"
_DEAD = "status IN ('dead', 'gone')"
# Rare: delivered while another request was under way, which then failed.
_DELIVERED_FAILING = "status = 'delivered' AND last_result <> 'success'"
# What a list may ask for that few rows have: checked in the index, without reading the others. They
# change with the status or the next attempt, so no index is written more often.
_CHECKED = ("event_type", "reason", "last_result", "last_status_code")


class Delivery(Record, table=True):
    """One (event, subscription) pair, its workflow and its message id.

    Its state is a `hookfast.deliveries.life.Life`, which `storage.deliveries.lives` alone writes.
    `next_attempt_at` is derived from it, for lists and for the sweep. `signals_applied` counts the
    signals that were applied, and names the run that received them. `last_result`,
    `last_status_code` and `last_duration_ms` are the answer to the newest recorded attempt, which
    began at `last_attempt_at`; they decide nothing.

    Also the outbox: a row whose `started_at` is NULL still needs its workflow started or woken, in
    the order of `urgency`. `wake_count` is how often it was put back; 0: it was never started.
    `batch_id` is the batch that took its first attempt, until `batch_until`; both are kept
    afterwards.

    With ordered delivery, `lane` is its lane (`hookfast.deliveries.lane`), NULL without.
    `lane_position` is the order in which the deliveries of a lane were committed.
    """

    __tablename__ = "deliveries"
    __table_args__ = (
        Index("ix_deliveries_event", "event_id", "id"),
        Index("ix_deliveries_endpoint", "endpoint_id", "id"),
        Index("ix_deliveries_tenant", "tenant_id", "id"),
        Index("ix_deliveries_subscription", "subscription_id", "id"),
        Index("ix_deliveries_type", "event_type", "id"),
        *(
            partial_index(
                f"ix_deliveries_{name}undelivered",
                *owner,
                "status",
                "id",
                *_CHECKED,
                where=_UNDELIVERED,
            )
            for name, *owner in (("",), ("tenant_", "tenant_id"), ("endpoint_", "endpoint_id"))
        ),
        partial_index("ix_deliveries_delivered_failing", "id", where=_DELIVERED_FAILING),
        # today's dead letters, and those too old to keep
        partial_index("ix_deliveries_dead_finished", "finished_at", where=_DEAD),
        # the outbox, only rows to start or wake: which endpoints wait, and the oldest row of each
        partial_index(
            "ix_deliveries_outbox",
            "urgency",
            "tenant_id",
            "endpoint_id",
            "id",
            where="started_at IS NULL",
        ),
        # overdue attempts
        partial_index("ix_deliveries_due", "next_attempt_at", where="next_attempt_at IS NOT NULL"),
        # the next delivery of a lane
        partial_index(
            "ix_deliveries_queued", "lane", "lane_position", "id", where="place = 'queued'"
        ),
        # Room for another version of each row, because a claim leases all rows of a page together:
        # it then writes no index (a heap-only update), which takes PostgreSQL 26 µs of CPU for a
        # row instead of 46. The table is not larger: its new versions would be on new pages.
        {"postgresql_with": {"fillfactor": 50}},
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
    recheck_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    began_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    excluded_seconds: float = Field(default=0, sa_column_kwargs={"server_default": "0"})
    waiting_since: datetime | None = Field(default=None, sa_type=UtcDateTime)
    resend_asked_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    resend_yields: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    resend_not_before: datetime | None = Field(default=None, sa_type=UtcDateTime)
    released: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    round: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    last_error: str | None = Field(default=None, sa_type=Text)
    last_attempt_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_result: str | None = None
    last_status_code: int | None = None
    last_duration_ms: float | None = None
    signals_applied: str | None = Field(default=None, sa_type=Text)
    deliver_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    leased_until: datetime | None = Field(default=None, sa_type=UtcDateTime)
    started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    wake_count: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    urgency: int = Field(default=Urgency.FIRST, sa_column_kwargs={"server_default": "3"})
    batch_id: str | None = None
    batch_until: datetime | None = Field(default=None, sa_type=UtcDateTime)
    lane: str | None = Field(default=None, sa_type=ByteOrderText)
    lane_position: int | None = Field(default=None, sa_type=BigInteger)
    place: str | None = None


class Lane(Record, table=True):
    """A lane of ordered deliveries (`hookfast.deliveries.lane`). `head` is the delivery at its
    head. `needs_head`: it has none, although others may be queued, because the next one was locked;
    a worker tries again. `last_position` is that of the delivery which joined last; it is at least
    the time in microseconds, so that it rises even if an idle lane is deleted in between."""

    __tablename__ = "lanes"
    __table_args__ = (partial_index("ix_lanes_needs_head", "id", where="needs_head"),)

    id: str = Field(primary_key=True, sa_type=ByteOrderText)
    head: str | None = None
    needs_head: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    last_position: int = Field(sa_type=BigInteger)
    updated_at: datetime = Field(sa_type=UtcDateTime)


class Attempt(Record, table=True):
    """One HTTP request of a delivery, with its result and its evidence
    (`hookfast.deliveries.evidence`). Partitioned like Event. Ids sort by the time at which attempts
    began, `position` by the order in which they were recorded (`feed_position`)."""

    __tablename__ = "attempts"
    __table_args__ = (
        Index("ix_attempts_delivery", "delivery_id", "number"),
        Index("ix_attempts_position", "position", "id"),
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
    url: str | None = Field(default=None, sa_type=Text)
    request_headers: str | None = Field(default=None, sa_type=Text)
    response_headers: str | None = Field(default=None, sa_type=Text)
    position: int = Field(
        default=0, sa_type=BigInteger, sa_column_kwargs={"default": NextPosition("attempts")}
    )


class SentTest(Record, table=True):
    """A test event that was sent to an endpoint, with its answer. `id` is the message id that was
    sent, so tests and deliveries sort by time together. `request_body` is the body before any
    encryption; the other columns are as in `attempts`. Nothing counts or repeats a test."""

    __tablename__ = "sent_tests"
    __table_args__ = (
        Index("ix_sent_tests_tenant", "tenant_id", "id"),
        Index("ix_sent_tests_endpoint", "endpoint_id", "id"),
    )

    id: str = Field(primary_key=True)
    tenant_id: str
    endpoint_id: str
    event_type: str
    payload: str
    url: str = Field(sa_type=Text)
    started_at: datetime = Field(sa_type=UtcDateTime)
    duration_ms: float
    result: str
    status_code: int | None = None
    error: str | None = Field(default=None, sa_type=Text)
    request_headers: str | None = Field(default=None, sa_type=Text)
    request_body: str = Field(sa_type=Text)
    response_headers: str | None = Field(default=None, sa_type=Text)
    response_excerpt: str | None = Field(default=None, sa_type=Text)


class Job(Record, table=True):
    """One action on many deliveries, carried out by a workflow. `tenant_id` is None for an
    operator's job. `filter` is a `DeliverySelection`, `cursor` the last delivery that the action
    was requested for, and `in_hand` the deliveries whose action is in progress. `status`:
    `pending`, `running`, `done`, `cancelled`, `failed`."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_tenant", "tenant_id", "id"),
        partial_index("ix_jobs_asks", "id", where="workflow_started_at IS NULL"),
    )

    id: str = Field(primary_key=True)
    tenant_id: str | None = None
    kind: str
    action: str
    filter: dict[str, Any] = Field(sa_type=JSON)
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
    workflow_started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class WorkerHeartbeat(Record, table=True):
    """A running worker process; `/readyz` requires one that was seen lately. `batching`: it sends
    new deliveries in batches now."""

    __tablename__ = "workers"

    id: str = Field(primary_key=True)
    version: str
    started_at: datetime = Field(sa_type=UtcDateTime)
    seen_at: datetime = Field(sa_type=UtcDateTime)
    batching: bool = Field(default=False, sa_column_kwargs={"server_default": false()})


class ProcessWrite(Record, table=True):
    """When a process last checked that the database accepts writes, as `/readyz` asks."""

    __tablename__ = "process_writes"

    id: str = Field(primary_key=True)
    written_at: datetime = Field(sa_type=UtcDateTime)
