"""What a job does with its deliveries. `../test_jobs.py` tests its workflow, and crashes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update
from temporalio.testing import ActivityEnvironment

from activities import job as job_module
from activities.job import JobActivities
from hookfast.clock import utc_now
from hookfast.deliveries.figures import DEAD
from hookfast.deliveries.job import JobInput
from hookfast.dispatch.workflow_starter import stopped
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Endpoint, Job
from tests.integration.delivery.steps import Steps
from tests.support.seed import claim, seed_deliveries
from tests.support.seed_jobs import job_row, seed_ended, seed_job, statuses
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def run(steps: Steps, job_id: str) -> Job:
    """Work on the job until it has ended, and step the deliveries that it requests, as relays and
    workflows do; return its row."""
    activities = JobActivities(database=steps.database, on_commit=lambda _: None)
    stepping = asyncio.create_task(step_forever(steps))
    try:
        await ActivityEnvironment().run(activities.work_on_job, JobInput(job_id, "any"))
    finally:
        await stopped(stepping)
    return await job_row(steps.database, job_id)


async def step_forever(steps: Steps) -> None:
    """Step every delivery in the outbox, many at once."""

    async def found() -> Any:
        async with steps.database.write() as connection:
            return await claim(connection, limit=100, lease=timedelta(minutes=1), now=utc_now())

    async with asyncio.TaskGroup() as group:
        while True:
            for row in await eventually(found):
                group.create_task(steps.step(row.delivery_id))


async def redrive(steps: Steps, delivery_ids: list[str], **members: Any) -> Job:
    """Run a job that resends those of the deliveries that are dead; return its row."""
    chosen = DeliverySelection(ids=tuple(delivery_ids), statuses=DEAD)
    return await run(steps, await seed_job(steps.database, chosen=chosen, **members))


async def test_jobs_pause_resume_and_cancel_many_deliveries(steps: Steps) -> None:
    endpoint = await steps.endpoint("/ok")
    due = utc_now() + timedelta(days=1)
    ids = await seed_deliveries(steps.database, endpoint, 8, deliver_at=due)
    [ended] = await seed_ended(steps.database, endpoint, 1, status="delivered")
    chosen = DeliverySelection(ids=(*ids, ended, "dlv_" + "0" * 32))

    for action, status in (("pause", "paused"), ("resume", "pending"), ("cancel", "cancelled")):
        job = await run(steps, await seed_job(steps.database, action=action, chosen=chosen))
        assert (job.status, job.done, job.skipped, job.failed) == ("done", 8, 1, 0)
        assert set(await statuses(steps.database, ids)) == {status}
    assert await statuses(steps.database, [ended]) == ["delivered"]
    assert steps.receiver.requests == []


async def test_dead_letters_of_a_disabled_or_deleted_endpoint_are_skipped(steps: Steps) -> None:
    endpoints = [await steps.endpoint("/ok") for _ in range(3)]
    ids = [await seed_ended(steps.database, endpoint, 4) for endpoint in endpoints]
    table = Endpoint.__table__
    async with steps.database.write() as connection:
        for endpoint, values in (
            (endpoints[1], {"state": "disabled"}),
            (endpoints[2], {"deleted_at": utc_now()}),
        ):
            await connection.execute(update(table).where(table.c.id == endpoint).values(values))

    job = await redrive(steps, [*ids[0], *ids[1], *ids[2]])

    assert (job.status, job.total, job.done, job.skipped) == ("done", 12, 4, 8)
    assert set(await statuses(steps.database, ids[0])) == {"delivered"}
    assert set(await statuses(steps.database, ids[1] + ids[2])) == {"dead"}
    assert len(steps.receiver.requests) == 4


async def test_a_job_limits_its_deliveries_in_flight(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "_MOST_UNDER_WAY", 5)
    ids = await seed_ended(steps.database, await steps.endpoint("/slow/0.3"), 20)

    job = await redrive(steps, ids, rate_per_second=1_000)

    assert 1 < steps.receiver.most_in_flight <= 5
    # done means attempted, not only requested
    assert (job.status, job.done) == ("done", 20)
    assert set(await statuses(steps.database, ids)) == {"delivered"}


async def test_deliveries_to_a_paused_endpoint_do_not_hold_up_a_job(steps: Steps) -> None:
    endpoint = await steps.endpoint("/ok")
    await steps.change_endpoint(endpoint_state.pause, endpoint)
    ids = await seed_ended(steps.database, endpoint, 20)
    job = await redrive(steps, ids)
    assert (job.status, job.done) == ("done", 20)
    assert set(await statuses(steps.database, ids)) == {"held"}
    assert steps.receiver.requests == []
