"""kill -9 in the middle of a job: another worker goes on where it was and misses no delivery."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from hookfast.storage.engine import Database
from tests.e2e.processes import environment, running, stop, worker
from tests.receiver import Receiver
from tests.seed import seed_endpoint
from tests.seed_jobs import job_row, seed_ended, seed_job, statuses
from tests.temporal_server import temporal_server
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CHUNK = 10  # what a job of 40 a second tells between two commits


@pytest.fixture
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A server for each test: what a killed worker leaves behind is not the next test's."""
    async with temporal_server() as environment:
        yield environment


@pytest.fixture
def env(temporal: WorkflowEnvironment, tmp_path: Path, database_url: str) -> dict[str, str]:
    address = temporal.client.service_client.config.target_host
    return environment(tmp_path, database_url, address)


async def until_ended(database: Database, job_id: str, delivery_ids: list[str]) -> None:
    """Until the job has ended and all of these are delivered."""
    async with asyncio.timeout(PATIENCE):
        while (await job_row(database, job_id)).finished_at is None:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        while set(await statuses(database, delivery_ids)) != {"delivered"}:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_a_job_whose_worker_is_killed_goes_on_in_another(
    env: dict[str, str], database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        ids = await seed_ended(database, await seed_endpoint(database, receiver.url("/ok")), 120)
        job_id = await seed_job(database, rate_per_second=40)
        async with worker(env, log) as first:
            async with asyncio.timeout(PATIENCE):
                while (await job_row(database, job_id)).cursor is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await stop(first)
        left = await job_row(database, job_id)
        assert 0 < left.done < 120
        async with worker(env, log):
            await until_ended(database, job_id, ids)

    job = await job_row(database, job_id)
    assert (job.status, job.done, job.skipped, job.failed) == ("done", 120, 0, 0)
    received = [request.message_id for request in receiver.requests]
    assert set(received) == set(ids)
    # at least once: what was under way may arrive again
    assert len(received) <= 120 + 2 * CHUNK


async def test_a_chunk_that_was_told_and_not_committed_is_not_lost(
    env: dict[str, str], database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        endpoint = await seed_endpoint(database, receiver.url("/ok"))
        ids = await seed_ended(database, endpoint, 2 * CHUNK)
        job_id = await seed_job(database, rate_per_second=40)
        command = (sys.executable, "-m", "tests.e2e.dying_worker")
        async with running(*command, env=env | {"DIE_AT": "told"}, log=log) as dying:
            assert await dying.wait() == -signal.SIGKILL, log.read_text()
        left = await job_row(database, job_id)
        assert (left.status, left.done, left.cursor) == ("running", 0, None)
        async with worker(env, log):
            await until_ended(database, job_id, ids)

    job = await job_row(database, job_id)
    # those of the first chunk that are no dead letters any more are counted, but not told again
    assert (job.status, job.done, job.skipped, job.failed) == ("done", 2 * CHUNK, 0, 0)
    assert {request.message_id for request in receiver.requests} == set(ids)
