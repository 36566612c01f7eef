"""PostgreSQL's partitions are created ahead, dropped past their age, and never in the way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, text, update

from activities.retention import RetentionActivities
from hookfast.ids import new_id
from hookfast.retention.ages import RetentionRunInput, SweepInput, Swept
from hookfast.storage.database import partitions
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
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
    create_partitions,
    drop_partitions,
    left,
)
from tests.integration.storage.retention.retention_run import activity_at
from tests.support.postgresql import PostgresqlServer
from tests.support.query_plan import explain

pytestmark = pytest.mark.anyio


@pytest.fixture
async def postgresql(postgresql_url: str) -> AsyncIterator[Database]:
    async with Database(postgresql_url) as database:
        yield database


async def names(database: Database, table: str) -> list[str]:
    async with database.read() as connection:
        return [one.name for one in await partitions.list_partitions(connection, table)]


async def sweep(database: Database, name: str, **ages: timedelta) -> tuple[Swept, list[Any]]:
    """Run one sweep at NOW, and return its result and the partitions that it reports as pinned."""
    retention = RetentionActivities(database=database, ages=AGES | ages, clock=lambda: NOW)
    environment = activity_at(NOW)
    run_id = new_id("ret", NOW)
    await environment.run(retention.begin_retention, RetentionRunInput(run_id, False))
    swept = await environment.run(retention.sweep_rows, SweepInput(run_id, name, False))
    async with database.read() as connection:
        rows = await retention_runs.sweeps(connection, run_id)
    return swept, rows[name].pinned


async def test_days_ahead_have_partitions_from_the_start(
    postgresql_server: PostgresqlServer,
) -> None:
    with postgresql_server.without_tables() as url:
        async with Database(url) as database:
            before = datetime.now(UTC)
            await migrate(database)
            first = min(await names(database, "events"))
            today = datetime.strptime(first.rpartition("_")[2], "%Y%m%d").replace(tzinfo=UTC)
            assert today.date() in {before.date(), datetime.now(UTC).date()}
            days = [f"{today + DAY * day:%Y%m%d}" for day in range(DAYS_AHEAD + 1)]
            for name in PARTITIONED:
                expected = [f"{name}_{day}" for day in days]
                assert await names(database, name) == [*expected, f"{name}_default"]
            assert await partitions.create_ahead(database, now=today) == 0
            # the next day one more is created for each table
            assert await partitions.create_ahead(database, now=today + DAY) == len(PARTITIONED)


async def test_row_is_stored_in_the_partition_of_its_day(postgresql: Database) -> None:
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    for at in (midnight - timedelta(milliseconds=1), midnight):
        await add_event(postgresql, at)
    async with postgresql.read() as connection:
        rows = await connection.execute(text("SELECT tableoid::regclass::text FROM events"))
        assert sorted(rows.scalars()) == ["events_20261120", "events_20261121"]


async def test_rows_of_a_day_without_partition_are_stored_and_deleted_in_batches(
    postgresql: Database,
) -> None:
    await drop_partitions(postgresql)
    old = await add_event(postgresql, BEFORE)
    new = await add_event(postgresql, NOW + DAY)
    # creating partitions loses no row of the default partition, of that day or another
    assert await partitions.create_ahead(postgresql, now=NOW) > 0
    found = await names(postgresql, "events")
    assert "events_20261120" in found
    assert "events_20261121" not in found  # its rows stay in the default partition
    assert await left(postgresql, Event) == {old, new}
    swept, pinned = await sweep(postgresql, "events")
    assert (swept.deleted, swept.partitions, pinned) == (1, 0, [])
    assert await left(postgresql, Event) == {new}


async def test_old_partition_is_dropped_with_its_rows(
    postgresql: Database,
) -> None:
    await create_partitions(postgresql, CUTOFF - 2 * DAY, days=3)
    kept = await add_attempt(postgresql, "dlv_1", CUTOFF)
    for at in (BEFORE, BEFORE - DAY, BEFORE - DAY):
        await add_attempt(postgresql, "dlv_1", at)
    swept, pinned = await sweep(postgresql, "attempts")
    assert (swept.deleted, swept.kept, swept.partitions, pinned) == (3, 0, 2, [])
    assert await left(postgresql, Attempt) == {kept}
    assert (await names(postgresql, "attempts"))[0] == f"attempts_{CUTOFF:%Y%m%d}"


async def test_old_partition_with_a_kept_row_loses_only_its_other_rows(
    postgresql: Database,
) -> None:
    await create_partitions(postgresql, CUTOFF - 2 * DAY, days=3)
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
    # it is dropped once its row is not needed any more
    async with postgresql.write() as connection:
        await connection.execute(
            update(Delivery.__table__).values(status="delivered", finished_at=BEFORE)
        )
    await sweep(postgresql, "deliveries")
    swept, pinned = await sweep(postgresql, "events")
    assert (swept.deleted, swept.partitions, pinned) == (1, 1, [])
    assert name not in await names(postgresql, "events")


async def test_partition_of_a_busy_table_is_dropped_in_a_later_run(
    postgresql: Database,
) -> None:
    """A lock that is not available soon is given up, so that nobody waits behind it."""
    await create_partitions(postgresql, CUTOFF - DAY, days=1)
    await add_event(postgresql, BEFORE)
    async with postgresql.read() as reader:
        await reader.execute(select(Event.__table__.c.id))
        swept, pinned = await sweep(postgresql, "events")
        assert swept.partitions == 0
        assert [pin["partition"] for pin in pinned] == [f"events_{BEFORE:%Y%m%d}"]
        # its rows were deleted in a batch while the reader still reads
        assert swept.deleted == 1
    swept, pinned = await sweep(postgresql, "events")
    assert (swept.partitions, pinned) == (1, [])


async def test_role_that_does_not_own_the_tables_deletes_in_batches(postgresql: Database) -> None:
    await create_partitions(postgresql, CUTOFF - DAY, days=1)
    await add_event(postgresql, BEFORE)
    async with postgresql.write() as connection:
        for statement in (
            "CREATE ROLE sweeper",
            "GRANT ALL ON ALL TABLES IN SCHEMA public TO sweeper",
            "SET SESSION AUTHORIZATION sweeper",
        ):
            await connection.execute(text(statement))
    # the pool has this one connection, which stays the role's
    assert await partitions.create_ahead(postgresql, now=NOW + 30 * DAY) == 0
    swept, pinned = await sweep(postgresql, "events")
    assert (swept.deleted, swept.partitions) == (1, 0)
    assert [pin["reason"] for pin in pinned] == ["The database role does not own the tables."]


async def test_partitions_are_created_beside_a_writer(postgresql: Database) -> None:
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
        assert await create_partitions(postgresql, BEFORE, days=1) == len(PARTITIONED)


async def test_deliverys_attempts_are_only_searched_from_its_day_on(
    postgresql: Database,
) -> None:
    await create_partitions(postgresql, NOW - 4 * DAY, days=3)
    delivery = new_id("dlv", NOW - 2 * DAY)
    early = await add_attempt(postgresql, delivery, NOW - 2 * DAY - timedelta(hours=20))
    late = await add_attempt(postgresql, delivery, NOW)
    statement = select(Attempt.__table__.c.id).where(attempts.where_delivery_in([delivery]))
    async with postgresql.read() as connection:
        found = set((await connection.execute(statement)).scalars())
        plan = await explain(connection, statement)
    assert found == {early, late}  # also of a worker whose clock is behind by less than a day
    assert f"attempts_{NOW - 3 * DAY:%Y%m%d}" in plan
    assert f"attempts_{NOW - 4 * DAY:%Y%m%d}" not in plan


async def test_event_is_searched_in_its_day_only(postgresql: Database) -> None:
    event = await add_event(postgresql, NOW)
    async with postgresql.read() as connection:
        statement = select(Event.__table__.c.body).where(Event.__table__.c.id.in_([event]))
        plan = await explain(connection, statement)
    assert f"events_{NOW:%Y%m%d}" in plan
    assert "Append" not in plan
