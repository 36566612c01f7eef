"""PostgreSQL's partitions are created ahead, dropped past their age, and never in the way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Select, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection
from temporalio.testing import ActivityEnvironment

from activities.retention import RetentionActivities
from hookfast.ids import new_id
from hookfast.retention.ages import RetentionRunInput, SweepInput, Swept
from hookfast.storage.database import partitions
from hookfast.storage.database.engine import Database
from hookfast.storage.database.partitions import DAYS_AHEAD, PARTITIONED
from hookfast.storage.deliveries import attempts
from hookfast.storage.retention import retention_runs
from hookfast.storage.tables import Attempt, Delivery, Event
from tests.integration.storage.retention.old_rows import (
    AGES,
    BEFORE,
    CUTOFF,
    DAY,
    NOW,
    add_attempt,
    add_delivery,
    add_event,
    in_daily_partitions,
    left,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def postgresql(postgresql_url: str) -> AsyncIterator[Database]:
    async with Database(postgresql_url) as database:
        yield database


async def names(database: Database, table: str) -> list[str]:
    async with database.read() as connection:
        return [one.name for one in await partitions.list_partitions(connection, table)]


async def explained(connection: AsyncConnection, statement: Select[Any]) -> str:
    """What PostgreSQL would do, in words."""
    literal = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
    return " ".join((await connection.exec_driver_sql(f"EXPLAIN {literal}")).scalars())


async def sweep(database: Database, name: str, **ages: timedelta) -> tuple[Swept, list[Any]]:
    """One sweep of a run at NOW, and which partitions it says are pinned."""
    done = RetentionActivities(database=database, ages=AGES | ages, clock=lambda: NOW)
    environment = ActivityEnvironment()
    run_id = new_id("ret", NOW)
    await environment.run(done.begin_retention, RetentionRunInput(run_id, False))
    swept = await environment.run(done.sweep_rows, SweepInput(run_id, name, False))
    async with database.read() as connection:
        rows = await retention_runs.sweeps(connection, run_id)
    return swept, rows[name].pinned


async def test_the_days_ahead_have_partitions_from_the_start(postgresql: Database) -> None:
    today = datetime.now(UTC)
    days = [f"{today + DAY * day:%Y%m%d}" for day in range(DAYS_AHEAD + 1)]
    for name in PARTITIONED:
        expected = [f"{name}_{day}" for day in days]
        assert await names(postgresql, name) == [*expected, f"{name}_default"]
    assert await partitions.create_ahead(postgresql, now=today) == 0
    # the next day one more of each is made
    assert await partitions.create_ahead(postgresql, now=today + DAY) == len(PARTITIONED)


async def test_a_row_lies_in_its_day(postgresql: Database) -> None:
    await in_daily_partitions(postgresql, NOW)
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    for at in (midnight - timedelta(milliseconds=1), midnight):
        await add_event(postgresql, at)
    async with postgresql.read() as connection:
        rows = await connection.execute(text("SELECT tableoid::regclass::text FROM events"))
        assert sorted(rows.scalars()) == ["events_20261120", "events_20261121"]


async def test_a_day_without_a_partition_fails_no_insert_and_goes_in_batches(
    postgresql: Database,
) -> None:
    await in_daily_partitions(postgresql)
    old = await add_event(postgresql, BEFORE)
    new = await add_event(postgresql, NOW + DAY)
    # neither that day's nor any other row in the default partition is lost when days are made
    assert await partitions.create_ahead(postgresql, now=NOW) > 0
    found = await names(postgresql, "events")
    assert "events_20261120" in found
    assert "events_20261121" not in found  # its rows are where they are
    assert await left(postgresql, Event) == {old, new}
    swept, pinned = await sweep(postgresql, "events")
    assert (swept.deleted, swept.partitions, pinned) == (1, 0, [])
    assert await left(postgresql, Event) == {new}


async def test_a_partition_past_its_age_is_dropped_with_what_is_in_it(
    postgresql: Database,
) -> None:
    await in_daily_partitions(postgresql, CUTOFF - 2 * DAY)
    kept = await add_attempt(postgresql, "dlv_1", CUTOFF)
    for at in (BEFORE, BEFORE - DAY, BEFORE - DAY):
        await add_attempt(postgresql, "dlv_1", at)
    swept, pinned = await sweep(postgresql, "attempts")
    assert (swept.deleted, swept.kept, swept.partitions, pinned) == (3, 0, 2, [])
    assert await left(postgresql, Attempt) == {kept}
    assert (await names(postgresql, "attempts"))[0] == f"attempts_{CUTOFF:%Y%m%d}"


async def test_a_partition_with_a_row_that_is_kept_stays_without_its_neighbours(
    postgresql: Database,
) -> None:
    await in_daily_partitions(postgresql, CUTOFF - 2 * DAY)
    event = await add_event(postgresql, BEFORE)
    delivery = await add_delivery(postgresql, event, BEFORE, status="paused")
    for _ in range(2):
        await add_event(postgresql, BEFORE)
        await add_event(postgresql, BEFORE - DAY)

    swept, pinned = await sweep(postgresql, "events")

    assert (swept.deleted, swept.kept, swept.partitions) == (4, 1, 1)
    assert await left(postgresql, Event) == {event}
    name = f"events_{BEFORE:%Y%m%d}"
    assert pinned == [{"partition": name, "reason": f"The delivery {delivery} (paused) is kept."}]
    # once nothing keeps it, it is dropped
    async with postgresql.write() as connection:
        await connection.execute(
            update(Delivery.__table__).values(status="delivered", finished_at=BEFORE)
        )
    await sweep(postgresql, "deliveries")
    swept, pinned = await sweep(postgresql, "events")
    assert (swept.deleted, swept.partitions, pinned) == (1, 1, [])
    assert name not in await names(postgresql, "events")


async def test_a_partition_whose_table_is_in_use_is_dropped_another_night(
    postgresql: Database,
) -> None:
    """Nobody waits for a lock that is not to be had: it is given up."""
    await in_daily_partitions(postgresql, CUTOFF - DAY)
    await add_event(postgresql, BEFORE)
    async with postgresql.read() as reader:
        await reader.execute(select(Event.__table__.c.id))
        swept, pinned = await sweep(postgresql, "events")
        assert swept.partitions == 0
        assert [pin["partition"] for pin in pinned] == [f"events_{BEFORE:%Y%m%d}"]
        # and while the reader still reads, its rows have gone in a batch
        assert swept.deleted == 1
    swept, pinned = await sweep(postgresql, "events")
    assert (swept.partitions, pinned) == (1, [])


async def test_a_role_that_owns_no_table_deletes_in_batches(postgresql: Database) -> None:
    await in_daily_partitions(postgresql, CUTOFF - DAY)
    await add_event(postgresql, BEFORE)
    async with postgresql.write() as connection:
        for statement in (
            "CREATE ROLE plain",
            "GRANT ALL ON ALL TABLES IN SCHEMA public TO plain",
            "SET SESSION AUTHORIZATION plain",
        ):
            await connection.execute(text(statement))
    # the pool has this one connection, which stays the role's
    assert await partitions.create_ahead(postgresql, now=NOW + 30 * DAY) == 0
    swept, pinned = await sweep(postgresql, "events")
    assert (swept.deleted, swept.partitions) == (1, 0)
    assert [pin["reason"] for pin in pinned] == [
        "The database role does not own the tables."
    ]


async def test_partitions_are_made_while_someone_writes(postgresql: Database) -> None:
    await in_daily_partitions(postgresql, NOW)
    async with postgresql.write() as writer:
        await writer.execute(
            insert(Event.__table__),
            {
                "id": new_id("evt", NOW),
                "type": "a.b.c",
                "body": b"{}",
                "traceparent": "00",
                "deliveries": 0,
                "created_at": NOW,
            },
        )
        assert await partitions.create_ahead(postgresql, now=NOW + DAY) == len(PARTITIONED)


async def test_a_delivery_s_attempts_are_not_looked_for_before_it_was_made(
    postgresql: Database,
) -> None:
    days = [NOW - 16 * DAY, NOW - 8 * DAY, NOW]
    await in_daily_partitions(postgresql, *days)
    delivery = new_id("dlv", NOW - 2 * DAY)
    early = await add_attempt(postgresql, delivery, NOW - 2 * DAY - timedelta(hours=20))
    late = await add_attempt(postgresql, delivery, NOW)
    statement = select(Attempt.__table__.c.id).where(attempts.where_delivery_in([delivery]))
    async with postgresql.read() as connection:
        found = set((await connection.execute(statement)).scalars())
        read = await explained(connection, statement)
    assert found == {early, late}  # a worker whose clock is behind by less than a day
    assert f"attempts_{NOW - 3 * DAY:%Y%m%d}" in read
    assert f"attempts_{NOW - 4 * DAY:%Y%m%d}" not in read


async def test_an_event_is_looked_for_in_its_day_only(postgresql: Database) -> None:
    await in_daily_partitions(postgresql, NOW)
    event = await add_event(postgresql, NOW)
    async with postgresql.read() as connection:
        statement = select(Event.__table__.c.body).where(Event.__table__.c.id.in_([event]))
        read = await explained(connection, statement)
    assert f"events_{NOW:%Y%m%d}" in read
    assert "Append" not in read
