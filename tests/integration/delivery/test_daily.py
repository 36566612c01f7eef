"""The daily workflow notifies owners of dead letters, and retention deletes old ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select
from temporalio.client import Client, ScheduleOverlapPolicy
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment
from temporalio.worker import Worker

from activities.daily import DailyActivities
from hookfast.dispatch import schedules
from hookfast.ids import new_id
from hookfast.retention.daily import SCHEDULE_ID, Summarised
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoints
from hookfast.storage.retention import daily_dead_letters
from hookfast.storage.tables import Attempt, Delivery, EndpointHealth, Notice
from hookfast.workflow_request import CONTROL_QUEUE
from tests.integration.delivery.conftest import SANDBOX
from tests.integration.storage.retention.old_rows import add_attempt, number_of
from tests.support.seed import seed_delivery, seed_endpoint
from tests.support.waiting import eventually
from workflows.daily import DailyWorkflow

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

NOW = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
OWNERS = ["ann@shop.example", "bob@shop.example"]


@pytest.fixture
def activities(database: Database) -> DailyActivities:
    return DailyActivities(database=database, clock=lambda: NOW)


async def endpoint_of(database: Database, *owners: str) -> str:
    """Store an endpoint with these owners and return its id."""
    url = "https://shop.example/hooks"
    return await seed_endpoint(database, url, owner_emails=list(owners))


async def ended(
    database: Database, endpoint_id: str, at: datetime, *, status: str = "dead", attempts: int = 1
) -> str:
    """Store a delivery that ended at this time, with attempts, and return its id."""
    delivery_id = await seed_delivery(
        database, endpoint_id, status=status, finished_at=at, next_attempt_at=None
    )
    for number in range(attempts):
        await add_attempt(database, delivery_id, at, number=number + 1, id=new_id("att"))
    return delivery_id


async def stored_notices(database: Database) -> list[Any]:
    async with database.read() as connection:
        return list(await connection.execute(select(Notice.__table__)))


async def test_owners_are_notified_once_of_the_last_days_dead_letters(
    database: Database, activities: DailyActivities
) -> None:
    endpoint_id = await endpoint_of(database, *OWNERS)
    await ended(database, endpoint_id, NOW - 3 * HOUR)
    await ended(database, endpoint_id, NOW - 2 * HOUR, status="gone")
    await ended(database, endpoint_id, NOW - 2 * DAY)
    await ended(database, endpoint_id, NOW - 1 * HOUR, status="delivered")
    await ended(database, endpoint_id, NOW - 1 * HOUR, status="cancelled")
    async with database.write() as connection:
        await connection.execute(
            insert(EndpointHealth.__table__),
            {"endpoint_id": endpoint_id, "consecutive_failures": 2, "last_error": "500"},
        )

    environment = ActivityEnvironment()
    first = await environment.run(activities.summarise_dead_letters)
    again = await environment.run(activities.summarise_dead_letters)

    assert (first, again) == (Summarised(1, 2), Summarised(1, 0))
    rows = await stored_notices(database)
    assert sorted(row.email for row in rows) == OWNERS
    assert {(row.kind, row.episode) for row in rows} == {("dead_letters", NOW.toordinal())}
    assert rows[0].facts == {
        "dead": 2,
        "since": "2026-11-20T03:00:00.000000Z",
        "last_error": "500",
    }


async def test_owners_are_notified_once_a_day_per_endpoint(database: Database) -> None:
    endpoint_id = await endpoint_of(database, OWNERS[0])
    environment = ActivityEnvironment()
    for at, notices_added in ((NOW, 1), (NOW + 10 * HOUR, 0), (NOW + DAY, 1)):
        await ended(database, endpoint_id, at - HOUR)
        activities = DailyActivities(database=database, clock=lambda at=at: at)
        summarised = await environment.run(activities.summarise_dead_letters)
        assert summarised == Summarised(1, notices_added)


async def test_nobody_is_notified_of_a_deleted_endpoint_or_one_without_owners(
    database: Database, activities: DailyActivities
) -> None:
    ownerless, deleted = await endpoint_of(database), await endpoint_of(database, OWNERS[0])
    for endpoint_id in (ownerless, deleted):
        await ended(database, endpoint_id, NOW - HOUR)
    async with database.write() as connection:
        await endpoints.mark_deleted(connection, deleted, at=NOW)
    summarised = await ActivityEnvironment().run(activities.summarise_dead_letters)
    assert summarised == Summarised(1, 0)
    assert await stored_notices(database) == []


async def test_old_dead_letters_are_deleted_with_their_attempts(database: Database) -> None:
    endpoint_id = await endpoint_of(database)
    old = NOW - 31 * DAY
    for number in range(5):
        await ended(
            database, endpoint_id, old, status="gone" if number else "dead", attempts=number
        )
    kept = [
        await ended(database, endpoint_id, NOW - 29 * DAY),
        await ended(database, endpoint_id, old, status="delivered"),
        await ended(database, endpoint_id, old, status="cancelled"),
        await seed_delivery(database, endpoint_id),
    ]

    async def expire() -> int:
        async with database.write() as connection:
            return await daily_dead_letters.expire(
                connection, finished_before=NOW - 30 * DAY, limit=3
            )

    assert [await expire(), await expire(), await expire()] == [3, 2, 0]
    async with database.read() as connection:
        ids = await connection.execute(select(Delivery.__table__.c.id))
        assert set(ids.scalars()) == set(kept)
    assert await number_of(database, Attempt) == 3


@pytest.fixture
async def unscheduled(temporal: WorkflowEnvironment) -> AsyncIterator[Client]:
    yield temporal.client
    await temporal.client.get_schedule_handle(SCHEDULE_ID).delete()


async def test_one_schedule_starts_the_daily_workflow_although_several_workers_create_it(
    unscheduled: Client, database: Database, activities: DailyActivities
) -> None:
    endpoint_id = await endpoint_of(database, OWNERS[0])
    await ended(database, endpoint_id, NOW - HOUR)
    await ended(database, endpoint_id, NOW - 31 * DAY)

    await asyncio.gather(*(schedules.ensure(unscheduled, SCHEDULE_ID) for _ in range(3)))
    handle = unscheduled.get_schedule_handle(SCHEDULE_ID)
    described = await handle.describe()
    assert described.schedule.policy.overlap is ScheduleOverlapPolicy.SKIP
    assert {(at.hour, at.minute, at.second) for at in described.info.next_action_times} == {
        (6, 0, 0)
    }

    worker = Worker(
        unscheduled,
        task_queue=CONTROL_QUEUE,
        workflows=[DailyWorkflow],
        activities=activities.all,
        workflow_runner=SANDBOX,
    )
    async with worker:
        await handle.trigger()

        async def started() -> Any:
            return (await handle.describe()).info.recent_actions

        (action,) = await eventually(started)
        workflow = unscheduled.get_workflow_handle(action.action.workflow_id)
        assert await workflow.result() == {"endpoints": 1, "notices": 1}
    assert len(await stored_notices(database)) == 1
