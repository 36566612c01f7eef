"""PostgreSQL's partitions of the tables that grow: one per day (UTC), by ranges of ids, which begin
with the time. SQLite has plain tables.

Each table has a DEFAULT partition, so that inserts also work on a day without one. While a DEFAULT
partition exists, PostgreSQL can neither attach nor detach another without an exclusive lock (it
does not support `DETACH … CONCURRENTLY` then), so every attempt to lock here ends after half a
second: writers that queue behind it wait no longer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import Prefix, first_id_at
from hookfast.retention.ages import midnight
from hookfast.storage.database.availability import sqlstate
from hookfast.storage.database.engine import Database

PARTITIONED: Final[Mapping[str, Prefix]] = {"attempts": "att", "events": "evt", "inbox": "inb"}
DAYS_AHEAD: Final = 7

_DAY: Final = timedelta(days=1)
_LOCK: Final = 0x686F6F6B70617274 >> 1  # an arbitrary key for pg_advisory_xact_lock ("hookpart")
_LOCK_TIMEOUT: Final = "500ms"
_REASONS_TO_SKIP: Final = {  # by SQLSTATE
    "55P03": "The table was busy; it will be tried again.",
    "42501": "The database role does not own the tables.",
}
_BOUND = r"\('([a-z0-9_]+)'\)"
_RANGE: Final = re.compile(rf"FOR VALUES FROM {_BOUND} TO {_BOUND}")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition with its range of ids, from `since` to before `until`. Both are None for the
    DEFAULT partition, which takes the rows of no other partition."""

    table: str
    name: str
    since: str | None
    until: str | None


async def list_partitions(connection: AsyncConnection, table: str) -> list[Partition]:
    """Return a table's partitions, the oldest first."""
    rows = await connection.execute(
        text(
            "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i "
            "JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass(:table)"
        ),
        {"table": table},
    )
    partitions = []
    for name, bounds in rows:
        match = _RANGE.fullmatch(bounds)
        since, until = match.groups() if match else (None, None)
        partitions.append(Partition(table=table, name=name, since=since, until=until))
    return sorted(partitions, key=lambda one: (one.until is None, one.until or ""))


async def create_ahead(database: Database, *, now: datetime) -> int:
    """Create the missing partitions of today and the days ahead, and return how many. A table that
    is locked, or that the role does not own, is skipped: it has the DEFAULT partition."""
    if database.kind != "postgresql":
        return 0
    created = 0
    for table, prefix in PARTITIONED.items():
        async with database.read() as connection:
            if not await _missing_days(connection, table, prefix, now=now):
                continue
        try:
            async with database.write() as connection:
                created += await _create(connection, table, prefix, now=now)
        except DBAPIError as error:
            if (reason := reason_to_skip(error)) is None:
                raise
            log.warning("Could not create partitions for now.", table=table, reason=reason)
    return created


async def drop(connection: AsyncConnection, partition: Partition) -> None:
    """Drop a partition whose table this transaction has locked with `lock`."""
    await connection.execute(text(f"DROP TABLE {partition.name}"))


async def lock(connection: AsyncConnection, table: str) -> None:
    """Lock a table until this transaction ends, after transactions that use it have ended: what is
    read of other tables afterwards stays true. Raises an error that `reason_to_skip` explains when
    that takes longer than half a second."""
    await connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
    await connection.execute(text(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE"))


def reason_to_skip(error: DBAPIError) -> str | None:
    """Return why partitions cannot be changed now, where that breaks nothing; else None."""
    return _REASONS_TO_SKIP.get(sqlstate(error))


async def _missing_days(
    connection: AsyncConnection, table: str, prefix: Prefix, *, now: datetime
) -> list[datetime]:
    """Return the days, from today, that no partition covers."""
    ranges = [one for one in await list_partitions(connection, table) if one.until is not None]
    days = [midnight(now) + _DAY * ahead for ahead in range(DAYS_AHEAD + 1)]
    missing = []
    for day in days:
        first, last = first_id_at(prefix, day), first_id_at(prefix, day + _DAY)
        # another range may begin within the day: the first one ends where the table was converted
        if not any((one.since or "") < last and first < (one.until or "") for one in ranges):
            missing.append(day)
    return missing


async def _create(connection: AsyncConnection, table: str, prefix: Prefix, *, now: datetime) -> int:
    await connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
    # one process at a time: the others then find nothing missing
    await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    created = 0
    for day in await _missing_days(connection, table, prefix, now=now):
        since, until = first_id_at(prefix, day), first_id_at(prefix, day + _DAY)
        rows = await connection.execute(
            text(f"SELECT 1 FROM {table}_default WHERE id >= :since AND id < :until LIMIT 1"),  # noqa: S608
            {"since": since, "until": until},
        )
        if rows.first() is not None:
            # Moving its rows would take a lock. They stay there, and retention deletes them in
            # batches.
            log.warning(
                "The default partition has rows of this day, so the day gets no partition.",
                table=table,
                day=str(day),
            )
            continue
        name = f"{table}_{day:%Y%m%d}"
        # LIKE and ATTACH, because PARTITION OF would lock the table against readers
        await connection.execute(text(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)"))
        await connection.execute(
            text(
                f"ALTER TABLE {table} ATTACH PARTITION {name} "
                f"FOR VALUES FROM ('{since}') TO ('{until}')"
            )
        )
        created += 1
    return created
