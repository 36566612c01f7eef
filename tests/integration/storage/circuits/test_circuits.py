"""Stored circuits, shared by several workers on one database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs

from hookfast.endpoints.circuit import Cause, State, begin_probe
from hookfast.endpoints.outage import CircuitInput
from hookfast.events.operational import Kind
from hookfast.logs.kind import Kind as LineKind
from hookfast.storage.circuits import circuits
from hookfast.storage.circuits.circuits import CircuitWorkflowRequests
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoint_health, endpoint_state
from hookfast.storage.tables import EndpointHealth
from hookfast.telemetry.instruments import CIRCUIT_CHANGES
from tests.integration.storage.circuits.stored_circuits import (
    FIRST,
    HOUR,
    NOON,
    OWNERS,
    POLICY,
    admitted,
    at,
    change,
    circuit_of,
    close,
    deliver,
    draining,
    held_count,
    notified,
    open_circuit,
    record,
    release,
    seed_due,
    to_owners,
)
from tests.integration.storage.retention.ended import ended
from tests.support.query_plan import sent_by
from tests.support.seed import delivery_row, seed_endpoint
from tests.support.undoing import undoing

pytestmark = pytest.mark.anyio


@pytest.fixture
async def endpoint(database: Database) -> str:
    """The id of an endpoint with two owners."""
    return await seed_endpoint(database, "https://example.com/hook", owner_emails=OWNERS)


# -- counting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [0, 4])
async def test_the_circuit_opens_once_when_several_workers_count_failures(
    workers: list[Database], endpoint: str, before: int
) -> None:
    """With `before` 0, no row exists yet that the workers could lock."""
    for second in range(before):
        await record(workers[0], endpoint, second)
    await asyncio.gather(
        *(record(workers[second % 3], endpoint, second) for second in range(before, before + 24))
    )
    circuit = await circuit_of(workers[0], endpoint)
    assert (circuit.state, circuit.episode, circuit.cause) == (State.OPEN, 1, Cause.FAILURES)
    assert circuit.consecutive_failures == before + 24
    assert await notified(workers[0]) == (to_owners("opened"), [Kind.CIRCUIT_OPENED])


async def test_the_line_of_an_opened_circuit_names_the_endpoint_and_its_last_failure(
    database: Database,
) -> None:
    endpoint = await seed_endpoint(
        database, "https://hooks.example.com/services/T0/B0", description="Acme's accounting"
    )
    failed = [(endpoint, "dlv_1", ended(FIRST, 503, at(second))) for second in (0, 5, 10, 15, 20)]
    with capture_logs() as lines:
        async with database.write() as connection:
            await endpoint_health.count(connection, failed, policy=POLICY, now=at(20))
    [opened] = [line for line in lines if line.get("kind") == LineKind.CIRCUIT_OPENED]
    assert opened["endpoint_name"] == "Acme's accounting"
    assert opened["endpoint_url"] == "https://hooks.example.com/services/…"
    assert opened["last_error"] == "The receiver answered 503."


async def test_a_rolled_back_transaction_does_not_open_the_circuit(
    database: Database, endpoint: str
) -> None:
    async with undoing(database) as connection:
        failed = [(endpoint, "dlv_1", ended(FIRST, 503, at(second))) for second in range(20)]
        assert await endpoint_health.count(connection, failed, policy=POLICY, now=at(20))
    assert await notified(database) == ([], [])
    assert await record(database, endpoint, *range(20))
    assert await notified(database) == (to_owners("opened"), [Kind.CIRCUIT_OPENED])


async def test_successes_of_a_healthy_endpoint_write_nothing_and_wait_for_no_lock(
    database: Database, endpoint: str
) -> None:
    statements: list[str] = []

    async def succeed() -> None:
        async with database.write() as connection:
            arrived = (endpoint, "dlv_1", ended(FIRST, 200, at(100)))
            counting = endpoint_health.count(connection, [arrived], policy=POLICY, now=at(100))
            statements.extend(sql.split()[0] for sql, _ in await sent_by(connection, counting))

    await succeed()  # the endpoint never failed: it has no row
    await record(database, endpoint, 0)
    await record(database, endpoint, 50, succeeded=True)
    healthy = await circuit_of(database, endpoint)
    assert (healthy.state, healthy.consecutive_failures) == (State.CLOSED, 0)
    if database.kind == "postgresql":  # SQLite has one writer
        async with database.write() as holding:
            await holding.execute(select(EndpointHealth.__table__).with_for_update())
            with anyio.fail_after(20):
                await succeed()
    else:
        await succeed()
    assert await circuit_of(database, endpoint) == healthy
    assert set(statements) == {"SELECT"}
    assert len(statements) == 2


async def test_each_endpoint_is_counted_by_its_own_policy(database: Database) -> None:
    strict = await seed_endpoint(
        database, "https://example.com/a", circuit={"failure_threshold": 1, "min_span_seconds": 0}
    )
    usual = await seed_endpoint(database, "https://example.com/b")
    await record(database, strict, 0)
    await record(database, usual, 0)
    assert (await circuit_of(database, strict)).state is State.OPEN
    assert (await circuit_of(database, usual)).state is State.CLOSED


async def test_owners_are_notified_once_of_an_outage_and_of_the_recovery(
    database: Database, endpoint: str
) -> None:
    before = _counted()
    await open_circuit(database, endpoint)
    await record(database, endpoint, 100, succeeded=True)
    await record(database, endpoint, 101, 102, 103, 104, 105)  # the drain fails
    assert (await circuit_of(database, endpoint)).state is State.OPEN
    await record(database, endpoint, 200, succeeded=True)
    delivery = await seed_due(database, endpoint)
    assert not await admitted(database, endpoint, delivery)
    async with database.write() as connection:  # a person pauses it meanwhile
        assert await endpoint_state.pause(connection, endpoint, now=at(300))
        assert await endpoint_state.resume(connection, endpoint, now=at(310))
    assert await notified(database) == (to_owners("opened"), [Kind.CIRCUIT_OPENED])
    assert not await close(database, endpoint)
    await deliver(database, delivery)
    assert await close(database, endpoint)
    both = [Kind.CIRCUIT_OPENED, Kind.CIRCUIT_CLOSED]
    assert await notified(database) == (to_owners("opened", "recovered"), both)
    assert _counted() - before == {"opened": 2, "closed": 1}


def _counted() -> Counter[str]:
    changes = ("opened", "closed", "disabled")
    return Counter({name: int(CIRCUIT_CHANGES.total(change=name)) for name in changes})


# -- holding ------------------------------------------------------------------------------------


ROUNDS = pytest.mark.parametrize("rounds", [2, pytest.param(8, marks=pytest.mark.slow)])


@ROUNDS
async def test_no_delivery_stays_held_when_the_circuit_has_closed(
    workers: list[Database], endpoint: str, rounds: int
) -> None:
    async def hold_and_drain(index: int, delivery: str) -> None:
        database = workers[index % 3]
        if not await admitted(database, endpoint, delivery):
            circuit = await circuit_of(database, endpoint)
            assert circuit.state is State.DRAINING, "held, and no drain will release it"
            await deliver(database, delivery)

    async def close_when_empty() -> None:
        while not await close(workers[1], endpoint):
            pass

    for _ in range(rounds):
        await draining(workers[0], endpoint)
        waiting, *deliveries = [await seed_due(workers[0], endpoint) for _ in range(17)]
        assert not await admitted(workers[0], endpoint, waiting)
        async with asyncio.TaskGroup() as group:
            group.create_task(close_when_empty())
            group.create_task(deliver(workers[2], waiting))
            for index, delivery in enumerate(deliveries):
                group.create_task(hold_and_drain(index, delivery))
        assert (await circuit_of(workers[0], endpoint)).state is State.CLOSED
        assert await held_count(workers[0], endpoint) == 0


@ROUNDS
async def test_no_delivery_stays_held_when_its_endpoint_was_resumed(
    workers: list[Database], rounds: int
) -> None:
    """An endpoint that never failed has no row of its circuit that could be locked."""
    for _ in range(rounds):
        endpoint = await seed_endpoint(workers[0], "https://example.com/hook", state="paused")
        deliveries = [await seed_due(workers[0], endpoint) for _ in range(8)]

        async def resume(endpoint: str = endpoint) -> None:
            async with workers[1].write() as connection:
                assert await endpoint_state.resume(connection, endpoint, now=at(0))

        attempts = [
            admitted(workers[index % 3], endpoint, delivery)
            for index, delivery in enumerate(deliveries)
        ]
        *results, _ = await asyncio.gather(*attempts, resume())
        count = results.count(False)
        assert await held_count(workers[0], endpoint) == count
        expected = State.DRAINING if count else State.CLOSED
        assert (await circuit_of(workers[0], endpoint)).state is expected


async def test_only_one_delivery_becomes_the_probe_of_a_half_open_circuit(
    workers: list[Database], endpoint: str
) -> None:
    await open_circuit(workers[0], endpoint)
    await change(workers[0], endpoint, lambda now: begin_probe(now, None, until=at(0)))
    await change(workers[0], endpoint, lambda now: replace(now, workflow_started=True))
    deliveries = [await seed_due(workers[0], endpoint) for _ in range(12)]
    results = await asyncio.gather(
        *(admitted(workers[index % 3], endpoint, one) for index, one in enumerate(deliveries))
    )
    assert sorted(results) == [False] * 11 + [True]
    [probe] = [one for one, is_probe in zip(deliveries, results, strict=True) if is_probe]
    circuit = await circuit_of(workers[0], endpoint)
    assert (circuit.probe_delivery_id, circuit.probed_last) == (probe, probe)
    assert circuit.probe_until == at(700)
    assert not circuit.workflow_started  # its workflow has to be woken
    assert await held_count(workers[0], endpoint) == 11


async def test_the_deadline_of_a_probe_counts_from_when_it_is_sent(
    database: Database, endpoint: str
) -> None:
    await open_circuit(database, endpoint)
    chosen, other = [await seed_due(database, endpoint) for _ in range(2)]
    await change(database, endpoint, lambda now: begin_probe(now, chosen, until=at(601)))
    before = await change(database, endpoint, lambda now: replace(now, workflow_started=True))
    assert not await admitted(database, endpoint, other)
    assert await circuit_of(database, endpoint) == before
    assert await admitted(database, endpoint, chosen)
    assert await circuit_of(database, endpoint) == replace(before, probe_until=at(700))


async def test_a_held_delivery_has_a_reason_and_a_time_to_check_again(
    database: Database, endpoint: str
) -> None:
    delivery = await seed_due(database, endpoint)
    for reason in ("circuit_open", "endpoint_paused"):
        if reason == "circuit_open":
            await open_circuit(database, endpoint)
        else:
            async with database.write() as connection:
                await endpoint_state.pause(connection, endpoint, now=at(0))
            await release(database, delivery)  # holding it again ends the release
        assert not await admitted(database, endpoint, delivery)
        row = await delivery_row(database, delivery)
        assert (row.status, row.reason, row.attempts) == ("held", reason, 0)
        assert row.next_attempt_at == row.recheck_at == at(600) + 6 * HOUR
        assert not row.released


async def test_held_deliveries_take_turns_as_probe(database: Database, endpoint: str) -> None:
    await open_circuit(database, endpoint)
    deliveries = [await seed_due(database, endpoint) for _ in range(3)]
    for one in deliveries:
        assert not await admitted(database, endpoint, one)
    chosen = []
    for number in range(5):
        async with database.write() as connection:
            [locked] = await circuits.lock(connection, [endpoint])
            probe = await circuits.next_probe(connection, locked)
            assert probe is not None
            after = begin_probe(locked.circuit, probe, until=at(600))
            await circuits.store(connection, locked, after, now=at(500))
        chosen.append(probe)
        failed = (endpoint, probe, ended(FIRST, 503, at(500 + number)))
        async with database.write() as connection:
            await endpoint_health.count(connection, [failed], policy=POLICY, now=at(500))
    assert chosen == [*deliveries, *deliveries[:2]]


# -- requests for the workflow ------------------------------------------------------------------


async def requests(database: Database) -> list[Any]:
    async with database.read() as connection:
        return await CircuitWorkflowRequests().find(connection, limit=100)


async def mark(database: Database, found: list[Any]) -> None:
    async with database.write() as connection:
        await CircuitWorkflowRequests().mark(connection, found, now=at(800))


async def test_an_open_circuit_requests_its_workflow_until_it_is_marked(
    database: Database, endpoint: str
) -> None:
    await record(database, endpoint, 0)
    assert await requests(database) == []
    await open_circuit(database, endpoint)
    [request] = await requests(database)
    assert request.workflow_id == f"circuit/{endpoint}"
    assert request.argument == CircuitInput(endpoint)
    assert len(await requests(database)) == 1
    await mark(database, [request])
    assert await requests(database) == []
    assert (await circuit_of(database, endpoint)).workflow_started


async def _succeed(database: Database, endpoint: str) -> None:
    await record(database, endpoint, 100, succeeded=True)


async def _probe_now(database: Database, endpoint: str) -> None:
    async with database.write() as connection:
        assert await endpoint_state.probe_now(connection, endpoint, now=at(30))


async def _disable(database: Database, endpoint: str) -> None:
    async with database.write() as connection:
        assert await endpoint_state.disable(
            connection, endpoint, cause=Cause.DISABLED, reason="By request.", now=at(30)
        )


async def _claim(database: Database, endpoint: str) -> None:
    await change(database, endpoint, lambda now: begin_probe(now, None, until=at(0)))
    assert await admitted(database, endpoint, await seed_due(database, endpoint))


async def _fail_again(database: Database, endpoint: str) -> None:
    await record(database, endpoint, 100, succeeded=True)
    assert await close(database, endpoint)
    await record(database, endpoint, *range(1000, 1020))


@pytest.mark.parametrize("happens", [_succeed, _probe_now, _disable, _claim, _fail_again])
async def test_a_circuit_that_changed_since_it_was_read_still_requests_its_workflow(
    database: Database, endpoint: str, happens: Callable[[Database, str], Awaitable[None]]
) -> None:
    await open_circuit(database, endpoint)
    seen = await requests(database)
    await happens(database, endpoint)
    await mark(database, seen)
    [request] = await requests(database)
    await mark(database, [request])
    assert await requests(database) == []


@pytest.mark.parametrize(
    ("next_probe", "woken_at", "stalled"),
    [
        (-2 * HOUR, -2 * HOUR, True),
        (None, -2 * HOUR, True),  # a drain
        (HOUR / 2, -2 * HOUR, False),  # it waits for its probe
        (-HOUR / 2, -2 * HOUR, False),
        (-2 * HOUR, -HOUR / 2, False),  # it has just been woken
    ],
)
async def test_only_the_workflow_of_a_stalled_circuit_is_requested_again(
    database: Database,
    endpoint: str,
    next_probe: timedelta | None,
    woken_at: timedelta,
    stalled: bool,
) -> None:
    await open_circuit(database, endpoint)
    h = EndpointHealth.__table__
    due = None if next_probe is None else NOON + next_probe
    async with database.write() as connection:
        await connection.execute(
            update(h).values(next_probe_at=due, workflow_started_at=NOON + woken_at)
        )
    async with database.write() as connection:
        count = await circuits.request_stalled_workflows(connection, overdue_since=NOON - HOUR)
    assert count == int(stalled)
    assert len(await requests(database)) == int(stalled)


async def test_the_workflow_of_a_closed_circuit_is_never_requested_again(
    database: Database, endpoint: str
) -> None:
    await open_circuit(database, endpoint)
    await record(database, endpoint, 100, succeeded=True)
    assert await close(database, endpoint, 100)
    async with database.write() as connection:
        overdue_since = NOON + 9 * HOUR
        assert (
            await circuits.request_stalled_workflows(connection, overdue_since=overdue_since) == 0
        )
