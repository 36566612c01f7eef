"""The tables of retention: what each run did."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger
from sqlmodel import Field

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.tables.record import Record


class RetentionRun(Record, table=True):
    """One run of retention. `status` is `running` or `done`, and `partitions` how many were created
    for the days ahead.

    Of the figures, `rolled_up` rows were replaced by those of their hour or day, and
    `figures_deleted` were past their age. Of `endpoints_compared` endpoints the gauges were
    compared with the rows, and `gauges_corrected` of them differed. `hours_different` is how many
    of the last 24 hours have other figures than rows."""

    __tablename__ = "retention_runs"

    id: str = Field(primary_key=True)
    status: str
    dry_run: bool
    workflow_id: str
    partitions: int = 0
    rolled_up: int = Field(default=0, sa_type=BigInteger)
    figures_deleted: int = Field(default=0, sa_type=BigInteger)
    endpoints_compared: int = 0
    gauges_corrected: int = 0
    hours_different: int = 0
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
