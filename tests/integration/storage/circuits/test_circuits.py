"""Circuits as they are kept: shared by several workers on one database, each with its own pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import select, update

from hookfast.endpoints.circuit import AttemptResult, Cause, State, begin_probe
from hookfast.endpoints.outage import CircuitInput
from hookfast.events.operational import Kind
from hookfast.storage.circuits import circuits
from hookfast.storage.circuits.circuits import CircuitWorkflowRequests
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoint_health, endpoint_state
from hookfast.storage.tables import EndpointHealth
from tests.integration.storage.circuits.stored_circuits import (
    HOUR,
    NOON,
    OWNERS,
    POLICY,
    ask,
    at,
    change,
    circuit_of,
    close,
    deliver,
    draining,
    held,
    open_circuit,
    record,
    release,
    seed_due,
    to_owners,
    told,
)
from tests.support.seed import delivery_row, seed_endpoint

pytestmark = pytest.mark.anyio


@pytest.fixture
async def workers(database_url: str) -> AsyncIterator[list[Database]]:
    """The databases of three workers: what one knows, the others know from the tables alone."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Database(database_url)) for _ in range(3)]


@pytest.fixture
async def endpoint(database_url: str) -> str:
    """An endpoint with two owners; gives its id."""
    async with Database(database_url) as database:
        return await seed_endpoint(database, "https://example.com/hook", owner_emails=OWNERS)


# -- counting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [0, 4])
async def test_the_threshold_is_crossed_once_whoever_counts(
    workers: list[Database], endpoint: str, before: int
) -> None:
    """Also where there is no row to lock yet when all of them begin."""
    for second in range(before):
        await record(workers[0], endpoint, second)
    await asyncio.gather(
        *(record(workers[second % 3], endpoint, second) for second in range(before, before + 24))
    )
    circuit = await circuit_of(workers[0], endpoint)
    assert (circuit.state, circuit.episode, circuit.cause) == (State.OPEN, 1, Cause.FAILURES)
    assert circuit.consecutive_failures == before + 24
    assert await told(workers[0]) == (to_owners("opened"), [Kind.CIRCUIT_OPENED])


async def test_a_threshold_that_is_crossed_and_rolled_back_is_not_crossed(
    database: Database, endpoint: str
) -> None:
    async with database.write() as connection:
        results = [
            (endpoint, AttemptResult(delivery_id="dlv_1", at=at(second), succeeded=False))
            for second in range(20)
        ]
        assert await endpoint_health.count(connection, results, policy=POLICY, now=at(20))
        await connection.rollback()
    assert await told(database) == ([], [])
    assert await record(database, endpoint, *range(20))
    assert await told(database) == (to_owners("opened"), [Kind.CIRCUIT_OPENED])


async def test_successes_of_a_healthy_endpoint_write_nothing_and_wait_for_nobody(
    database: Database, endpoint: str
) -> None:
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement.split()[0])

    async def succeed() -> None:
        async with database.write() as connection:
            sqlalchemy_event.listen(connection.sync_connection, "before_cursor_execute", note)
            result = AttemptResult(delivery_id="dlv_1", at=at(100), succeeded=True)
            assert not await endpoint_health.count(
                connection, [(endpoint, result)], policy=POLICY, now=at(100)
            )

    await succeed()  # it never failed: there is no row
    await record(database, endpoint, 0)
    await record(database, endpoint, 50, succeeded=True)
    healthy = await circuit_of(database, endpoint)
    assert healthy.clean
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


async def test_an_outage_is_told_of_once_however_it_goes(database: Database, endpoint: str) -> None:
    await open_circuit(database, endpoint)
    await record(database, endpoint, 100, succeeded=True)
    await record(database, endpoint, 101, 102, 103, 104, 105)  # the drain fails
    assert (await circuit_of(database, endpoint)).state is State.OPEN
    await record(database, endpoint, 200, succeeded=True)
    delivery = await seed_due(database, endpoint)
    assert not await ask(database, endpoint, delivery)
    async with database.write() as connection:  # and somebody pauses it meanwhile
        assert await endpoint_state.pause(connection, endpoint, now=at(300))
        assert await endpoint_state.resume(connection, endpoint, now=at(310))
    assert await told(database) == (to_owners("opened"), [Kind.CIRCUIT_OPENED])
    assert not await close(database, endpoint)
    await deliver(database, delivery)
    assert await close(database, endpoint)
    both = [Kind.CIRCUIT_OPENED, Kind.CIRCUIT_CLOSED]
    assert await told(database) == (to_owners("opened", "recovered"), both)


# -- holding ------------------------------------------------------------------------------------


async def test_nothing_is_held_behind_a_circuit_that_closed(
    workers: list[Database], endpoint: str
) -> None:
    async def hold_and_drain(index: int, delivery: str) -> None:
        database = workers[index % 3]
        if not await ask(database, endpoint, delivery):
            circuit = await circuit_of(database, endpoint)
            assert circuit.state is State.DRAINING, "held, and nobody will let it go"
            await deliver(database, delivery)

    async def close_when_empty() -> None:
        while not await close(workers[1], endpoint):
            pass

    for _ in range(8):
        await draining(workers[0], endpoint)
        waiting, *deliveries = [await seed_due(workers[0], endpoint) for _ in range(17)]
        assert not await ask(workers[0], endpoint, waiting)
        async with asyncio.TaskGroup() as group:
            group.create_task(close_when_empty())
            group.create_task(deliver(workers[2], waiting))
            for index, delivery in enumerate(deliveries):
                group.create_task(hold_and_drain(index, delivery))
        assert (await circuit_of(workers[0], endpoint)).state is State.CLOSED
        assert await held(workers[0], endpoint) == 0


async def test_nothing_is_held_behind_an_endpoint_that_was_resumed(workers: list[Database]) -> None:
    """An endpoint that never failed has no circuit's row to lock."""
    for _ in range(8):
        endpoint = await seed_endpoint(workers[0], "https://example.com/hook", state="paused")
        deliveries = [await seed_due(workers[0], endpoint) for _ in range(8)]

        async def resume(endpoint: str = endpoint) -> None:
            async with workers[1].write() as connection:
                assert await endpoint_state.resume(connection, endpoint, now=at(0))

        asking = [
            ask(workers[index % 3], endpoint, delivery) for index, delivery in enumerate(deliveries)
        ]
        *verdicts, _ = await asyncio.gather(*asking[:4], *asking[4:], resume())
        count = verdicts.count(False)
        assert await held(workers[0], endpoint) == count
        expected = State.DRAINING if count else State.CLOSED
        assert (await circuit_of(workers[0], endpoint)).state is expected


async def test_an_armed_circuit_is_claimed_by_one(workers: list[Database], endpoint: str) -> None:
    await open_circuit(workers[0], endpoint)
    await change(workers[0], endpoint, lambda now: begin_probe(now, None, until=at(0)))
    await change(workers[0], endpoint, lambda now: replace(now, workflow_started=True))
    deliveries = [await seed_due(workers[0], endpoint) for _ in range(12)]
    verdicts = await asyncio.gather(
        *(ask(workers[index % 3], endpoint, one) for index, one in enumerate(deliveries))
    )
    assert sorted(verdicts) == [False] * 11 + [True]
    [probe] = [one for one, goes in zip(deliveries, verdicts, strict=True) if goes]
    circuit = await circuit_of(workers[0], endpoint)
    assert (circuit.probe_delivery_id, circuit.probed_last) == (probe, probe)
    assert circuit.probe_until == at(700)
    assert not circuit.workflow_started  # its workflow has to hear of it
    assert await held(workers[0], endpoint) == 11


async def test_a_probe_has_its_time_from_when_it_is_sent(database: Database, endpoint: str) -> None:
    await open_circuit(database, endpoint)
    chosen, other = [await seed_due(database, endpoint) for _ in range(2)]
    await change(database, endpoint, lambda now: begin_probe(now, chosen, until=at(601)))
    before = await change(database, endpoint, lambda now: replace(now, workflow_started=True))
    assert not await ask(database, endpoint, other)
    assert await circuit_of(database, endpoint) == before
    assert await ask(database, endpoint, chosen)
    assert await circuit_of(database, endpoint) == replace(before, probe_until=at(700))


async def test_a_held_delivery_says_why_and_when_it_looks_by_itself(
    database: Database, endpoint: str
) -> None:
    delivery = await seed_due(database, endpoint)
    for reason in ("circuit_open", "endpoint_paused"):
        if reason == "circuit_open":
            await open_circuit(database, endpoint)
        else:
            async with database.write() as connection:
                await endpoint_state.pause(connection, endpoint, now=at(0))
            await release(database, delivery)  # which is over when it is held again
        assert not await ask(database, endpoint, delivery)
        row = await delivery_row(database, delivery)
        assert (row.status, row.reason, row.attempts) == ("held", reason, 0)
        assert row.next_attempt_at == row.recheck_at == at(600) + 6 * HOUR
        assert not row.released


async def test_probes_go_round_so_that_one_bad_delivery_is_not_the_only_probe(
    database: Database, endpoint: str
) -> None:
    await open_circuit(database, endpoint)
    deliveries = [await seed_due(database, endpoint) for _ in range(3)]
    for one in deliveries:
        assert not await ask(database, endpoint, one)
    chosen = []
    for number in range(5):
        async with database.write() as connection:
            [owned] = await circuits.lock(connection, [endpoint])
            probe = await circuits.next_probe(connection, owned)
            assert probe is not None
            after = begin_probe(owned.circuit, probe, until=at(600))
            await circuits.store(connection, endpoint, after, now=at(500))
        chosen.append(probe)
        failed = AttemptResult(delivery_id=probe, at=at(500 + number), succeeded=False)
        async with database.write() as connection:
            await endpoint_health.count(
                connection, [(endpoint, failed)], policy=POLICY, now=at(500)
            )
    assert chosen == [*deliveries, *deliveries[:2]]


# -- asking for the workflow --------------------------------------------------------------------


async def asking(database: Database) -> list[Any]:
    async with database.read() as connection:
        return await CircuitWorkflowRequests().find(connection, limit=100)


async def mark(database: Database, wanted: list[Any]) -> None:
    async with database.write() as connection:
        await CircuitWorkflowRequests().mark(connection, wanted, now=at(800))


async def test_a_circuit_asks_until_its_workflow_was_told(
    database: Database, endpoint: str
) -> None:
    await record(database, endpoint, 0)
    assert await asking(database) == []
    await open_circuit(database, endpoint)
    [wanted] = await asking(database)
    assert (wanted.workflow_id, wanted.argument) == (f"circuit/{endpoint}", CircuitInput(endpoint))
    assert len(await asking(database)) == 1
    await mark(database, [wanted])
    assert await asking(database) == []
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
    assert await ask(database, endpoint, await seed_due(database, endpoint))


async def _fail_again(database: Database, endpoint: str) -> None:
    await record(database, endpoint, 100, succeeded=True)
    assert await close(database, endpoint)
    await record(database, endpoint, *range(1000, 1020))


@pytest.mark.parametrize("happens", [_succeed, _probe_now, _disable, _claim, _fail_again])
async def test_a_circuit_that_changed_while_its_workflow_was_told_keeps_asking(
    database: Database, endpoint: str, happens: Callable[[Database, str], Awaitable[None]]
) -> None:
    await open_circuit(database, endpoint)
    seen = await asking(database)
    await happens(database, endpoint)
    await mark(database, seen)
    [wanted] = await asking(database)
    await mark(database, [wanted])
    assert await asking(database) == []


@pytest.mark.parametrize(
    ("next_probe", "told_at", "asks"),
    [
        (-2 * HOUR, -2 * HOUR, True),
        (None, -2 * HOUR, True),  # a drain
        (HOUR / 2, -2 * HOUR, False),  # it waits, as it should
        (-HOUR / 2, -2 * HOUR, False),
        (-2 * HOUR, -HOUR / 2, False),  # it has just been told
    ],
)
async def test_only_a_circuit_that_has_not_moved_for_long_is_asked_for_again(
    database: Database,
    endpoint: str,
    next_probe: timedelta | None,
    told_at: timedelta,
    asks: bool,
) -> None:
    await open_circuit(database, endpoint)
    h = EndpointHealth.__table__
    due = None if next_probe is None else NOON + next_probe
    async with database.write() as connection:
        await connection.execute(
            update(h).values(next_probe_at=due, workflow_started_at=NOON + told_at)
        )
    async with database.write() as connection:
        assert await circuits.request_stalled_workflows(
            connection, overdue_since=NOON - HOUR
        ) == int(asks)
    assert len(await asking(database)) == int(asks)


async def test_a_closed_circuit_is_never_asked_for_again(database: Database, endpoint: str) -> None:
    await open_circuit(database, endpoint)
    await record(database, endpoint, 100, succeeded=True)
    assert await close(database, endpoint, 100)
    async with database.write() as connection:
        assert (
            await circuits.request_stalled_workflows(connection, overdue_since=NOON + 9 * HOUR) == 0
        )
