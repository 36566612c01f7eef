"""Fills a database by copying the events, deliveries and attempts that it has, with their figures.

An event is copied with all that follows from it: its ids and times move by the same number of
seconds, so that a copy is as consistent as its original. The copies of events that have ended fill
the days evenly. Of the others there are few, as in a real system, and they are the newest.

`Tally` says what an original counts. The entries of its copies have that at their own times, in
whole hours or days where only those are kept, and `folding` adds them up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    MetaData,
    Table,
    Text,
    insert,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateIndex, DropIndex

from bench.pages import counted
from hookfast.clock import utc_now
from hookfast.deliveries.figures import Owner
from hookfast.storage.counting import folding, rollup
from hookfast.storage.database import partitions
from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Attempt, Delivery, Event, FigureEntry

_PIECE: Final = 50_000
"""Deliveries that are copied in one transaction."""
_MOST_OPEN: Final = 5_000
"""Deliveries that have not ended."""
_TABLES: Final[tuple[Table, ...]] = (Event.__table__, Delivery.__table__, Attempt.__table__)
_IDS: Final = ("id", "event_id", "delivery_id")
_KEPT: Final = frozenset({"next_attempt_at", "due_at", "recheck_at", "deliver_at"})
"""Times that stay as they are, so that copies of what waits are not overdue."""
_COUNTED: Final = tuple(
    each for each in FigureEntry.__table__.c if each.name not in ("id", "at", "number")
)
"""The columns of an entry that are the same for every copy of an event."""

_metadata = MetaData()
_originals = Table(
    "bench_originals",
    _metadata,
    Column("original", Integer, primary_key=True),
    Column("is_open", Boolean, nullable=False),
)
"""The events that are copied."""
_ids = Table(
    "bench_ids",
    _metadata,
    Column("id", Text, primary_key=True),
    Column("original", Integer, nullable=False),
    Column("prefix", Text, nullable=False),
    Column("ms", BigInteger, nullable=False),
    Column("rest", Text, nullable=False),
)
"""The ids of the events, and of their deliveries and attempts, each in three parts: the time is
between the others."""
_counts = Table(
    "bench_counts",
    _metadata,
    Column("original", Integer, nullable=False),
    Column("ms", BigInteger, nullable=False),
    *(Column(each.name, each.type, nullable=False) for each in _COUNTED),
    Column("counted", Integer, nullable=False),
)
"""What each event counts, and when; `ms` is 0 for a gauge without a time."""
_copies = Table(
    "bench_copies",
    _metadata,
    Column("original", Integer, nullable=False),
    Column("seconds", BigInteger, nullable=False),
)
"""The copies of a piece: of which event, and by how much they are earlier."""


@dataclass(frozen=True, slots=True)
class _Originals:
    """The number of events to copy, and of their deliveries: `open` ones are of events of which
    some have not ended."""

    events: int
    ended: int
    open: int


@dataclass(frozen=True, slots=True)
class _Dialect:
    """SQL that the databases do not share."""

    hex: str
    earlier: str
    position: str


_DIALECTS: Final = {
    "postgresql": _Dialect(
        hex="lpad(to_hex({}), 12, '0')",
        earlier="t.{name} - c.seconds * interval '1 second'",
        position="hookfast_feed_position(pg_current_xact_id())",
    ),
    "sqlite": _Dialect(
        hex="printf('%012x', {})",
        earlier="strftime('%Y-%m-%dT%H:%M:%S', substr(t.{name}, 1, 19), -c.seconds || ' seconds')"
        " || substr(t.{name}, 20)",
        position="t.position - c.seconds * 1000000",
    ),
}
_POSTGRESQL_SETTINGS: Final = {
    "synchronous_commit": "off",
    "work_mem": "'256MB'",
    "maintenance_work_mem": "'512MB'",
}


async def fill(
    database: Database,
    rows: int,
    *,
    days: float,
    progress: Callable[[str, int], None] = lambda step, done: None,
) -> None:
    """Copy until there are at least so many deliveries of the last `days`. Nothing else may use the
    database. `progress` is called with the step and how many deliveries are there."""
    database, now = database.background, utc_now()
    await _create_partitions(database, now - timedelta(days=days), now)
    await folding.fold(database)
    async with database.write() as connection:
        await _set(connection)
        originals = await _keep_originals(connection)
        for index in _indexes():
            await connection.execute(DropIndex(index))
    done = originals.ended + originals.open
    total = -(-max(0, rows - done) // originals.ended)
    few = min(total, max(0, _MOST_OPEN // max(1, originals.open) - 1))
    for first, last in _pieces(total, max(1, _PIECE // originals.ended)):
        async with database.write() as connection:
            await _set(connection)
            await connection.execute(
                _CHOOSE,
                {
                    "first": first,
                    "last": last,
                    "few": few,
                    "events": originals.events,
                    "step": days * 86_400 / total,
                },
            )
            for table in _TABLES:
                await connection.execute(text(_copying(table, connection.dialect.name)))
            await connection.execute(_COUNT, _edges(now))
            await connection.execute(_copies.delete())
            await folding.add_up(connection)
        done += (last - first) * originals.ended
        progress("rows", done)
    async with database.write() as connection:
        await _set(connection)
        await connection.execute(_DELETE_OLD_MINUTES, _edges(now))
    for index in _indexes():
        progress(str(index.name), done)
        async with database.write() as connection:
            await _set(connection)
            await connection.execute(CreateIndex(index))
    async with database.write() as connection:
        for table in _TABLES:
            await connection.execute(text(f"DROP TABLE bench_{table.name}"))
        await connection.run_sync(_metadata.drop_all)


def _indexes() -> list[Any]:
    return sorted((one for table in _TABLES for one in table.indexes), key=lambda one: one.name)


def _pieces(total: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of copies, the oldest first."""
    for end in range(total, 0, -size):
        yield max(0, end - size), end


async def _set(connection: AsyncConnection) -> None:
    if connection.dialect.name == "postgresql":
        for name, value in _POSTGRESQL_SETTINGS.items():
            await connection.execute(text(f"SET LOCAL {name} = {value}"))


async def _create_partitions(database: Database, since: datetime, until: datetime) -> None:
    while since < until:
        await partitions.create_ahead(database, now=since)
        since += timedelta(days=partitions.DAYS_AHEAD)


async def _keep_originals(connection: AsyncConnection) -> _Originals:
    """Copy the rows that are there to tables of their own, with what they count."""
    await connection.run_sync(_metadata.create_all)
    events, deliveries, attempts = _TABLES
    ids = (await connection.execute(select(events.c.id).order_by(events.c.id))).scalars()
    numbers = {id_: number for number, id_ in enumerate(ids)}
    count = len(numbers)
    counts: list[dict[str, Any]] = []
    owners: dict[str, Owner] = {}
    unfinished: set[int] = set()
    for row in await connection.execute(select(deliveries)):
        number = numbers[row.id] = numbers[row.event_id]
        owners[row.id] = owner = Owner(row.tenant_id, row.endpoint_id, row.event_type)
        if row.finished_at is None:
            unfinished.add(number)
        counts += counted.of_delivery(number, owner, row)
    for row in await connection.execute(select(attempts)):
        number = numbers[row.id] = numbers[row.delivery_id]
        counts += counted.of_attempt(number, owners[row.delivery_id], row)
    open_ones = sum(numbers[id_] in unfinished for id_ in owners)
    await connection.execute(
        insert(_originals),
        [{"original": number, "is_open": number in unfinished} for number in range(count)],
    )
    await connection.execute(insert(_ids), [_in_parts(*one) for one in numbers.items()])
    await connection.execute(insert(_counts), counts)
    for table in _TABLES:
        await connection.execute(
            text(
                f"CREATE TABLE bench_{table.name} AS SELECT i.original, t.* "  # noqa: S608
                f"FROM {table.name} t JOIN bench_ids i ON i.id = t.id"
            )
        )
    return _Originals(count, len(owners) - open_ones, open_ones)


def _in_parts(id_: str, number: int) -> dict[str, Any]:
    prefix, _, digits = id_.partition("_")
    ms = int(digits[:12], 16)
    return {"id": id_, "original": number, "prefix": f"{prefix}_", "ms": ms, "rest": digits[12:]}


_CHOOSE: Final = text("""
    INSERT INTO bench_copies (original, seconds)
    WITH RECURSIVE n (copy) AS (
        SELECT CAST(:first AS INTEGER)
        UNION ALL SELECT copy + 1 FROM n WHERE copy + 1 < CAST(:last AS INTEGER)
    )
    SELECT o.original, 1 + CAST(
        CAST(:step AS DOUBLE PRECISION)
        * (n.copy + CAST(o.original AS DOUBLE PRECISION) / CAST(:events AS INTEGER)) AS INTEGER
    )
    FROM bench_originals o, n
    WHERE NOT o.is_open OR n.copy < CAST(:few AS INTEGER)
""")


def _copying(table: Table, dialect_name: str) -> str:
    """Return the statement that inserts the copies of a table's rows."""
    dialect = _DIALECTS[dialect_name]
    values, joins = {}, []
    for column in table.c:
        name = column.name
        values[name] = f"t.{name}"
        if name in _IDS:
            joins.append(f"JOIN bench_ids of_{name} ON of_{name}.id = t.{name}")
            time = dialect.hex.format(f"of_{name}.ms - c.seconds * 1000")
            values[name] = f"of_{name}.prefix || {time} || of_{name}.rest"
        elif isinstance(column.type, UtcDateTime) and name not in _KEPT:
            values[name] = dialect.earlier.format(name=name)
        elif name == "position":
            values[name] = dialect.position
    return (
        f"INSERT INTO {table.name} ({', '.join(values)}) "  # noqa: S608 - names of ours
        f"SELECT {', '.join(values.values())} "
        f"FROM bench_copies c JOIN bench_{table.name} t ON t.original = c.original "
        f"{' '.join(joins)} ORDER BY 1"
    )


_NAMES: Final = ", ".join(each.name for each in _COUNTED)
_COUNT: Final = text(f"""
    INSERT INTO figure_entries (at, {_NAMES}, number)
    SELECT at, {_NAMES}, sum(counted)
    FROM (
        SELECT {_NAMES}, counted,
            CASE WHEN minute < :days AND NOT gauge THEN minute - minute % 1440
                WHEN minute < :hours OR gauge THEN minute - minute % 60
                ELSE minute END AS at
        FROM (
            SELECT k.*, CASE WHEN k.ms = 0 THEN 0
                ELSE CAST((k.ms - c.seconds * 1000) / 60000 AS INTEGER) END AS minute
            FROM bench_copies c JOIN bench_counts k ON k.original = c.original
        ) AS counted_at
    ) AS rounded
    GROUP BY at, {_NAMES}
""")  # noqa: S608 - names of ours


_DELETE_OLD_MINUTES: Final = text("DELETE FROM figures WHERE scope NOT LIKE '%/%' AND at < :hours")
"""As the daily run does: figures by the hour are kept."""


def _edges(now: datetime) -> Mapping[str, int]:
    """Return the minutes before which figures are of hours, and of days."""
    ages = rollup.ages(now, kept_since=None)
    return {"hours": ages.hours, "days": ages.days}
