"""Figures are counted with the record, and agree with the rows before and after they are added
up."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Table, delete, func, select

from bench import recount
from hookfast.deliveries.figures import Numbers, minute_of, time_of_minute
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.ids import time_of
from hookfast.storage.counting import folding, gauges, reading
from hookfast.storage.counting.reading import Scope
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Endpoint, Figure, FigureEntry
from tests.integration.storage.deliveries.stored_lives import BEFORE, NOON, seed_life
from tests.support.figures import count_rows
from tests.support.seed import EVENT_TYPE, seed_deliveries

pytestmark = pytest.mark.anyio

_ENTRIES: Table = FigureEntry.__table__
_WAITING = {
    "pending": 2,
    "retrying": 1,
    "held": 1,
    "paused": 1,
    "dead:retries_exhausted": 1,
    "gone:gone": 1,
}
_STATUSES = {one: "pending" if one in ("pending", "limited") else one for one in BEFORE}


async def _lives(database: Database, endpoint: str) -> datetime:
    """Store a delivery of each status, all counted. Return the minute of the first one."""
    deliveries = [await seed_life(database, endpoint, before) for before in BEFORE]
    # `seed_life` inserts rows that nothing counts, and then counts how they change
    differences = await recount.differences(database)
    assert {key.kind for key in differences} <= {"pending", "delivery:pending"}
    await count_rows(database)
    created = time_of(deliveries[0])
    assert created is not None
    return time_of_minute(minute_of(created))


@pytest.mark.parametrize("folded", [False, True])
async def test_figures_agree_with_the_rows_before_and_after_they_are_added_up(
    database: Database, endpoint: str, folded: bool
) -> None:
    created = await _lives(database, endpoint)
    if folded:
        assert await folding.fold(database)
        async with database.read() as connection:
            left = await connection.scalar(select(func.count()).select_from(_ENTRIES))
        assert left == 0
    assert await recount.differences(database) == {}
    async with database.read() as connection:
        edges = [created + number * timedelta(minutes=1) for number in range(-1, 4)]
        for scope in (Scope(), Scope(endpoint_id=endpoint)):
            steps = await reading.steps(connection, scope, edges)
            statuses: Counter[str] = Counter()
            for one in steps:
                statuses.update({status.value: n for status, n in one.deliveries.items() if n})
            assert statuses == Counter(_STATUSES.values())
            [ended] = await reading.steps(connection, scope, [NOON, NOON + timedelta(minutes=1)])
            assert ended.ended == {
                (DeliveryStatus.DELIVERED, ""): 1,
                (DeliveryStatus.DEAD, "retries_exhausted"): 1,
                (DeliveryStatus.GONE, "gone"): 1,
                (DeliveryStatus.CANCELLED, ""): 1,
            }
            assert sum(ended.delivery_ms.values()) == 1
        day = created.replace(hour=0, minute=0)
        by_type = await reading.steps_by_type(
            connection, Scope(), [day, day + timedelta(days=1), day + timedelta(days=2)]
        )
        assert list(by_type) == [EVENT_TYPE]
        assert sum(one.accepted for one in by_type[EVENT_TYPE]) == len(BEFORE)
        tenant = await connection.scalar(select(Endpoint.__table__.c.tenant_id))
        assert tenant is not None
        for scope in (Scope(endpoint_id=endpoint), Scope(tenant), Scope()):
            waiting = await gauges.read(connection, scope)
            assert {row.kind: row.number for row in waiting} == _WAITING
        of_tenant = await gauges.of_tenants(connection, [tenant, "tnt_of_nobody"])
        assert {(row.tenant_id, row.kind): row.number for row in of_tenant} == {
            (tenant, kind): number for kind, number in _WAITING.items()
        }


async def test_adding_up_twice_changes_nothing(database: Database, endpoint: str) -> None:
    await _lives(database, endpoint)
    assert await folding.fold(database)
    assert await folding.fold(database) == 0
    assert await recount.differences(database) == {}


async def test_a_missing_figure_is_found(database: Database, endpoint: str) -> None:
    await seed_deliveries(database, endpoint, 3)
    await count_rows(database)
    await folding.fold(database)
    figures = Figure.__table__
    async with database.write() as connection:
        await connection.execute(delete(figures).where(figures.c.scope == endpoint))
    found = await recount.differences(database)
    assert [(key.kind, number) for key, number in found.items()] == [("delivery:pending", -3)]


async def test_steps_may_begin_and_end_between_round_times(
    database: Database, endpoint: str
) -> None:
    await _lives(database, endpoint)
    hour = datetime(2026, 11, 20, 12, tzinfo=UTC)
    edges = [hour - timedelta(minutes=1), hour, hour + timedelta(minutes=5)]
    edges += [hour + timedelta(minutes=7)]
    async with database.read() as connection:
        steps = await reading.steps(connection, Scope(), edges, prefix="ended:")
    assert [one.ended.total() for one in steps] == [0, 4, 0]


@pytest.mark.parametrize("folded", [False, True])
async def test_steps_of_hours_have_the_figures_of_their_minutes(
    database: Database, endpoint: str, folded: bool
) -> None:
    await _lives(database, endpoint)
    if folded:
        await folding.fold(database)
    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    first = datetime(2026, 11, 20, 11, tzinfo=UTC)
    # the first and the last step are shorter: of an hour's figures, some count in neither
    edges = [first + 59 * minute, first + hour, first + 2 * hour, first + 2 * hour + minute]
    by_minute = [edges[0] + number * minute for number in range(63)]
    for scope in (Scope(), Scope(endpoint_id=endpoint)):
        async with database.read() as connection:
            steps = await reading.steps(connection, scope, edges)
            minutes = await reading.steps(connection, scope, by_minute)
        assert [one.ended.total() for one in steps] == [0, 4, 0]
        for step, part in zip(steps, (minutes[:1], minutes[1:61], minutes[61:]), strict=True):
            whole = Numbers()
            for one in part:
                whole.update(one)
            assert step == whole


_FIRST_DAY, _LAST_MINUTE = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    "edges",
    [
        [_FIRST_DAY, _LAST_MINUTE],
        [NOON.replace(hour=0), _LAST_MINUTE],
        [_FIRST_DAY, NOON.replace(hour=0) + timedelta(days=1)],
    ],
)
async def test_a_step_may_be_of_thousands_of_years(
    database: Database, endpoint: str, edges: list[datetime]
) -> None:
    await _lives(database, endpoint)
    async with database.read() as connection:
        [step] = await reading.steps(connection, Scope(), edges, prefix="ended:")
    assert step.ended.total() == 4
