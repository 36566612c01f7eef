"""Jobs on a real Temporal: they act on many deliveries at a rate, and survive crashes."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment

from activities import job as job_module
from hookfast.clock import utc_now
from hookfast.deliveries.job import JobProgress
from hookfast.dispatch import starts, sweep
from hookfast.dispatch.workflow_starter import stopped
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import jobs
from hookfast.storage.tables import Job
from tests.integration.delivery.conftest import Stack, idle_stack, running_stack
from tests.support.receiver import Receiver
from tests.support.seed_jobs import job_row, seed_ended, seed_job, statuses
from tests.support.temporal_server import temporal_server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


@pytest.fixture
def short_stints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten a stint to 0.3 s, so that a job has several."""
    monkeypatch.setattr(job_module, "STINT", timedelta(seconds=0.3))


async def start(stack: Stack, **members: Any) -> str:
    """Store a job and start its workflow; return the job's id."""
    job_id = await seed_job(stack.database, **members)
    await stack.workflow_starter.start_requested()
    return job_id


def workflow_of(client: Client, job_id: str) -> WorkflowHandle[Any, JobProgress]:
    return client.get_workflow_handle(f"job/{job_id}", result_type=JobProgress)


async def until_ended(stack: Stack, job_id: str) -> Job:
    async def ended() -> Job | None:
        job = await job_row(stack.database, job_id)
        return None if job.finished_at is None else job

    job: Job = await eventually(ended)
    return job


async def until_some_are_done(database: Database, job_id: str) -> None:
    async def some_are_done() -> bool:
        return (await job_row(database, job_id)).done > 0

    await eventually(some_are_done)


@pytest.mark.parametrize("count", [16, pytest.param(300, marks=pytest.mark.slow)])
async def test_dead_letters_are_redriven_under_their_message_ids_and_the_progress_is_visible(
    stack: Stack, short_stints: None, count: int
) -> None:
    ids = await seed_ended(stack.database, await stack.endpoint("/ok"), count)

    job_id = await start(stack, rate_per_second=count // 2)
    assert (await job_row(stack.database, job_id)).total == count
    seen = [("pending", 0)]

    async def moved() -> bool:
        job = await job_row(stack.database, job_id)
        seen.append((job.status, job.done))
        return seen[-1] != seen[-2]

    while (job := await job_row(stack.database, job_id)).finished_at is None:
        await eventually(moved)
    assert (job.status, job.done, job.skipped, job.failed) == ("done", count, 0, 0)
    assert [status for status, done in seen if 0 < done < count], "no progress was visible"
    handle = workflow_of(stack.client, job_id)
    assert await handle.result() == JobProgress("done", count, count)
    await stack.until_all(ids, "delivered")
    assert Counter(request.message_id for request in stack.receiver.requests) == Counter(ids)
    await assert_shown_by_temporal(handle, count)


async def assert_shown_by_temporal(handle: WorkflowHandle[Any, JobProgress], count: int) -> None:
    """Check that Temporal shows the progress of a job that is done."""
    shown = await handle.query("state", result_type=JobProgress)
    assert shown == JobProgress("done", count, count)
    summary = await (await handle.describe()).static_summary()
    assert summary == f"action: resend {count} deliveries"
    history = await handle.fetch_history()
    summaries = [
        event.user_metadata.summary.data.decode()
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert summaries[0] == f'"0 of {count}"'
    assert len(set(summaries)) > 2
    assert all(summary.endswith(f' of {count}"') for summary in summaries)


@pytest.mark.parametrize(
    "how",
    [
        "signal",
        pytest.param("row", marks=pytest.mark.slow),
        pytest.param("temporal", marks=pytest.mark.slow),
    ],
)
async def test_a_job_stops_when_it_is_cancelled(stack: Stack, how: str) -> None:
    ids = await seed_ended(stack.database, await stack.endpoint("/ok"), 300)
    job_id = await start(stack, rate_per_second=40)
    await until_some_are_done(stack.database, job_id)

    handle = workflow_of(stack.client, job_id)
    match how:
        case "row":  # what the API does
            async with stack.database.write() as connection:
                await jobs.request_cancel(connection, job_id, now=utc_now())
        case "signal":
            await handle.signal("cancel")
        case _:
            await handle.cancel()
    job = await until_ended(stack, job_id)

    assert job.status == "cancelled"
    assert 0 < job.done < 300
    assert (job.skipped, job.failed) == (0, 0)
    assert await handle.result() == jobs.progress_of(job)
    await stack.until_all(ids[: job.done], "delivered")
    assert set(await statuses(stack.database, ids[job.done :])) == {"dead"}


async def test_job_cancelled_before_it_begins_changes_no_delivery(
    temporal: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> None:
    async with idle_stack(temporal.client, settings, database, receiver) as idle:
        ids = await seed_ended(database, await idle.endpoint("/ok"), 3)
        job_id = await start(idle)
    await workflow_of(temporal.client, job_id).signal("cancel")
    async with database.write() as connection:
        await jobs.request_cancel(connection, job_id, now=utc_now())

    async with running_stack(temporal, settings, database, receiver) as stack:
        job = await until_ended(stack, job_id)
    assert (job.status, job.done) == ("cancelled", 0)
    assert set(await statuses(database, ids)) == {"dead"}


@pytest.mark.slow
async def test_a_job_continues_where_it_was_when_its_worker_is_replaced(
    temporal: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> None:
    async with running_stack(temporal, settings, database, receiver) as stack:
        ids = await seed_ended(database, await stack.endpoint("/ok"), 200)
        job_id = await start(stack, rate_per_second=50)
        await until_some_are_done(database, job_id)
    left = await job_row(database, job_id)
    assert left.finished_at is None
    assert 0 < left.done < 200

    async with running_stack(temporal, settings, database, receiver) as stack:
        job = await until_ended(stack, job_id)
        await stack.until_all(ids, "delivered")
    assert (job.status, job.done) == ("done", 200)
    # nothing was sent twice: the first worker committed its last chunk before it stopped
    assert Counter(request.message_id for request in receiver.requests) == Counter(ids)


async def test_a_job_whose_workflow_was_lost_continues_where_it_was(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await seed_ended(stack.database, await stack.endpoint("/ok"), 15)
    job_id = await start(stack, rate_per_second=10)
    await until_some_are_done(stack.database, job_id)
    await workflow_of(stack.client, job_id).terminate("lost with Temporal's data")
    # so that a minute and an hour need not pass
    monkeypatch.setattr(sweep, "_SWEEP_EVERY", timedelta(seconds=0.2))
    monkeypatch.setattr(sweep, "_UNMOVED_AFTER", timedelta(seconds=1))
    sweeping = asyncio.create_task(sweep.requeue_lost(stack.database))
    try:
        job = await until_ended(stack, job_id)
    finally:
        await stopped(sweeping)
    assert (job.status, job.done) == ("done", 15)
    await stack.until_all(ids, "delivered")


@pytest.mark.slow
async def test_a_job_with_a_long_history_continues_as_new(
    settings: Settings, database: Database, receiver: Receiver, short_stints: None
) -> None:
    suggest = ("--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=20")
    async with (
        temporal_server(*suggest) as temporal,
        running_stack(temporal, settings, database, receiver) as stack,
    ):
        ids = await seed_ended(database, await stack.endpoint("/ok"), 30)
        job_id = await start(stack, rate_per_second=15)
        job = await until_ended(stack, job_id)
        handle = workflow_of(stack.client, job_id)
        assert await handle.result() == JobProgress("done", 30, 30)
        assert (await handle.describe()).run_id != (await _first_run(handle))
        await stack.until_all(ids, "delivered")
    assert job.done == 30


async def _first_run(handle: WorkflowHandle[Any, Any]) -> str:
    description = await handle.describe()
    return str(description.raw_description.workflow_execution_info.first_run_id)


async def test_a_job_without_deliveries_is_done_at_once(stack: Stack) -> None:
    job = await until_ended(stack, await start(stack))
    assert (job.status, job.total, job.done) == ("done", 0, 0)


async def test_a_job_waits_for_temporal_and_loses_no_delivery(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporal fails for the first eight starts."""
    ids = await seed_ended(stack.database, await stack.endpoint("/ok"), 10)
    away = iter(range(8))
    start_or_wake = starts.start_or_wake

    async def flaky(*args: Any, **options: Any) -> bool:
        if next(away, None) is not None:
            raise RPCError("Temporal is away.", RPCStatusCode.UNAVAILABLE, b"")
        return await start_or_wake(*args, **options)

    monkeypatch.setattr(starts, "start_or_wake", flaky)

    job = await until_ended(stack, await start(stack))

    assert (job.status, job.done, job.skipped, job.failed) == ("done", 10, 0, 0)
    assert next(away, None) is None
    assert set(await statuses(stack.database, ids)) == {"delivered"}
    assert Counter(request.message_id for request in stack.receiver.requests) == Counter(ids)


async def test_a_persons_resend_overtakes_a_job(
    temporal: WorkflowEnvironment,
    settings: Settings,
    database: Database,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The job has more under way than the worker can send at once."""
    monkeypatch.setattr(job_module, "_MOST_UNDER_WAY", 20)
    few = settings.model_copy(update={"max_concurrent_attempts": 12})
    receiver.routes["/hook"] = "/slow/0.5"
    async with running_stack(temporal, few, database, receiver) as stack:
        await seed_ended(database, await stack.endpoint("/hook", timeout=20), 30)
        [one] = await seed_ended(database, await stack.endpoint("/ok"), 1)
        job_id = await start(stack, rate_per_second=1_000)
        await until_some_are_done(database, job_id)
        await stack.request(one, "resend")
        await stack.until_all([one], "delivered")
        assert (await job_row(database, job_id)).finished_at is None


async def test_job_whose_row_is_missing_ends_as_failed(stack: Stack) -> None:
    """The database was restored from a backup older than the job."""
    job_id = await seed_job(stack.database)
    table = Job.__table__
    async with stack.database.read() as connection:
        [request] = await jobs.JobWorkflowRequests().find(connection, limit=10)
    async with stack.database.write() as connection:
        await connection.execute(table.delete().where(table.c.id == job_id))
    await stack.workflow_starter._start_or_wake(request)
    result = await workflow_of(stack.client, job_id).result()
    assert result.status == "failed"
