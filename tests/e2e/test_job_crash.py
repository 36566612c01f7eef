"""A worker is killed during a job: another one continues where it was and misses no delivery."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from hookfast.clock import utc_now
from hookfast.deliveries.figures import DEAD
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, selection
from hookfast.storage.deliveries.selection import DeliverySelection
from tests.e2e.processes import environment, kill, run_dying_worker, worker
from tests.support.receiver import Receiver
from tests.support.seed import seed_endpoint
from tests.support.seed_jobs import job_row, seed_ended, seed_job, statuses
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_MANY = 300


@pytest.fixture
def env(temporal_address: str, tmp_path: Path, database_url: str) -> dict[str, str]:
    return environment(tmp_path, database_url, temporal_address)


async def until_ended(database: Database, job_id: str, delivery_ids: list[str]) -> None:
    """Wait until the job has ended and all of these deliveries are delivered."""

    async def ended() -> bool:
        job = await job_row(database, job_id)
        return job.finished_at is not None and set(await statuses(database, delivery_ids)) == {
            "delivered"
        }

    await eventually(ended)


async def until_done(database: Database, job_id: str, count: int) -> None:
    """Wait until the job is done with this number of deliveries."""

    async def done() -> bool:
        return (await job_row(database, job_id)).done >= count

    await eventually(done)


async def test_a_job_whose_worker_is_killed_continues_in_another(
    env: dict[str, str], database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        ids = await seed_ended(database, await seed_endpoint(database, receiver.url("/ok")), 120)
        job_id = await seed_job(database, rate_per_second=40)
        async with worker(env, log) as first:
            await until_done(database, job_id, 1)
            await kill(first)
        left = await job_row(database, job_id)
        assert 0 < left.done < 120
        async with worker(env, log):
            await until_ended(database, job_id, ids)

    job = await job_row(database, job_id)
    assert (job.status, job.done, job.skipped, job.failed) == ("done", 120, 0, 0)
    received = [request.message_id for request in receiver.requests]
    assert set(received) == set(ids)
    # at least once: requests in flight may arrive again
    assert len(received) <= 120 + 100


async def test_a_chunk_whose_transaction_is_cut_off_is_resent_once(
    env: dict[str, str], database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        endpoint = await seed_endpoint(database, receiver.url("/ok"))
        ids = await seed_ended(database, endpoint, 20)
        job_id = await seed_job(database, rate_per_second=40)
        await run_dying_worker(env, log, die_at="requested")
        left = await job_row(database, job_id)
        assert (left.status, left.done, left.cursor) == ("running", 0, None)
        assert set(await statuses(database, ids)) == {"dead"}
        async with worker(env, log):
            await until_ended(database, job_id, ids)

    job = await job_row(database, job_id)
    assert (job.status, job.done, job.skipped, job.failed) == ("done", 20, 0, 0)
    assert sorted(str(request.message_id) for request in receiver.requests) == ids


async def test_killed_redrive_sends_each_delivery_and_a_persons_resend_overtakes_it(
    env: dict[str, str], database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        endpoint = await seed_endpoint(database, receiver.url("/ok"))
        ids = await seed_ended(database, endpoint, _MANY)
        [one] = await seed_ended(database, await seed_endpoint(database, receiver.url("/ok")), 1)
        chosen = DeliverySelection(statuses=DEAD, endpoint_id=endpoint)
        job_id = await seed_job(database, rate_per_second=200, chosen=chosen)
        async with worker(env, log) as first:
            await until_done(database, job_id, 20)
            await kill(first)
        before = {request.message_id for request in receiver.requests}
        async with worker(env, log):
            await until_done(database, job_id, len(before) + 20)
            async with database.write() as connection:
                await actions.request(connection, one, "resend", now=utc_now())
            begun = time.monotonic()

            async def delivered() -> bool:
                return await statuses(database, [one]) == ["delivered"]

            await eventually(delivered)
            print(f"a person's resend took {time.monotonic() - begun:.2f} s")
            assert (await job_row(database, job_id)).finished_at is None
            async with database.read() as connection:
                running_job = selection.DeliverySelection.from_document(
                    (await job_row(database, job_id)).filter
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
    # Only requests in flight at the kill may arrive twice.
    assert sum(sent.values()) - len(sent) <= 100
