"""PostgreSQL's partitions that are past their age: dropped where nothing keeps a row of theirs. The
rows around what is kept go in batches like any others (`retention`).

A partition is dropped in one transaction that has the whole table for itself (`partitions.lock`):
whoever was about to make a delivery of one of its events has committed by then, so what is asked
under the lock is so. It asks one index for one row, and drops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Table, and_, func, select, table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import first_id_at
from hookfast.storage.database import partitions
from hookfast.storage.database.engine import Database
from hookfast.storage.database.partitions import PARTITIONED, Partition
from hookfast.storage.retention import retention_runs
from hookfast.storage.retention.sweeps import Cutoffs, kept_deliveries, kept_events
from hookfast.storage.tables import Delivery, Event, InboxEntry

_DELIVERIES: Table = Delivery.__table__
_EVENTS: Table = Event.__table__
_INBOX: Table = InboxEntry.__table__

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A partition past its age that stays, and why."""

    partition: str
    reason: str

    def facts(self) -> dict[str, Any]:
        """As it is stored with the run."""
        return {"partition": self.partition, "reason": self.reason}


async def drop_old(
    database: Database,
    run_id: str,
    name: str,
    *,
    cutoffs: Cutoffs,
    dry_run: bool,
    beat: Callable[[str], None],
) -> None:
    """Drop those partitions of this sweep's table that may go, and tell of those that may not. In a
    dry run only count them: their rows are counted in batches with all others. `beat` hears of each
    that is dealt with."""
    before = cutoffs[name]
    if database.kind != "postgresql" or name not in PARTITIONED or before is None:
        return
    end = first_id_at(PARTITIONED[name], before)
    async with database.read() as connection:
        listed = await partitions.listed(connection, name)
    pins = []
    for one in listed:
        if one.until is None or one.until > end:
            continue
        pinned = await _drop(database, run_id, one, cutoffs=cutoffs, dry_run=dry_run)
        if pinned is not None:
            pins.append(pinned.facts())
        beat(one.name)
    async with database.write() as connection:
        await retention_runs.pin(connection, run_id, name, pins)


async def _drop(
    database: Database, run_id: str, one: Partition, *, cutoffs: Cutoffs, dry_run: bool
) -> Pinned | None:
    """Why the partition stays; None once it is dropped."""
    async with database.read() as connection:
        if pinned := await _pin(connection, one, cutoffs=cutoffs, dry_run=dry_run):
            return pinned
        # before the lock, for it reads the whole partition: nothing new gets so old an id
        rows = await connection.execute(select(func.count()).select_from(table(one.name)))
        count = rows.scalar_one()
    try:
        async with database.write() as connection:
            if not dry_run:
                await partitions.lock(connection, one.table)
                if pinned := await _pin(connection, one, cutoffs=cutoffs, dry_run=False):
                    return pinned
                await partitions.drop(connection, one)
            await retention_runs.dropped(
                connection, run_id, one.table, rows=0 if dry_run else count
            )
    except DBAPIError as error:
        if (reason := partitions.not_now(error)) is None:
            raise
        log.warning("An old partition is not dropped now.", partition=one.name, reason=reason)
        return Pinned(partition=one.name, reason=reason)
    return None


async def _pin(
    connection: AsyncConnection, one: Partition, *, cutoffs: Cutoffs, dry_run: bool
) -> Pinned | None:
    """What keeps a row of this partition, if anything."""
    if one.table == "events":
        c = _DELIVERIES.c
        keeping = select(c.id, c.status).where(_within(c.event_id, one))
        if dry_run:
            keeping = keeping.where(kept_deliveries(cutoffs))
        found = (await connection.execute(keeping.order_by(c.event_id).limit(1))).first()
        if found is not None:
            return Pinned(
                partition=one.name, reason=f"The delivery {found.id} ({found.status}) is kept."
            )
    if one.table == "inbox":
        i, e = _INBOX.c, _EVENTS.c
        keeping = select(e.id).join_from(_INBOX, _EVENTS, e.id == i.event_id)
        if dry_run:
            keeping = keeping.where(kept_events(cutoffs))
        found = (await connection.execute(keeping.where(_within(i.id, one)).limit(1))).first()
        if found is not None:
            return Pinned(partition=one.name, reason=f"The event {found.id} is kept.")
    return None


def _within(column: ColumnElement[str], one: Partition) -> ColumnElement[bool]:
    assert one.since is not None  # noqa: S101 - the DEFAULT partition is never dropped
    assert one.until is not None  # noqa: S101
    return and_(column >= one.since, column < one.until)
