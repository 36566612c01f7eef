"""Gauges and figures are compared with the rows in bounded pieces; gauges are corrected."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Table, and_, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bench import recount
from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action, Held
from hookfast.deliveries.outcome import Reason
from hookfast.ids import new_id
from hookfast.storage.counting import folding, gauges, totals
from hookfast.storage.counting.reading import Scope
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import lives
from hookfast.storage.figures import reconciliation
from hookfast.storage.figures.reconciliation import Drift
from hookfast.storage.retention import daily_dead_letters
from hookfast.storage.tables import Delivery, FigureEntry, Gauge
from tests.integration.storage.deliveries.stored_lives import BEFORE, FIRST, NOON, at, seed_life
from tests.integration.storage.retention.ended import NO_RETRIES, ended
from tests.integration.storage.retention.old_rows import add_attempt
from tests.support.figures import count_rows
from tests.support.seed import seed_deliveries, seed_endpoint

pytestmark = pytest.mark.anyio

_GAUGES: Table = Gauge.__table__
_G = _GAUGES.c
_D = Delivery.__table__.c


@pytest.fixture
async def lively(database: Database) -> list[str]:
    """Three endpoints with deliveries in every status, whose figures agree with the rows."""
    endpoints = [await seed_endpoint(database, f"https://example.com/{n}") for n in range(3)]
    for endpoint in endpoints:
        for before in BEFORE:
            await seed_life(database, endpoint, before)
    async with database.write() as connection:
        queued = _D.id == select(func.min(_D.id)).where(_D.status == "pending").scalar_subquery()
        await connection.execute(update(Delivery.__table__).where(queued).values(place="queued"))
    await count_rows(database)
    return endpoints


async def nothing(connection: AsyncConnection, drift: Drift) -> None:
    """Record nothing."""


async def compared(database: Database) -> tuple[list[list[str]], dict[tuple[str, str], int]]:
    """Return the endpoints of each page, and the drift by endpoint and gauge."""
    pages, drift = [], {}
    async for page in reconciliation.pages(database):
        pages.append(list(page.endpoint_ids))
        drift |= {(key.endpoint_id, key.kind): number for key, number in page.drift.items()}
    return pages, drift


async def correct(database: Database, endpoint: str) -> Drift:
    return await reconciliation.correct(database, [endpoint], record=nothing)


@pytest.mark.parametrize("folded", [False, True])
async def test_gauges_that_agree_are_left_alone(
    database: Database, lively: list[str], monkeypatch: pytest.MonkeyPatch, folded: bool
) -> None:
    monkeypatch.setattr(reconciliation, "ENDPOINTS_AT_ONCE", 2)
    if folded:
        await folding.fold(database)
    assert await compared(database) == ([sorted(lively)[:2], sorted(lively)[2:]], {})
    assert await correct(database, lively[0]) == {}


async def test_drift_of_each_gauge_is_found_and_corrected(
    database: Database, lively: list[str]
) -> None:
    await folding.fold(database)
    first, second, third = lively
    async with database.write() as connection:
        for kind, number in (("held", 5), ("queued", -1), ("dead:retries_exhausted", 2)):
            await connection.execute(
                update(_GAUGES)
                .where(_G.endpoint_id == first, _G.kind == kind)
                .values(number=_G.number + number)
            )
        await connection.execute(
            delete(_GAUGES).where(_G.endpoint_id == second, _G.kind == "gone:gone")
        )
        of_third = select(_GAUGES).where(_G.endpoint_id == third, _G.kind == "gone:gone")
        hour = (await connection.execute(of_third)).one()
        moved = {**hour._mapping, "at": hour.at + 60}
        await connection.execute(insert(_GAUGES), moved)  # of an hour in which nothing ended
        lost = {**hour._mapping, "kind": "paused", "at": 0, "event_type": "", "number": 3}
        await connection.execute(insert(_GAUGES), lost | {"endpoint_id": "ep_deleted"})
    expected = {
        (first, "held"): -5,
        (first, "queued"): 1,
        (first, "dead:retries_exhausted"): -2,
        (second, "gone:gone"): 1,
        (third, "gone:gone"): -1,
        ("ep_deleted", "paused"): -3,
    }
    _, drift = await compared(database)
    assert drift == expected
    found = await correct(database, first)
    assert reconciliation.in_words(found) == [
        "dead:retries_exhausted -2",
        "held -5",
        "queued +1",
    ]
    for endpoint in (second, third, "ep_deleted"):
        [key] = await correct(database, endpoint)
        assert key.tenant_id
    assert (await compared(database))[1] == {}
    await folding.fold(database)
    assert (await compared(database))[1] == {}
    assert await totals.correct(database)  # only the gauges had been changed
    assert await recount.differences(database) == {}


async def test_two_corrections_at_once_add_a_difference_once(
    database: Database, workers: list[Database], lively: list[str]
) -> None:
    async with database.write() as connection:
        await connection.execute(
            delete(FigureEntry.__table__).where(FigureEntry.__table__.c.kind == "held")
        )
    found = await asyncio.gather(*(correct(one, lively[0]) for one in workers))
    assert sorted(len(drift) for drift in found) == [0, 0, 1]
    assert [key for _, key in (await compared(database))[1]] == ["held", "held"]


async def test_changes_meanwhile_are_no_drift(
    database: Database, workers: list[Database], lively: list[str]
) -> None:
    """Lives change, dead letters are deleted and entries are added up while everything is compared,
    again and again; what truly differs is corrected exactly."""
    drifting = lively[0]
    waiting = [
        [
            delivery
            for endpoint in lively
            for delivery in await seed_deliveries(
                database, endpoint, 12, created_at=NOON, updated_at=NOON, due_at=NOON
            )
        ]
        for _ in workers[:2]
    ]
    await count_rows(database)
    await folding.fold(database)
    async with database.write() as connection:
        held = and_(_G.endpoint_id == drifting, _G.kind == "held")
        await connection.execute(update(_GAUGES).where(held).values(number=_G.number + 100))
    changing = [True, True]

    async def change(number: int) -> None:
        for delivery in waiting[number]:
            hold = Held(FIRST, Reason.CIRCUIT_OPEN, at(3600))
            end = ended(FIRST, 503, at(4), plan=NO_RETRIES)
            for seconds, fact in ((1, hold), (2, Action.PAUSE), (3, Action.RESUME), (5, end)):
                async with workers[number].write() as connection:
                    await lives.apply(connection, [(delivery, fact)], now=at(seconds))
        changing[number] = False

    async def upkeep() -> None:
        while any(changing):
            await folding.fold(workers[2])
            async with workers[2].write() as connection:
                await daily_dead_letters.expire(connection, finished_before=at(60), limit=3)
            await asyncio.sleep(0.01)

    async def compare() -> tuple[int, int]:
        times = corrected = 0
        while any(changing):
            times += 1
            _, drift = await compared(database)
            assert set(drift.items()) <= {((drifting, "held"), -100)}
            if times == 3:
                corrected += len(await correct(database, drifting))
        return times, corrected

    *_, (times, corrected) = await asyncio.gather(change(0), change(1), upkeep(), compare())
    assert times > 3
    assert corrected == 1
    assert (await compared(database))[1] == {}
    async with database.read() as connection:
        kept = [one for one in lively if one != drifting]
        kinds = await gauges.read(connection, Scope(endpoint_id=kept[0]))
        assert {row.kind for row in kinds} >= {"pending", "held"}


async def test_hours_are_compared_by_attempts_and_deliveries(
    database: Database, endpoint: str
) -> None:
    now = utc_now().replace(minute=30, second=0, microsecond=0)
    hour = now.replace(minute=0) - timedelta(hours=3)
    [delivery, _] = await seed_deliveries(database, endpoint, 2)
    for minutes in (-1, 0, 59, 60):
        await add_attempt(database, delivery, hour + timedelta(minutes=minutes))
    await count_rows(database)
    before = [one async for one in reconciliation.hours(database, now=now)]
    assert [one.start for one in before] == [
        now.replace(minute=0) - timedelta(hours=number) for number in range(1, 25)
    ]
    assert not any(one.differs for one in before)
    assert [one.attempts for one in before[1:4]] == [1, 2, 1]
    await folding.fold(database)
    await add_attempt(database, delivery, hour)  # counted by nobody
    async with database.write() as connection:
        await connection.execute(
            insert(Delivery.__table__), await copy_at(connection, delivery, hour)
        )
    [different] = [one async for one in reconciliation.hours(database, now=now) if one.differs]
    assert different.start == hour
    assert reconciliation.hour_in_words(different) == [
        "attempts 2, rows 3",
        "deliveries 0, rows 1",
    ]


async def copy_at(connection: AsyncConnection, delivery: str, moment: datetime) -> dict[str, Any]:
    """Return a row like this delivery's, with an id of this time."""
    row = (await connection.execute(select(Delivery.__table__).where(_D.id == delivery))).one()
    return {**row._mapping, "id": new_id("dlv", moment)}
