"""Adds the entries that transactions have written to `figures`, `gauges` and `gauge_totals`, and
deletes them.

Every process does so every few seconds, also with the entries of others: those of a process that
was killed are added up by another. Adding and deleting is one transaction, so a crash neither loses
nor doubles a number; and readers count entries too, so that figures are exact at any time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    SmallInteger,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    func,
    literal,
    select,
    text,
    true,
    union_all,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import NO_BUCKET
from hookfast.outage_log import DATABASE
from hookfast.storage.database.availability import sqlstate
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Figure, FigureEntry, Gauge, GaugeTotal

EVERYTHING: Final = "all"
"""The scope of all tenants."""
BY_TYPE: Final = "/types"
"""Follows a scope whose numbers are of one event type each."""
BY_HOUR: Final = "hours/"
"""Stands before a scope whose numbers are of whole hours. Charts of days read these: the minutes of
an hour have forty times as many rows. Other scopes have minutes, of two days."""

DEAD_BY: Final = ("endpoint_id", "event_type", "at")
"""What dead letters are also totalled by, in scopes such as `all/at`."""

EVERY_SECONDS: Final = 10.0
"""How often each process adds the entries up."""
ENTRIES_AT_ONCE: Final = 10_000
"""Entries that one transaction adds up. If each is of another endpoint, that takes 0.2 s on SQLite,
where every other writer waits, and 0.7 s on PostgreSQL, far from the time limit of a statement."""
_LOCK: Final = 0x686F6F6B66696775  # an arbitrary key of an advisory lock ("hookfigu")
_SERIALIZATION_FAILURE: Final = "40001"

_ENTRIES: Table = FigureEntry.__table__
_FIGURES: Table = Figure.__table__
_GAUGES: Table = Gauge.__table__
_TOTALS: Table = GaugeTotal.__table__
_E = _ENTRIES.c
_IS_CHOSEN: Final = _E.id <= bindparam("last", type_=_E.id.type)


def _figures() -> Select[Any]:
    """Select what the entries add to `figures`: nine rows for each, by scope."""
    owner = (_E.at, _E.tenant_id, _E.endpoint_id, _E.event_type, _E.kind, _E.bucket)
    number = func.sum(_E.number)
    # Summed first: of 40,000 entries of a hundred endpoints, one in ten is left. Most deliveries
    # have come and gone since the last time, so that their `pending` is 0.
    entries = select(*owner, number.label("number")).where(_IS_CHOSEN, ~_E.gauge)
    e = entries.group_by(*owner).having(number != 0).cte("counted").c
    hour = e.at - e.at % 60
    plain = (literal(""), e.at, e.bucket)
    hourly = (literal(""), hour, e.bucket)
    typed = (e.event_type, hour, literal(NO_BUCKET, SmallInteger))
    parts = []
    for scope in (cast(literal(EVERYTHING), Text), e.tenant_id, e.endpoint_id):
        for name, (event_type, at, bucket) in (
            (scope, plain),
            (literal(BY_HOUR, Text) + scope, hourly),
            (scope + BY_TYPE, typed),
        ):
            parts.append(
                select(
                    name.label("scope"),
                    cast(at, Integer).label("at"),
                    cast(event_type, Text).label("event_type"),
                    e.kind,
                    bucket.label("bucket"),
                    e.number,
                )
            )
    rows = union_all(*parts).subquery().c
    key = (rows.scope, rows.at, rows.event_type, rows.kind, rows.bucket)
    # "true": after a SELECT, SQLite would take the ON of ON CONFLICT for a join's
    summed = func.sum(rows.number)
    return select(*key, summed).where(true()).group_by(*key).having(summed != 0)


def _gauges() -> Select[Any]:
    """Select what the entries add to `gauges`."""
    key = (_E.endpoint_id, _E.kind, _E.event_type, _E.at)
    summed = func.sum(_E.number)
    return (
        select(*key, func.min(_E.tenant_id), summed)
        .where(_IS_CHOSEN, _E.gauge)
        .group_by(*key)
        .having(summed != 0)
    )


def _totals() -> Select[Any]:
    """Select what the entries add to `gauge_totals`: two rows for each, by scope, and six more for
    a dead letter."""
    rows = union_all(
        *(
            select(scope.label("scope"), kind.label("kind"), _E.number).where(
                _IS_CHOSEN, _E.gauge, *conditions
            )
            for scope, kind, conditions in totals_of(_E)
        )
    )
    sums = rows.subquery().c
    summed = func.sum(sums.number)
    key = (sums.scope, sums.kind)
    return select(*key, summed).where(true()).group_by(*key).having(summed != 0)


def totals_of(gauges: Any) -> Iterator[tuple[Any, Any, Sequence[ColumnElement[bool]]]]:
    """Yield the scope and the kind of each total that rows with the columns of gauges are added to,
    and the conditions of these rows."""
    for scope in (cast(literal(EVERYTHING), Text), gauges.tenant_id):
        yield scope, gauges.kind, ()
        for name in DEAD_BY:
            # only gauges of dead letters have an event type
            yield scope + f"/{name}", cast(gauges[name], Text), (gauges.event_type != "",)


def adding(dialect: Any, table: Table, rows: Select[Any]) -> Any:
    """Return the statement that adds the numbers of these rows, which have the columns of the
    table, to those that are there."""
    names = [column.name for column in table.c]
    inserting = dialect.insert(table).from_select(names, rows)
    return inserting.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={"number": table.c.number + inserting.excluded.number},
    )


STATEMENTS: Final = {
    name: (
        adding(dialect, _FIGURES, _figures()),
        adding(dialect, _GAUGES, _gauges()),
        adding(dialect, _TOTALS, _totals()),
        delete(_ENTRIES).where(_IS_CHOSEN),
    )
    for name, dialect in (("postgresql", postgresql), ("sqlite", sqlite))
}
"""The statements that add entries up and delete them, by the database's kind."""
LAST_OF_PIECE: Final = select(
    func.max(select(_E.id).order_by(_E.id).limit(ENTRIES_AT_ONCE).subquery().c.id)
)
"""Selects the last entry that the next transaction adds up."""


async def fold(database: Database) -> int:
    """Add the entries up, and return how many there were. Leaves those that others write meanwhile,
    and all of them while another process adds them up."""
    async with database.read(quick=True) as connection:
        if (await connection.execute(select(_E.id).limit(1))).first() is None:
            return 0
    folded, piece = 0, ENTRIES_AT_ONCE
    while piece == ENTRIES_AT_ONCE:
        begun = time.monotonic()
        piece = await _fold_piece(database)
        folded += piece
        if database.kind == "sqlite" and piece == ENTRIES_AT_ONCE:
            # As long as it took, so that others who wait for the one writer get a turn.
            await asyncio.sleep(time.monotonic() - begun)
    return folded


async def _fold_piece(database: Database) -> int:
    try:
        async with database.write() as connection:
            if not await lock(connection, wait=False):
                return 0
            last = await connection.scalar(LAST_OF_PIECE)
            return 0 if last is None else await add_up(connection, last=last)
    except DBAPIError as error:
        if sqlstate(error) == _SERIALIZATION_FAILURE:  # another process was a moment earlier
            return 0
        raise


async def add_up(connection: AsyncConnection, *, last: int = sys.maxsize) -> int:
    """Add up and delete the entries up to this id, and return how many there were. The transaction
    sees one state of the database, and no other one adds up meanwhile (`lock`)."""
    for statement in STATEMENTS[connection.dialect.name]:
        done = await connection.execute(statement, {"last": last})
    return done.rowcount


async def lock(connection: AsyncConnection, *, wait: bool) -> bool:
    """Begin a transaction that alone changes `figures` and `gauges`, and return whether it does.

    If it does not wait, all of its statements see the database as it is at the first one: what is
    deleted is what was added. If it waits, they see what others have committed meanwhile.
    """
    if connection.dialect.name != "postgresql":
        return True
    if wait:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        return True
    await freeze(connection)
    locked = await connection.execute(
        text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _LOCK}
    )
    return bool(locked.scalar_one())


async def freeze(connection: AsyncConnection) -> None:
    """Begin a transaction whose statements all see one state of the database."""
    if connection.dialect.name == "postgresql":  # a transaction of SQLite sees one state anyway
        await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))


async def count(connection: AsyncConnection) -> int:
    """Return how many entries are not added up yet."""
    return (await connection.execute(select(func.count()).select_from(_ENTRIES))).scalar_one()


async def oldest(connection: AsyncConnection, *, before: int) -> int | None:
    """Return the id of the oldest entry of a figure of before this minute; None if there is
    none."""
    statement = select(_E.id).where(~_E.gauge, _E.at < before).order_by(_E.id).limit(1)
    return (await connection.execute(statement)).scalar_one_or_none()


async def fold_forever(database: Database) -> None:
    """Add up the entries every few seconds."""
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        try:
            await fold(database)
        except SQLAlchemyError as error:
            DATABASE.failed("Figures cannot be added up.", error=type(error).__name__)
