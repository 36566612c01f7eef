"""kill -9 in the middle of a job: another worker goes on where it was and misses no delivery."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from hookfast.clock import utc_now
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, selection
from hookfast.storage.deliveries.dead_letters import DEAD
from hookfast.storage.deliveries.selection import DeliverySelection
from tests.e2e.processes import environment, running, stop, worker
from tests.support.receiver import Receiver
from tests.support.seed import seed_endpoint
from tests.support.seed_jobs import job_row, seed_ended, seed_job, statuses
from tests.support.temporal_server import temporal_server
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_MANY = 300


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
            await until_done(database, job_id, 1)
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
    assert len(received) <= 120 + 100


async def test_a_chunk_whose_transaction_is_cut_off_is_asked_once(
    env: dict[str, str], database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        endpoint = await seed_endpoint(database, receiver.url("/ok"))
        ids = await seed_ended(database, endpoint, 20)
        job_id = await seed_job(database, rate_per_second=40)
        command = (sys.executable, "-m", "tests.e2e.dying_worker")
        async with running(*command, env=env | {"DIE_AT": "asked"}, log=log) as dying:
            assert await dying.wait() == -signal.SIGKILL, log.read_text()
        left = await job_row(database, job_id)
        assert (left.status, left.done, left.cursor) == ("running", 0, None)
        assert set(await statuses(database, ids)) == {"dead"}
        async with worker(env, log):
            await until_ended(database, job_id, ids)

    job = await job_row(database, job_id)
    assert (job.status, job.done, job.skipped, job.failed) == ("done", 20, 0, 0)
    assert sorted(str(request.message_id) for request in receiver.requests) == ids


async def test_a_redrive_that_is_killed_sends_each_once_and_lets_a_person_through(
    env: dict[str, str], database: Database, tmp_path: Path
) -> None:
    """Dead letters in numbers; its worker is killed while it is under way."""
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        endpoint = await seed_endpoint(database, receiver.url("/ok"))
        ids = await seed_ended(database, endpoint, _MANY)
        [one] = await seed_ended(database, await seed_endpoint(database, receiver.url("/ok")), 1)
        chosen = DeliverySelection(statuses=DEAD, endpoint_id=endpoint)
        job_id = await seed_job(database, rate_per_second=200, chosen=chosen)
        async with worker(env, log) as first:
            await until_done(database, job_id, 20)
            await stop(first)
        before = {request.message_id for request in receiver.requests}
        async with worker(env, log):
            await until_done(database, job_id, len(before) + 20)
            async with database.write() as connection:
                await actions.request(connection, one, "resend", now=utc_now())
            begun = time.monotonic()
            async with asyncio.timeout(PATIENCE):
                while await statuses(database, [one]) != ["delivered"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            print(f"a person's resend took {time.monotonic() - begun:.2f} s")
            assert (await job_row(database, job_id)).finished_at is None
            async with database.read() as connection:
                running_job = selection.DeliverySelection.of(
                    (await job_row(database, job_id)).chosen
                )
                again = replace(
                    chosen,
                    without=(replace(running_job, after=(await job_row(database, job_id)).cursor),),
                )
                assert await selection.count(connection, again) == {}
            await until_ended(database, job_id, ids)

    job = await job_row(database, job_id)
    assert (job.status, job.done, job.skipped, job.failed) == ("done", _MANY, 0, 0)
    sent = Counter(request.message_id for request in receiver.requests)
    assert set(sent) == {*ids, one}
    # Only what was under way when the worker was killed may arrive twice.
    assert sum(sent.values()) - len(sent) <= 100


async def until_done(database: Database, job_id: str, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await job_row(database, job_id)).done < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
