"""The shapes of the histories of jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from activities import job as job_module
from hookfast.clock import utc_now
from hookfast.storage.deliveries import jobs
from tests.integration.delivery.conftest import Stack
from tests.support.seed_jobs import job_row, seed_ended, seed_job
from tests.support.waiting import eventually


async def job_done_in_several_stints(stack: Stack) -> str:
    await seed_ended(stack.database, await stack.endpoint("/ok"), 40)
    with patch.object(job_module, "STINT", timedelta(seconds=0.3)):
        return await _ended(stack, await seed_job(stack.database, rate_per_second=40))


async def job_for_nothing(stack: Stack) -> str:
    return await _ended(stack, await seed_job(stack.database))


async def job_cancelled_through_its_row(stack: Stack) -> str:
    job_id = await _under_way(stack)
    async with stack.database.write() as connection:
        await jobs.request_cancel(connection, job_id, now=utc_now())
    return await _ended(stack, job_id)


async def job_cancelled_by_signal(stack: Stack) -> str:
    job_id = await _under_way(stack)
    await stack.client.get_workflow_handle(f"job/{job_id}").signal("cancel")
    return await _ended(stack, job_id)


async def job_cancelled_by_temporal(stack: Stack) -> str:
    job_id = await _under_way(stack)
    await stack.client.get_workflow_handle(f"job/{job_id}").cancel()
    return await _ended(stack, job_id)


async def job_tried_again_when_the_database_was_away(stack: Stack) -> str:
    await seed_ended(stack.database, await stack.endpoint("/ok"), 5)
    begin, away = jobs.begin, iter([OSError("away"), OSError("away")])

    async def flaky(*args: Any, **options: Any) -> Any:
        for error in away:
            raise error
        return await begin(*args, **options)

    with patch.object(jobs, "begin", flaky):
        return await _ended(stack, await seed_job(stack.database))


async def _under_way(stack: Stack) -> str:
    await seed_ended(stack.database, await stack.endpoint("/ok"), 200)
    job_id = await seed_job(stack.database, rate_per_second=20)

    async def begun() -> bool:
        return (await job_row(stack.database, job_id)).cursor is not None

    await eventually(begun)
    return job_id


async def _ended(stack: Stack, job_id: str) -> str:
    async def ended() -> bool:
        return (await job_row(stack.database, job_id)).finished_at is not None

    await eventually(ended)
    return f"job/{job_id}"


JOB_SHAPES: tuple[Callable[[Stack], Awaitable[str]], ...] = (
    job_done_in_several_stints,
    job_for_nothing,
    job_cancelled_through_its_row,
    job_cancelled_by_signal,
    job_cancelled_by_temporal,
    job_tried_again_when_the_database_was_away,
)
