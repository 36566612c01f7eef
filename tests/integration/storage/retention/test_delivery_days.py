"""Daily counts: what they contain, when a day is counted again, and that they outlive the rows."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, update

from activities.retention import RetentionActivities
from hookfast.ids import new_id
from hookfast.retention.ages import SWEEPS, Prepared, RetentionRunInput, SweepInput
from hookfast.storage.database.engine import Database
from hookfast.storage.retention import delivery_days
from hookfast.storage.tables import Attempt, Delivery
from tests.integration.storage.retention.old_rows import (
    AGES,
    BEFORE,
    CUTOFF,
    DAY,
    NOW,
    TENANT,
    add_attempt,
    add_delivery,
    add_endpoint,
    number_of,
)
from tests.integration.storage.retention.retention_run import activity_at

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)


async def prepare(database: Database, now: datetime) -> Prepared:
    retention = RetentionActivities(database=database, ages=AGES, clock=lambda: now)
    input = RetentionRunInput(new_id("ret", now), False)
    environment = activity_at(now)
    await environment.run(retention.begin_retention, input)
    return await environment.run(retention.prepare_retention, input)


async def sweep(database: Database, now: datetime) -> None:
    retention = RetentionActivities(database=database, ages=AGES, clock=lambda: now)
    input = RetentionRunInput(new_id("ret", now), False)
    environment = activity_at(now)
    await environment.run(retention.begin_retention, input)
    for name in SWEEPS[:3]:
        await environment.run(retention.sweep_rows, SweepInput(input.run_id, name, False))


async def days(database: Database, **chosen: Any) -> dict[date, dict[str, Any]]:
    """Return the counts other than 0, by day."""
    async with database.read() as connection:
        rows = await delivery_days.list_days(connection, since=date(2026, 1, 1), **chosen)
    return {
        row["day"]: {name: number for name, number in row.items() if number and name != "day"}
        for row in rows
    }


async def test_day_counts_deliveries_by_status_and_attempts_by_duration(
    database: Database,
) -> None:
    await add_endpoint(database)
    yesterday = NOW - DAY
    for status in ("delivered", "delivered", "dead", "gone", "cancelled", "held", "pending"):
        await add_delivery(database, "evt_1", yesterday, status=status)
    await add_delivery(database, "evt_1", NOW)  # today is not over
    for duration, result in ((10, "success"), (10.1, "success"), (5_000, "timeout"), (30e3, "dns")):
        await add_attempt(database, "dlv_1", yesterday, duration_ms=duration, result=result)

    assert (await prepare(database, NOW)).days == 1

    counted = {
        "delivered": 2,
        "dead": 1,
        "gone": 1,
        "cancelled": 1,
        "open": 2,
        "attempts": 4,
        "succeeded": 2,
        "duration_ms": 35_020.1,
        "le_10": 1,
        "le_25": 1,
        "le_5000": 1,
        "le_max": 1,
    }
    assert await days(database) == {yesterday.date(): counted}
    assert await days(database, tenant_id=TENANT) == {yesterday.date(): counted}
    assert await days(database, tenant_id="tnt_2") == {}


async def test_day_is_counted_again_while_it_can_change(database: Database) -> None:
    await add_endpoint(database)
    young, old = NOW - 2 * DAY, NOW - 20 * DAY
    await add_delivery(database, "evt_1", young)
    await add_delivery(database, "evt_1", old, status="paused")
    await add_delivery(database, "evt_1", old - DAY)
    assert (await prepare(database, NOW)).days == 3
    # a late delivery, one that ended, and one on a day that is not counted again
    await add_delivery(database, "evt_1", young + MINUTE)
    async with database.write() as connection:
        c = Delivery.__table__.c
        await connection.execute(
            update(Delivery.__table__).where(c.status == "paused").values(status="delivered")
        )
    await add_delivery(database, "evt_1", old - DAY)
    assert (await prepare(database, NOW + MINUTE)).days == 2
    assert await days(database) == {
        (old - DAY).date(): {"delivered": 1},
        old.date(): {"delivered": 1},
        young.date(): {"delivered": 2},
    }
    assert (await prepare(database, NOW + 2 * MINUTE)).days == 1  # nothing is open any more


async def test_counts_outlive_the_rows_and_survive_a_crash(database: Database) -> None:
    await add_endpoint(database)
    for at in (BEFORE, BEFORE, CUTOFF):
        delivery = await add_delivery(database, "evt_1", at, ended=at)
        await add_attempt(database, delivery, at)
    one = {"delivered": 1, "attempts": 1, "succeeded": 1, "duration_ms": 12.5, "le_25": 1}
    counted = {
        BEFORE.date(): {name: 2 * number for name, number in one.items()},
        CUTOFF.date(): one,
    }
    await prepare(database, NOW)
    assert await days(database) == counted
    # the worker dies half-way through deleting the day, and the run starts again
    async with database.write() as connection:
        c = Attempt.__table__.c
        await connection.execute(delete(Attempt.__table__).where(c.delivery_id == delivery))
        await connection.execute(delete(Attempt.__table__).where(c.delivery_id != delivery))
    await prepare(database, NOW + MINUTE)
    await sweep(database, NOW + MINUTE)
    await prepare(database, NOW + 2 * MINUTE)
    assert await number_of(database, Delivery) == 1
    assert (await days(database))[BEFORE.date()] == counted[BEFORE.date()]


async def test_final_day_is_never_counted_again(
    database: Database,
) -> None:
    await add_endpoint(database)
    await add_delivery(database, "evt_1", BEFORE)
    day = BEFORE.date()
    assert await delivery_days.count_day(database, day, final=True, now=NOW)
    await sweep(database, NOW)
    assert not await delivery_days.count_day(database, day, final=False, now=NOW)
    assert await days(database) == {day: {"delivered": 1}}
