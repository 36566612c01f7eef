"""Reads figures: what was added up, and the entries that were not yet, in one statement, which sees
one state of the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Select,
    Table,
    bindparam,
    cast,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import Numbers, hour_of, minute_of, time_of_minute
from hookfast.storage.counting.folding import BY_HOUR, BY_TYPE, EVERYTHING
from hookfast.storage.database.json_object import JsonObject
from hookfast.storage.tables import Figure, FigureEntry

MINUTES_KEPT = timedelta(days=2)
"""Older figures are of whole hours (UTC)."""
HOURS_KEPT = timedelta(days=40)
"""Older figures are of whole days (UTC)."""
_LAST_MINUTE = datetime.max.replace(second=0, microsecond=0, tzinfo=UTC)
_LARGEST = 2**31 - 1  # what the column `at` can hold

_ENTRIES: Table = FigureEntry.__table__
_E = _ENTRIES.c
_FIGURES: Table = Figure.__table__
_F = _FIGURES.c


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose figures are read: an endpoint's, a tenant's, or all."""

    tenant_id: str | None = None
    endpoint_id: str | None = None

    @property
    def name(self) -> str:
        """Its name in `figures`."""
        return self.endpoint_id or self.tenant_id or EVERYTHING

    @property
    def owner(self) -> str | None:
        """The column that has its name in the rows that it has; None if it has all."""
        if self.endpoint_id is not None:
            return "endpoint_id"
        return None if self.tenant_id is None else "tenant_id"


def precision(moment: datetime, *, now: datetime) -> timedelta:
    """Return the length of the time that figures of this moment are of: an hour or a day if it is
    older, to be on the safe side, than what the daily run leaves."""
    age = now - moment
    if age < MINUTES_KEPT:
        return timedelta(minutes=1)
    return timedelta(hours=1) if age < HOURS_KEPT else timedelta(days=1)


def is_exact(moment: datetime, *, now: datetime) -> bool:
    """Whether figures can be read from or up to this moment."""
    since_epoch = moment - time_of_minute(0)
    return not since_epoch % precision(moment, now=now)


def extended(since: datetime, until: datetime, *, now: datetime) -> tuple[datetime, datetime]:
    """Extend a time to whole minutes, hours or days, of which figures are kept."""
    while not is_exact(since, now=now):
        since -= (since - time_of_minute(0)) % precision(since, now=now)
    left = (time_of_minute(0) - until) % precision(until, now=now)
    return since, until + left if until < _LAST_MINUTE else until


async def oldest(connection: AsyncConnection, scope: Scope) -> datetime | None:
    """Return the beginning of the oldest minute, hour or day that has figures; None if none has."""
    rows = await connection.execute(
        oldest_statement(scope.owner),
        {"scope": scope.name, "hourly": BY_HOUR + scope.name, "owner": scope.name},
    )
    found = [row for row in rows if row.at is not None]
    hour = min((row.at for row in found if row.hourly), default=None)
    minute = min((row.at for row in found if not row.hourly), default=None)
    # an old hour has no minutes
    if minute is None or (hour is not None and hour < hour_of(minute)):
        minute = hour
    return None if minute is None else time_of_minute(minute)


@lru_cache
def oldest_statement(owner: str | None) -> CompoundSelect[Any]:
    """Return the statement of `oldest`."""
    hourly, minutes = literal(True).label("hourly"), literal(False).label("hourly")
    return union_all(
        select(hourly, func.min(_F.at).label("at")).where(_F.scope == bindparam("hourly")),
        select(minutes, func.min(_F.at)).where(_F.scope == bindparam("scope")),
        select(minutes, func.min(_E.at)).where(~_E.gauge, *owned(_E, owner)),
    )


async def steps(
    connection: AsyncConnection, scope: Scope, edges: Sequence[datetime], *, prefix: str = ""
) -> list[Numbers]:
    """Return the figures between each two of these times: of all kinds, or those that begin with
    `prefix`. The times are exact (`is_exact`), and equally far apart; only the first and the last
    step may be shorter than the others."""
    found = [Numbers() for _ in edges[1:]]
    for step, _, kind, buckets in await _read(connection, scope, edges, prefix=prefix):
        _add(found[step], kind, buckets)
    return found


async def types_by_frequency(
    connection: AsyncConnection, scope: Scope, edges: Sequence[datetime]
) -> list[str]:
    """Return the event types that have figures between the first and the last of these times, which
    are whole hours (UTC): first those with the most deliveries and attempts."""
    counted = await steps_by_type(connection, scope, [edges[0], edges[-1]])
    sums = Counter({name: one.accepted + one.attempted for name, [one] in counted.items()})
    return [name for name, _ in sums.most_common()]


async def steps_by_type(
    connection: AsyncConnection,
    scope: Scope,
    edges: Sequence[datetime],
    *,
    only: Sequence[str] | None = None,
) -> dict[str, list[Numbers]]:
    """Return the figures of each event type that has some, or of `only` these, as `steps` does,
    without durations. All times are whole hours (UTC)."""
    found: dict[str, list[Numbers]] = {}
    rows = await _read(connection, scope, edges, by_type=True, only=only)
    for step, event_type, kind, buckets in rows:
        if (numbers := found.get(event_type)) is None:
            numbers = found[event_type] = [Numbers() for _ in edges[1:]]
        _add(numbers[step], kind, buckets)
    return found


def _add(numbers: Numbers, kind: str, buckets: str) -> None:
    for bucket, number in orjson.loads(buckets).items():
        numbers.add(kind, int(bucket), number)


async def _read(
    connection: AsyncConnection,
    scope: Scope,
    edges: Sequence[datetime],
    *,
    by_type: bool = False,
    only: Sequence[str] | None = None,
    prefix: str = "",
) -> list[Any]:
    if len(edges) < 2:
        return []
    # later minutes than the column can hold have no figures
    minutes = [min(minute_of(edge), _LARGEST) for edge in edges]
    length = max(end - start for start, end in pairwise(minutes))
    hours_since, hours_until = _whole_hours(minutes)
    rows = await connection.execute(
        figures_statement(
            scope.owner, by_type=by_type, of_types=only is not None, filtered=bool(prefix)
        ),
        {
            "scope": scope.name + (BY_TYPE if by_type else ""),
            "hourly": BY_HOUR + scope.name,
            "hours_since": hours_since,
            "hours_until": hours_until,
            "owner": scope.name,
            "since": minutes[0],
            "until": minutes[-1],
            # the first step may be shorter: count from where it would have begun
            "origin": minutes[1] - length,
            "length": length,
            "prefix": prefix,
            "event_types": list(only or ()),
        },
    )
    return list(rows)


def _whole_hours(edges: Sequence[int]) -> tuple[int, int]:
    """Return from which minute to which figures of whole hours have the steps between these
    minutes; the last minute twice if they have not."""
    since, until = edges[0] + -edges[0] % 60, edges[-1] - edges[-1] % 60
    if since >= until or any(edge % 60 for edge in edges[1:-1]):
        return edges[-1], edges[-1]
    return since, until


@lru_cache
def figures_statement(
    owner: str | None, *, by_type: bool, filtered: bool, of_types: bool
) -> Select[Any]:
    """Return the statement of figures: rows of `step`, `event_type` (empty unless they are read by
    type), `kind` and `buckets`, the numbers by bucket as a JSON object. A row for each bucket would
    be ten times as many, and fetching them takes longer than all the rest."""
    at = _E.at - _E.at % 60 if by_type else _E.at
    parts: tuple[tuple[str, str, str], ...] = (("scope", "since", "until"),)
    if not by_type:
        parts = (
            ("scope", "since", "hours_since"),
            ("hourly", "hours_since", "hours_until"),
            ("scope", "hours_until", "until"),
        )
    added = [
        select(_F.at, _F.event_type, _F.kind, _F.bucket, _F.number).where(
            _F.scope == bindparam(scope),
            *_within(_F.at, since, until),
            *_of_types(_F.event_type, of_types),
            *_named(_F.kind, filtered),
        )
        for scope, since, until in parts
    ]
    new = select(
        at.label("at"),
        (_E.event_type if by_type else literal("")).label("event_type"),
        _E.kind,
        _E.bucket,
        _E.number,
    ).where(
        ~_E.gauge,
        *owned(_E, owner),
        *_within(at),
        *_of_types(_E.event_type, of_types),
        *_named(_E.kind, filtered),
    )
    rows = union_all(*added, new).subquery().c
    key = (
        # BigInteger: a step may be of thousands of years
        (
            (rows.at - bindparam("origin", type_=BigInteger))
            // bindparam("length", type_=BigInteger)
        ).label("step"),
        *(rows.event_type, rows.kind, rows.bucket),
    )
    # in the select list twice, as a bound parameter in GROUP BY is not the one in SELECT
    numbers = select(*key, rows.number).subquery().c
    grouped = (numbers.step, numbers.event_type, numbers.kind, numbers.bucket)
    number = func.sum(numbers.number)
    counted = select(*grouped, cast(number, BigInteger).label("number"))
    found = counted.group_by(*grouped).having(number != 0).subquery().c
    place = (found.step, found.event_type, found.kind)
    return select(*place, JsonObject(found.bucket, found.number).label("buckets")).group_by(*place)


def owned(columns: Any, owner: str | None) -> tuple[ColumnElement[bool], ...]:
    """Return the condition that a row belongs to the owner whose id is the parameter `owner`."""
    return () if owner is None else (columns[owner] == bindparam("owner"),)


def _within(
    at: ColumnElement[int], since: str = "since", until: str = "until"
) -> tuple[ColumnElement[bool], ...]:
    return at >= bindparam(since), at < bindparam(until)


def _of_types(column: ColumnElement[str], chosen: bool) -> tuple[ColumnElement[bool], ...]:
    # an expression: with the bare column, PostgreSQL would look each type up in each hour
    return ((column + "").in_(bindparam("event_types", expanding=True)),) if chosen else ()


def _named(kind: ColumnElement[str], filtered: bool) -> tuple[ColumnElement[bool], ...]:
    return (kind.startswith(bindparam("prefix")),) if filtered else ()
