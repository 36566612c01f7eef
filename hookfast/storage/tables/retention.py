"""The tables of retention: what each run did, and the daily counts that outlive deleted rows."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Date, Index
from sqlmodel import Field

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.tables.record import Record


class RetentionRun(Record, table=True):
    """One run of retention. `status` is `running` or `done`, `partitions` how many were created for
    the days ahead, and `days` how many were counted."""

    __tablename__ = "retention_runs"

    id: str = Field(primary_key=True)
    status: str
    dry_run: bool
    workflow_id: str
    partitions: int = 0
    days: int = 0
    started_at: datetime = Field(sa_type=UtcDateTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class RetentionSweep(Record, table=True):
    """One table in one run. Rows from before `cutoff` are deleted (None: none are). `cursor` is the
    last row that was read: it moves, and `deleted` with it, in the transaction that deletes, so
    that a crash neither loses nor doubles a count. `pinned` lists the old PostgreSQL partitions
    that cannot be dropped, with the reasons."""

    __tablename__ = "retention_sweeps"

    run_id: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    position: int
    cutoff: datetime | None = Field(default=None, sa_type=UtcDateTime)
    cursor: str | None = None
    deleted: int = Field(default=0, sa_type=BigInteger)
    kept: int = Field(default=0, sa_type=BigInteger)
    partitions: int = 0
    pinned: list[dict[str, Any]] = Field(default_factory=list, sa_type=JSON)
    done: bool = False


class CountedDay(Record, table=True):
    """A day (UTC) whose counts are in `delivery_days`. Once it is `final`, rows of that day may be
    deleted, and it is never counted again."""

    __tablename__ = "counted_days"

    day: date = Field(primary_key=True, sa_type=Date)
    final: bool
    counted_at: datetime = Field(sa_type=UtcDateTime)


class DeliveryDay(Record, table=True):
    """One endpoint's counts of one day (UTC), kept for ever: the deliveries created on that day by
    their status when it was counted (`open`: not yet ended), and the attempts of that day. `le_…`
    count the attempts that took at most this many milliseconds, and more than the bound before;
    `le_max` counts the longer ones."""

    __tablename__ = "delivery_days"
    __table_args__ = (
        # a tenant's and an endpoint's days, by time
        Index("ix_delivery_days_tenant", "tenant_id", "day"),
        Index("ix_delivery_days_endpoint", "endpoint_id", "day"),
    )

    day: date = Field(primary_key=True, sa_type=Date)
    endpoint_id: str = Field(primary_key=True)
    tenant_id: str
    delivered: int = 0
    dead: int = 0
    gone: int = 0
    cancelled: int = 0
    open: int = 0
    attempts: int = 0
    succeeded: int = 0
    duration_ms: float = 0
    le_10: int = 0
    le_25: int = 0
    le_50: int = 0
    le_100: int = 0
    le_250: int = 0
    le_500: int = 0
    le_1000: int = 0
    le_2500: int = 0
    le_5000: int = 0
    le_10000: int = 0
    le_max: int = 0
