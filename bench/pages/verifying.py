"""Compares all figures and gauges of a database with counts of its rows, by scope and kind over all
time, and for all tenants by minute over the newest hours, by hour over the newest day and by day
over all days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Table, case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Trigger
from hookfast.deliveries.figures import DEAD, FIRST, LATER, QUEUED, WAITING, answer_of
from hookfast.deliveries.lane import Place
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.ids import first_id_at, time_of
from hookfast.storage.counting import reading
from hookfast.storage.counting.folding import BY_HOUR, BY_TYPE, EVERYTHING
from hookfast.storage.counting.reading import Scope
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Attempt, Delivery, Endpoint, Figure, Gauge

_DELIVERIES: Table = Delivery.__table__
_D = _DELIVERIES.c
_A = Attempt.__table__.c
_E = Endpoint.__table__.c
_F = Figure.__table__.c
_G = Gauge.__table__.c
_GAUGE: Final = "now:"
_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)
_MINUTE: Final = timedelta(minutes=1)

_Counted = Counter[tuple[str, str]]
"""Numbers by scope and kind."""


@dataclass(frozen=True, slots=True)
class Verified:
    """How many numbers were compared, and a line for each that is wrong."""

    compared: int
    wrong: list[str]


async def verify(
    database: Database, *, progress: Callable[[str], None] = lambda step: None
) -> Verified:
    """Compare everything. All must have been added up (`folding`); reads every row."""
    async with database.background.read() as connection:
        progress("deliveries")
        rows = await _count_deliveries(connection)
        progress("attempts")
        rows += await _count_attempts(connection)
        progress("figures")
        found = await _figures(connection)
        progress("steps")
        steps = await _steps(connection)
    wrong = [
        f"{scope} {kind}: {found[scope, kind]} counted, {number} by rows"
        for (scope, kind), number in rows.items()
        if number != found[scope, kind]
    ]
    wrong += [
        f"{scope} {kind}: {number} counted, none by rows"
        for (scope, kind), number in found.items()
        if number and (scope, kind) not in rows
    ]
    wrong += [
        f"from {start}: {one} counted, {two} by rows" for start, one, two in steps if one != two
    ]
    return Verified(len(rows) + len(steps), wrong)


async def _count_deliveries(connection: AsyncConnection) -> _Counted:
    queued = func.coalesce(_D.place == Place.QUEUED, False)
    key = (_D.tenant_id, _D.endpoint_id, _D.status, func.coalesce(_D.reason, ""), queued)
    counted: _Counted = Counter()
    for tenant, endpoint, status, reason, is_queued, number in await connection.execute(
        select(*key, func.count()).group_by(*key)
    ):
        kinds = [f"delivery:{status}"]
        if DeliveryStatus(status).finished:
            kinds.append(f"ended:{status}:{reason}")
        for kind in kinds:
            for scope in (EVERYTHING, tenant, endpoint):
                for name in (BY_HOUR + scope, scope + BY_TYPE):
                    counted[name, kind] += number
        if status in WAITING:
            counted[endpoint, _GAUGE + status] += number
            if is_queued:
                counted[endpoint, _GAUGE + QUEUED] += number
        elif status in DEAD:
            counted[endpoint, f"{_GAUGE}{status}:{reason}"] += number
    return counted


async def _count_attempts(connection: AsyncConnection) -> _Counted:
    endpoints = await connection.execute(select(_E.id, _E.tenant_id))
    tenants = {row.id: row.tenant_id for row in endpoints}
    first = case((_A.trigger == Trigger.FIRST, FIRST), else_=LATER)
    key = (_A.endpoint_id, _A.result, _A.status_code, first)
    counted: _Counted = Counter()
    for endpoint, result, code, turn, number in await connection.execute(
        select(*key, func.count()).group_by(*key)
    ):
        kind = f"attempt:{answer_of(Result(result), code)}:{turn}"
        for scope in (EVERYTHING, tenants[endpoint], endpoint):
            for name in (BY_HOUR + scope, scope + BY_TYPE):
                counted[name, kind] += number
    return counted


async def _figures(connection: AsyncConnection) -> _Counted:
    counted: _Counted = Counter()
    for scope, kind, number in await connection.execute(
        select(_F.scope, _F.kind, func.sum(_F.number))
        .where(_F.scope.contains("/"))
        .group_by(_F.scope, _F.kind)
    ):
        counted[scope, kind] = int(number)
    number = func.sum(_G.number)
    key = (_G.endpoint_id, _G.kind)
    rows = await connection.execute(select(*key, number).group_by(*key).having(number != 0))
    for endpoint, kind, gauge in rows:
        counted[endpoint, _GAUGE + kind] = int(gauge)
    return counted


async def _steps(connection: AsyncConnection) -> list[tuple[datetime, int, int]]:
    """Return the deliveries accepted in each step: when it begins, as counted, and by rows."""
    oldest, newest = (await connection.execute(select(func.min(_D.id), func.max(_D.id)))).one()
    since, until = time_of(oldest), time_of(newest)
    assert since is not None
    assert until is not None
    end = until.replace(minute=0, second=0, microsecond=0) + _HOUR
    hours = [end - _HOUR * hour for hour in range(24, -1, -1)]
    day = datetime(since.year, since.month, since.day, tzinfo=UTC)
    days = [day + _DAY * number for number in range((utc_now() - day).days + 2)]
    minutes = [end - _MINUTE * minute for minute in range(180, -1, -1)]
    found = [await _accepted(connection, edges) for edges in (minutes, hours, days)]
    return [step for steps in found for step in steps]


async def _accepted(
    connection: AsyncConnection, edges: Sequence[datetime]
) -> list[tuple[datetime, int, int]]:
    counted = await reading.steps(connection, Scope(), edges, prefix="delivery:")
    found = []
    for number, step in enumerate(counted):
        first, last = (first_id_at("dlv", edges[number + more]) for more in (0, 1))
        rows = await connection.scalar(
            select(func.count()).select_from(_DELIVERIES).where(_D.id >= first, _D.id < last)
        )
        found.append((edges[number], step.accepted, rows or 0))
    return found
