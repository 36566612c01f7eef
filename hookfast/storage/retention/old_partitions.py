"""Drops PostgreSQL's old partitions of which no row is needed. In other old partitions, the rows
that are not needed are deleted in batches like any others (`sweeps`).

A partition is dropped in one transaction that has the whole table locked (`partitions.lock`): a
transaction that was about to create a delivery of one of its events has committed by then, so the
check under the lock is reliable. It looks up one row in one index, and drops the partition.
"""

from __future__ import annotations

from collections.abc import Callable

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


async def drop_old(
    database: Database,
    run_id: str,
    name: str,
    *,
    cutoffs: Cutoffs,
    dry_run: bool,
    heartbeat: Callable[[str], None],
) -> None:
    """Drop the old partitions of a sweep's table of which no row is needed, and record why others
    stay. A dry run only counts partitions: their rows are counted in batches with all others.
    `heartbeat` is called with the name of each partition that was processed."""
    before = cutoffs[name]
    if database.kind != "postgresql" or name not in PARTITIONED or before is None:
        return
    end = first_id_at(PARTITIONED[name], before)
    async with database.read() as connection:
        existing = await partitions.list_partitions(connection, name)
    pinned = []
    for one in existing:
        if one.until is None or one.until > end:
            continue
        reason = await _drop(database, run_id, one, cutoffs=cutoffs, dry_run=dry_run)
        if reason is not None:
            pinned.append({"partition": one.name, "reason": reason})
        heartbeat(one.name)
    async with database.write() as connection:
        await retention_runs.set_pinned(connection, run_id, name, pinned)


async def _drop(
    database: Database, run_id: str, one: Partition, *, cutoffs: Cutoffs, dry_run: bool
) -> str | None:
    """Drop a partition, or return why it stays."""
    async with database.read() as connection:
        if reason := await _reason_to_keep(connection, one, cutoffs=cutoffs, dry_run=dry_run):
            return reason
        # before the lock, because it reads the whole partition; no new row gets such an old id
        rows = await connection.execute(select(func.count()).select_from(table(one.name)))
        count = rows.scalar_one()
    try:
        async with database.write() as connection:
            if not dry_run:
                await partitions.lock(connection, one.table)
                if reason := await _reason_to_keep(connection, one, cutoffs=cutoffs, dry_run=False):
                    return reason
                await partitions.drop(connection, one)
            await retention_runs.count_dropped(
                connection, run_id, one.table, rows=0 if dry_run else count
            )
    except DBAPIError as error:
        if (reason := partitions.reason_to_skip(error)) is None:
            raise
        log.warning("Could not drop an old partition for now.", partition=one.name, reason=reason)
        return reason
    return None


async def _reason_to_keep(
    connection: AsyncConnection, one: Partition, *, cutoffs: Cutoffs, dry_run: bool
) -> str | None:
    """Name a row of another table that needs a row of this partition, if there is one."""
    if one.table == "events":
        c = _DELIVERIES.c
        needing = select(c.id, c.status).where(_within(c.event_id, one))
        if dry_run:
            needing = needing.where(kept_deliveries(cutoffs))
        row = (await connection.execute(needing.order_by(c.event_id).limit(1))).first()
        if row is not None:
            return f"The delivery {row.id} ({row.status}) is kept."
    if one.table == "inbox":
        i, e = _INBOX.c, _EVENTS.c
        needing = select(e.id).join_from(_INBOX, _EVENTS, e.id == i.event_id)
        if dry_run:
            needing = needing.where(kept_events(cutoffs))
        row = (await connection.execute(needing.where(_within(i.id, one)).limit(1))).first()
        if row is not None:
            return f"The event {row.id} is kept."
    return None


def _within(column: ColumnElement[str], one: Partition) -> ColumnElement[bool]:
    assert one.since is not None  # noqa: S101 - the DEFAULT partition is never dropped
    assert one.until is not None  # noqa: S101
    return and_(column >= one.since, column < one.until)
