"""Two workers on one database and one Temporal share circuits and limits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable

import pytest
from sqlalchemy import Table, func, select
from temporalio.testing import WorkflowEnvironment

from hookfast.endpoints.outage import workflow_id
from hookfast.events.operational import Kind
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Event
from hookfast.temporal.payloads import DATA_CONVERTER
from tests.integration.delivery.circuits import (
    assert_within_rate,
    circuit,
    notices,
    record_slots,
    recover,
    until_circuit,
)
from tests.integration.delivery.conftest import SANDBOX, Stack, idle_stack
from tests.support.receiver import Receiver, Request
from worker import running_worker

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

WORKERS = ("https://one.example", "https://two.example")
OWNERS = ["ada@example.com", "bob@example.com"]


@pytest.fixture
async def stack(
    temporal: WorkflowEnvironment,
    settings: Settings,
    database_url: str,
    database: Database,
    receiver: Receiver,
) -> AsyncIterator[Stack]:
    """Two workers that share nothing in this process. The link in a thin body begins with the
    public URL of the worker that sends it; each takes few deliveries at once, so that both send
    some."""

    def settings_with(public_url: str) -> Settings:
        return settings.model_copy(update={"public_url": public_url, "relay_batch": 4})

    other = await temporal.connect_client(data_converter=DATA_CONVERTER)
    async with (
        Database(database_url) as first,
        Database(database_url) as second,
        running_worker(settings_with(WORKERS[0]), temporal.client, first, workflow_runner=SANDBOX),
        running_worker(settings_with(WORKERS[1]), other, second, workflow_runner=SANDBOX),
        idle_stack(temporal.client, settings, database, receiver) as stack,
    ):
        yield stack


def senders(requests: Iterable[Request]) -> set[str]:
    """Return the public URLs of the workers that made these requests."""
    urls = [json.loads(request.body)["data"]["url"] for request in requests]
    return {one for one in WORKERS for url in urls if url.startswith(one)}


async def runs(stack: Stack, endpoint: str) -> int:
    """Return how many workflow runs the endpoint's circuit has had."""
    return (await stack.client.count_workflows(f"WorkflowId = '{workflow_id(endpoint)}'")).count


async def events(stack: Stack, kind: Kind) -> int:
    """Return how many operational events of this kind are stored."""
    table: Table = Event.__table__
    async with stack.database.read() as connection:
        rows = await connection.execute(
            select(func.count()).select_from(table).where(table.c.type == kind.value)
        )
        return int(rows.scalar_one())


async def test_circuit_that_two_workers_open_at_once_is_one_outage(stack: Stack) -> None:
    # All first requests are in flight when the first of them fails, and they fail together.
    stack.receiver.routes["/hook"] = "/slow/1?status=500"
    endpoint = await stack.endpoint(
        "/hook",
        payload="thin",
        owner_emails=OWNERS,
        plan={"delays_seconds": [2, 600], "jitter": 0, "retry_on": "all"},
        circuit={
            "failure_threshold": 10,
            "min_span_seconds": 0,
            "probe_delays_seconds": [600],
        },
    )
    deliveries = await stack.deliver_together(endpoint, 24)
    await stack.until_all(deliveries, "held")

    failed = list(stack.receiver.requests)
    assert len(failed) > 10  # the threshold was crossed with more in flight
    assert senders(failed) == set(WORKERS)
    assert (await circuit(stack, endpoint)).episode == 1
    assert await notices(stack, endpoint) == [("opened", owner) for owner in OWNERS]
    assert await events(stack, Kind.CIRCUIT_OPENED) == 1

    stack.receiver.requests.clear()
    await recover(stack, endpoint)
    await stack.until_all(deliveries, "delivered")
    after = await until_circuit(stack, endpoint, "closed")
    assert (after.episode, after.drained) == (1, 23)
    arrived = stack.receiver.requests
    assert sorted(request.message_id or "" for request in arrived) == deliveries
    assert senders(arrived) == set(WORKERS)
    await stack.client.get_workflow_handle(workflow_id(endpoint)).result()
    assert await runs(stack, endpoint) == 1
    assert await events(stack, Kind.CIRCUIT_OPENED) == 1
    assert await events(stack, Kind.CIRCUIT_CLOSED) == 1
    expected = [(kind, owner) for kind in ("opened", "recovered") for owner in OWNERS]
    assert await notices(stack, endpoint) == expected


async def test_two_workers_together_stay_within_an_endpoints_rate(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = record_slots(monkeypatch)
    endpoint = await stack.endpoint("/ok", payload="thin", rate_limit_per_second=20)

    deliveries = await stack.deliver_together(endpoint, 40)
    await stack.until_all(deliveries, "delivered")

    requests = stack.receiver.requests
    assert sorted(request.message_id or "" for request in requests) == deliveries
    assert senders(requests) == set(WORKERS)
    assert_within_rate(requests, 20, slots)


async def test_two_workers_together_stay_within_an_endpoints_max_in_flight(stack: Stack) -> None:
    endpoint = await stack.endpoint("/slow/0.2", payload="thin", max_in_flight=2)

    deliveries = await stack.deliver_together(endpoint, 20)
    await stack.until_all(deliveries, "delivered")

    requests = stack.receiver.requests
    assert sorted(request.message_id or "" for request in requests) == deliveries
    assert senders(requests) == set(WORKERS)
    assert stack.receiver.most_in_flight == 2
