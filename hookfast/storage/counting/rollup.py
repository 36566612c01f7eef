"""Deletes old figures of minutes, whose hours have figures of their own, and adds old figures of
hours up by day. Also deletes figures past their age, and rows whose number has become 0.

The figures of a day are at its first minute, so a row needs no mark, and what is added late to an
old hour is moved by the next run. Each piece is a transaction that deletes what it adds: a crash
between two pieces changes no sum.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Integer,
    Select,
    String,
    Table,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import hour_of, minute_of
from hookfast.storage.counting import folding
from hookfast.storage.counting.reading import HOURS_KEPT, MINUTES_KEPT
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Figure, Gauge, GaugeTotal

_SCOPES_AT_ONCE = 100
_ROWS_AT_ONCE = 2_000
"""Rows that one transaction moves: on SQLite, every other writer waits for it (some 20 ms)."""
_ENDPOINTS_AT_ONCE = 500

_FIGURES: Table = Figure.__table__
_F = _FIGURES.c
_GAUGES: Table = Gauge.__table__
_G = _GAUGES.c
_DAY: Final = 24 * 60

Heartbeat = Callable[[str], None]


class Ages(NamedTuple):
    """Before `hours` there are no figures of minutes, before `days` those of hours are of whole
    days, and those before `kept` are deleted: minutes counted from 1970 (UTC)."""

    hours: int
    days: int
    kept: int


class Moved(NamedTuple):
    """How many rows of `figures` a piece replaced by those of their hour or day, and how many past
    their age it deleted."""

    rolled_up: int
    deleted: int


class _Piece(NamedTuple):
    """Rows of these scopes, from a minute to before another one."""

    scopes: Sequence[str]
    since: int
    before: int


Record = Callable[[AsyncConnection, Moved], Awaitable[None]]
"""Records what a piece did, in its transaction."""


def ages(now: datetime, *, kept_since: datetime | None) -> Ages:
    """Return the ages of figures at this time. `kept_since` is a midnight (UTC); None: for ever."""
    days = minute_of(now - HOURS_KEPT)
    return Ages(
        hours=hour_of(minute_of(now - MINUTES_KEPT)),
        days=days - days % _DAY,
        kept=0 if kept_since is None else minute_of(kept_since),
    )


async def roll_up(
    database: Database, old: Ages, *, record: Record, heartbeat: Heartbeat = lambda _: None
) -> None:
    """Delete or add up the old figures of every scope, scope by scope. `heartbeat` is called with
    the last scope of each piece that is done."""
    after = ""
    while scopes := await _scopes_after(database, after):
        for range_ in _ranges(old, scopes):
            async for piece in _pieces(database, old, range_):
                begun = time.monotonic()
                async with database.write() as connection:
                    await folding.lock(connection, wait=True)
                    await record(connection, await _move(connection, old, piece))
                heartbeat(piece.scopes[-1])
                # As long as it took, so that others who wait for SQLite's one writer get a turn.
                await asyncio.sleep(time.monotonic() - begun)
        after = scopes[-1]
        heartbeat(after)


async def delete_empty_gauges(database: Database, *, heartbeat: Heartbeat = lambda _: None) -> None:
    """Delete the totals that are 0, and the rows of gauges that are, some endpoints at a time."""
    async with database.write() as connection:
        await folding.lock(connection, wait=True)
        await connection.execute(DELETE_EMPTY_TOTALS)
    after = ""
    while True:
        async with database.read() as connection:
            page = list((await connection.execute(NEXT_GAUGES, {"after": after})).scalars())
            if not page:
                return
            some = {"first": page[0], "last": page[-1]}
            is_needed = (await connection.execute(EMPTY_GAUGES, some)).first() is not None
        if is_needed:
            async with database.write() as connection:
                await folding.lock(connection, wait=True)
                await connection.execute(DELETE_EMPTY_GAUGES, some)
        after = page[-1]
        heartbeat(after)


NEXT_GAUGES: Final = (
    select(_G.endpoint_id)
    .where(_G.endpoint_id > bindparam("after"))
    .distinct()
    .order_by(_G.endpoint_id)
    .limit(_ENDPOINTS_AT_ONCE)
)
"""Selects the next endpoints that have gauges."""
_IS_EMPTY: Final = (
    _G.endpoint_id.between(bindparam("first"), bindparam("last")),
    _G.number == 0,
)
EMPTY_GAUGES: Final = select(_G.endpoint_id).where(*_IS_EMPTY).limit(1)
DELETE_EMPTY_TOTALS: Final = delete(GaugeTotal.__table__).where(GaugeTotal.__table__.c.number == 0)
DELETE_EMPTY_GAUGES: Final = delete(_GAUGES).where(*_IS_EMPTY)


def _next_scopes() -> Select[Any]:
    """Select the next scopes, each with one look-up in the primary key."""
    least = func.min(_F.scope)
    scopes = select(least.label("scope")).where(_F.scope > bindparam("after")).cte(recursive=True)
    following = select(least).where(_F.scope > scopes.c.scope).scalar_subquery()
    scopes = scopes.union_all(select(following).where(scopes.c.scope.is_not(None)))
    return select(scopes.c.scope).where(scopes.c.scope.is_not(None)).limit(_SCOPES_AT_ONCE)


NEXT_SCOPES: Final = _next_scopes()

_HOURS = bindparam("hours", type_=Integer)
_DAYS = bindparam("days", type_=Integer)
_KEPT = bindparam("kept", type_=Integer)
_IS_OF_HOURS: Final = or_(_F.scope.startswith(folding.BY_HOUR), _F.scope.endswith(folding.BY_TYPE))
_IS_MOVED: Final = and_(_IS_OF_HOURS, _F.at < _DAYS, _F.at % _DAY != 0)
_IS_OLD_MINUTE: Final = and_(~_IS_OF_HOURS, _F.at < _HOURS)
_IS_PAST_AGE: Final = _F.at < _KEPT
_PIECE: Final = (
    _F.scope.in_(bindparam("scopes", type_=String, expanding=True)),
    _F.at >= bindparam("since", type_=Integer),
    _F.at < bindparam("before", type_=Integer),
)
_IS_OLD: Final = (*_PIECE, or_(_IS_MOVED, _IS_OLD_MINUTE, _IS_PAST_AGE, _F.number == 0))

OLD_ROWS: Final = (
    select(_F.scope, func.count().label("rows"), func.min(_F.at).label("first"))
    .where(*_IS_OLD)
    .group_by(_F.scope)
    .order_by(_F.scope)
)
"""Selects for each of some scopes how many rows are to be moved or deleted, and the first time."""
LAST_OF_PIECE: Final = (
    select(_F.at).where(*_IS_OLD).order_by(_F.at).offset(bindparam("offset")).limit(1)
)
"""Selects the time up to which a scope's rows are as many as one transaction moves."""


def _sums() -> Select[Any]:
    """Select what a piece's rows add to their days."""
    day = _F.at - _F.at % _DAY
    rows = (
        select(_F.scope, day.label("at"), _F.event_type, _F.kind, _F.bucket, _F.number)
        .where(*_PIECE, _IS_MOVED)
        .subquery()
        .c
    )
    key = (rows.scope, rows.at, rows.event_type, rows.kind, rows.bucket)
    number = func.sum(rows.number)
    # "true": after a SELECT, SQLite would take the ON of ON CONFLICT for a join's
    return select(*key, number).where(true()).group_by(*key).having(number != 0)


ADD: Final = {
    "postgresql": folding.adding(postgresql, _FIGURES, _sums()),
    "sqlite": folding.adding(sqlite, _FIGURES, _sums()),
}
DELETE_MOVED: Final = delete(_FIGURES).where(*_PIECE, or_(_IS_MOVED, _IS_OLD_MINUTE))
DELETE_PAST_AGE: Final = delete(_FIGURES).where(*_PIECE, _IS_PAST_AGE)
DELETE_EMPTY: Final = delete(_FIGURES).where(*_PIECE, _F.number == 0)


async def _scopes_after(database: Database, scope: str) -> list[str]:
    async with database.read() as connection:
        return list((await connection.execute(NEXT_SCOPES, {"after": scope})).scalars())


def _ranges(old: Ages, scopes: Sequence[str]) -> Iterator[_Piece]:
    """Yield the ranges of these scopes that have old rows. Hours are read when they become days,
    and once before, on the day after that of their minutes: most numbers that become 0 have done so
    by then. Others stay until their hour becomes a day; nobody sees them."""
    hours = [scope for scope in scopes if _is_of_hours(scope)]
    if minutes := [scope for scope in scopes if not _is_of_hours(scope)]:
        yield _Piece(minutes, 0, old.hours)
    if hours:
        yield _Piece(hours, 0, old.days)
        yield _Piece(hours, old.hours - _DAY, old.hours)


def _is_of_hours(scope: str) -> bool:
    return scope.startswith(folding.BY_HOUR) or scope.endswith(folding.BY_TYPE)


async def _pieces(database: Database, old: Ages, range_: _Piece) -> AsyncIterator[_Piece]:
    """Yield pieces of a range, each with about as many old rows as one transaction moves."""
    async with database.read() as connection:
        found = (await connection.execute(OLD_ROWS, _values(old, range_))).all()
    together: list[Any] = []
    for row in found:
        if row.rows > _ROWS_AT_ONCE:
            async for piece in _parts(database, old, _all_of([row], range_)):
                yield piece
            continue
        if sum(one.rows for one in together) + row.rows > _ROWS_AT_ONCE:
            yield _all_of(together, range_)
            together = []
        together.append(row)
    if together:
        yield _all_of(together, range_)


def _all_of(rows: Sequence[Any], range_: _Piece) -> _Piece:
    first = min(row.first for row in rows)
    return _Piece([row.scope for row in rows], _day_of(first), range_.before)


async def _parts(database: Database, old: Ages, piece: _Piece) -> AsyncIterator[_Piece]:
    """Yield the parts of a piece of one scope that has too many rows, the oldest first."""
    while True:
        async with database.read() as connection:
            last = await connection.scalar(
                LAST_OF_PIECE, {**_values(old, piece), "offset": _ROWS_AT_ONCE}
            )
        if last is None:
            yield piece
            return
        yield piece._replace(before=last + 1)
        piece = piece._replace(since=_day_of(last))  # what is before it has been moved


async def _move(connection: AsyncConnection, old: Ages, piece: _Piece) -> Moved:
    """Do one piece."""
    values = _values(old, piece)
    deleted = (await connection.execute(DELETE_PAST_AGE, values)).rowcount
    await connection.execute(ADD[connection.dialect.name], values)
    moved = (await connection.execute(DELETE_MOVED, values)).rowcount
    await connection.execute(DELETE_EMPTY, values)
    return Moved(moved, deleted)


def _values(old: Ages, piece: _Piece) -> Mapping[str, Any]:
    return {**old._asdict(), **piece._asdict()}


def _day_of(minute: int) -> int:
    return minute - minute % _DAY
