"""A worker killed between any two steps loses no delivery, and repeats have the same message id."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Delivery
from tests.e2e.processes import environment, kill, run_dying_worker, successor, worker
from tests.support.receiver import Receiver
from tests.support.seed import attempt_rows, delivery_row, seed_delivery, seed_endpoint
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


@pytest.fixture
def client(temporal: WorkflowEnvironment) -> Client:
    return temporal.client


@pytest.fixture(params=["workflow", pytest.param("batch", marks=pytest.mark.slow)])
def env(
    temporal_address: str,
    tmp_path: Path,
    database_url: str,
    request: pytest.FixtureRequest,
) -> dict[str, str]:
    first_attempts = {"HOOKFAST_FIRST_ATTEMPTS": request.param}
    return environment(tmp_path, database_url, temporal_address, **first_attempts)


async def until_delivered(database: Database, delivery: str) -> Any:
    async def delivered() -> Any:
        row = await delivery_row(database, delivery)
        return row if row.status == "delivered" else None

    return await eventually(delivered)


async def until_any_delivered(database: Database) -> None:
    columns = Delivery.__table__.c
    delivered = select(columns.id).where(columns.status == "delivered").limit(1)

    async def any_delivered() -> bool:
        async with database.read() as connection:
            return (await connection.execute(delivered)).first() is not None

    await eventually(any_delivered)


REQUESTS = {
    "claimed": 1,  # the lease ends and another relay starts it
    "started": 1,  # Temporal declines the second start
    "sent": 2,  # at least once: nothing says that it arrived
    "recorded": 1,  # the record says that it was sent
}
"""How often a delivery is sent if a worker is killed after this step."""


async def test_a_worker_killed_with_deliveries_at_every_step_loses_none(
    temporal_address: str,
    client: Client,
    tmp_path: Path,
    database_url: str,
    database: Database,
) -> None:
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        endpoint = await seed_endpoint(database, receiver.url("/ok"))
        step_of = {await seed_delivery(database, endpoint): step for step in REQUESTS}
        env = environment(
            tmp_path,
            database_url,
            temporal_address,
            HOOKFAST_FIRST_ATTEMPTS="workflow",
            STEPS=json.dumps(step_of),
        )
        await run_dying_worker(env, log, die_at="each")
        async with successor(env, client, database):
            await receiver.wait_for(sum(REQUESTS.values()))
            rows = [await until_delivered(database, one) for one in step_of]

    sent = Counter(step_of[request.message_id or ""] for request in receiver.requests)
    assert sent == REQUESTS
    assert [row.attempts for row in rows] == [1, 1, 1, 1]
    assert [len(await attempt_rows(database, one)) for one in step_of] == [1, 1, 1, 1]
    assert {request.headers["x-hook-attempt"] for request in receiver.requests} == {"1"}


@pytest.mark.slow
@pytest.mark.parametrize(("die_at", "requests"), REQUESTS.items())
async def test_a_worker_killed_between_two_steps_loses_nothing(
    env: dict[str, str],
    client: Client,
    database: Database,
    tmp_path: Path,
    die_at: str,
    requests: int,
) -> None:
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        endpoint = await seed_endpoint(database, receiver.url("/ok"))
        delivery = await seed_delivery(database, endpoint)
        await run_dying_worker(env, log, die_at=die_at)
        async with successor(env, client, database):
            row = await until_delivered(database, delivery)

    assert {request.message_id for request in receiver.requests} == {delivery}
    assert len(receiver.requests) == requests
    assert row.attempts == 1
    assert len(await attempt_rows(database, delivery)) == 1
    assert {request.headers["x-hook-attempt"] for request in receiver.requests} == {"1"}


@pytest.mark.parametrize(
    "timeout",
    [pytest.param(5, id="fast lane"), pytest.param(20, id="regular lane")],
)
@pytest.mark.slow
async def test_request_cut_off_by_a_kill_is_repeated(
    env: dict[str, str],
    client: Client,
    database: Database,
    tmp_path: Path,
    timeout: float,
) -> None:
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        receiver.routes["/hook"] = "/slow/30"
        endpoint = await seed_endpoint(database, receiver.url("/hook"), timeout=timeout)
        delivery = await seed_delivery(database, endpoint)
        async with worker(env, log) as first:
            await receiver.wait_for(1)
            await kill(first)
        receiver.routes["/hook"] = "/ok"
        async with successor(env, client, database):
            row = await until_delivered(database, delivery)

    assert row.attempts == 1
    assert [request.message_id for request in receiver.requests] == [delivery, delivery]
    assert receiver.requests[0].body == receiver.requests[1].body


async def test_sigterm_completes_and_records_attempts_in_flight(
    env: dict[str, str], client: Client, database: Database, tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        fast = await seed_endpoint(database, receiver.url("/slow/2"))
        regular = await seed_endpoint(database, receiver.url("/slow/2"), timeout=20)
        deliveries = [await seed_delivery(database, one) for one in (fast, regular)]
        async with worker(env, log) as draining:
            await receiver.wait_for(2)
            draining.send_signal(signal.SIGTERM)
            assert await draining.wait() == 0, log.read_text()
        async with successor(env, client, database):
            for delivery in deliveries:
                await until_delivered(database, delivery)

    assert sorted(request.message_id or "" for request in receiver.requests) == sorted(deliveries)


async def test_worker_killed_during_a_batch_repeats_only_unrecorded_attempts(
    temporal_address: str,
    client: Client,
    tmp_path: Path,
    database_url: str,
    database: Database,
) -> None:
    env = environment(tmp_path, database_url, temporal_address, HOOKFAST_FIRST_ATTEMPTS="batch")
    log = tmp_path / "worker.log"
    async with Receiver() as receiver:
        # 16 at once to each of two: four waves of half a second
        endpoints = [await seed_endpoint(database, receiver.url("/slow/0.5")) for _ in range(2)]
        ids = [await seed_delivery(database, endpoints[n % 2]) for n in range(100)]
        async with worker(env, log) as first:
            await until_any_delivered(database)  # later requests do not wait for records
            await kill(first)
        at_the_kill = [await delivery_row(database, one) for one in ids]
        recorded = {row.id for row in at_the_kill if row.status == "delivered"}
        async with successor(env, client, database):
            for delivery in ids:
                await until_delivered(database, delivery)
    counts = Counter(request.message_id for request in receiver.requests)
    assert recorded
    assert recorded < set(ids)
    assert set(counts) == set(ids)
    assert {counts[one] for one in recorded} == {1}
    assert max(counts.values()) <= 2
    for delivery in ids:
        assert len(await attempt_rows(database, delivery)) == 1
