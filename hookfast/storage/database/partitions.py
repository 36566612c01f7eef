"""PostgreSQL's partitions of what grows: a day each (UTC), by ranges of ids, which begin with the
time. SQLite keeps plain tables.

Each table has a DEFAULT partition, so that a day for which nobody made one fails no insert. Where
such a partition exists PostgreSQL can neither attach nor detach another without an exclusive lock
(`DETACH … CONCURRENTLY` is refused), so every lock here is given up when it is not had at once:
writers that queue behind it wait for half a second at most.
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
from hookfast.storage.database.engine import Database

PARTITIONED: Final[Mapping[str, Prefix]] = {"attempts": "att", "events": "evt", "inbox": "inb"}
DAYS_AHEAD: Final = 7

_DAY: Final = timedelta(days=1)
_LOCK: Final = 0x686F6F6B70617274 >> 1  # an arbitrary key for pg_advisory_xact_lock ("hookpart")
_LOCK_TIMEOUT: Final = "500ms"
_NOT_NOW: Final = {  # by SQLSTATE
    "55P03": "The table was busy; it is tried again.",
    "42501": "The database role may not: the tables are another's.",
}
_BOUND = r"\('([a-z0-9_]+)'\)"
_RANGE: Final = re.compile(rf"FOR VALUES FROM {_BOUND} TO {_BOUND}")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition and the ids in it: from `since` to before `until`. Both are None for the DEFAULT
    partition, which takes what no other does."""

    table: str
    name: str
    since: str | None
    until: str | None


async def listed(connection: AsyncConnection, table: str) -> list[Partition]:
    """A table's partitions, the oldest first."""
    rows = await connection.execute(
        text(
            "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i "
            "JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass(:table)"
        ),
        {"table": table},
    )
    found = []
    for name, bounds in rows:
        match = _RANGE.fullmatch(bounds)
        since, until = match.groups() if match else (None, None)
        found.append(Partition(table=table, name=name, since=since, until=until))
    return sorted(found, key=lambda one: (one.until is None, one.until or ""))


async def make_ahead(database: Database, *, now: datetime) -> int:
    """Make the partitions of today and the days ahead that are missing, and return how many. Where
    the lock is not had, or the role may not, that is left: there is the DEFAULT partition."""
    if database.kind != "postgresql":
        return 0
    made = 0
    for table, prefix in PARTITIONED.items():
        async with database.read() as connection:
            if not await _missing(connection, table, prefix, now=now):
                continue
        try:
            async with database.write() as connection:
                made += await _make(connection, table, prefix, now=now)
        except DBAPIError as error:
            if (reason := not_now(error)) is None:
                raise
            log.warning("Partitions are not made now.", table=table, reason=reason)
    return made


async def drop(connection: AsyncConnection, partition: Partition) -> None:
    """Drop a partition whose table is locked by `lock` in this transaction."""
    await connection.execute(text(f"DROP TABLE {partition.name}"))


async def lock(connection: AsyncConnection, table: str) -> None:
    """Wait for whoever uses the table, and keep others out until this transaction ends: what it
    reads of other tables afterwards is true then. Raises an error that `not_now` knows when that
    takes longer than half a second."""
    await connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
    await connection.execute(text(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE"))


def not_now(error: DBAPIError) -> str | None:
    """Why partitions stay as they are, where nothing is broken by that; None for other errors."""
    return _NOT_NOW.get(getattr(error.orig, "sqlstate", None) or "")


async def _missing(
    connection: AsyncConnection, table: str, prefix: Prefix, *, now: datetime
) -> list[datetime]:
    """The days, from today, that no partition holds."""
    ranges = [one for one in await listed(connection, table) if one.until is not None]
    days = [midnight(now) + _DAY * ahead for ahead in range(DAYS_AHEAD + 1)]
    found = []
    for day in days:
        first, last = first_id_at(prefix, day), first_id_at(prefix, day + _DAY)
        # another range may begin within the day: the first one ends where the table was converted
        if not any((one.since or "") < last and first < (one.until or "") for one in ranges):
            found.append(day)
    return found


async def _make(connection: AsyncConnection, table: str, prefix: Prefix, *, now: datetime) -> int:
    await connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
    # one process at a time: the others then find nothing missing
    await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    made = 0
    for day in await _missing(connection, table, prefix, now=now):
        since, until = first_id_at(prefix, day), first_id_at(prefix, day + _DAY)
        taken = await connection.execute(
            text(f"SELECT 1 FROM {table}_default WHERE id >= :since AND id < :until LIMIT 1"),  # noqa: S608
            {"since": since, "until": until},
        )
        if taken.first() is not None:
            # Its rows would have to be moved under a lock. They stay, and go in batches.
            log.warning("A day's rows are in the default partition.", table=table, day=str(day))
            continue
        name = f"{table}_{day:%Y%m%d}"
        # LIKE and ATTACH, for PARTITION OF would lock the table against readers
        await connection.execute(text(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)"))
        await connection.execute(
            text(
                f"ALTER TABLE {table} ATTACH PARTITION {name} "
                f"FOR VALUES FROM ('{since}') TO ('{until}')"
            )
        )
        made += 1
    return made
