"""Pausing, resuming, disabling and enabling endpoints: the effects on their circuit, and the
notifications."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import rfc3339
from hookfast.endpoints.circuit import Cause, EndpointState, State, begin_probe
from hookfast.events.operational import Kind
from hookfast.storage.circuits import circuits
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Endpoint, Notice
from hookfast.telemetry.instruments import CIRCUIT_CHANGES
from tests.integration.storage.circuits.stored_circuits import (
    OWNERS,
    admitted,
    at,
    change,
    circuit_of,
    close,
    draining,
    notified,
    open_circuit,
    record,
    seed_due,
    to_owners,
)
from tests.support.seed import seed_endpoint
from tests.support.undoing import undoing

pytestmark = pytest.mark.anyio

Action = Callable[[AsyncConnection, str], Awaitable[bool]]
OPENED = (to_owners("opened"), [Kind.CIRCUIT_OPENED])


@pytest.fixture
async def endpoint(database: Database) -> str:
    """The id of an endpoint with two owners."""
    return await seed_endpoint(database, "https://example.com/hook?token=1", owner_emails=OWNERS)


async def pause(connection: AsyncConnection, endpoint: str) -> bool:
    return await endpoint_state.pause(connection, endpoint, now=at(600))


async def resume(connection: AsyncConnection, endpoint: str) -> bool:
    return await endpoint_state.resume(connection, endpoint, now=at(610))


async def enable(connection: AsyncConnection, endpoint: str) -> bool:
    return await endpoint_state.enable(connection, endpoint, now=at(650))


async def probe_now(connection: AsyncConnection, endpoint: str) -> bool:
    return await endpoint_state.probe_now(connection, endpoint, now=at(630))


async def disable(
    connection: AsyncConnection, endpoint: str, *, cause: Cause = Cause.DISABLED
) -> bool:
    return await endpoint_state.disable(
        connection, endpoint, cause=cause, reason="It is enough.", now=at(640)
    )


async def do(database: Database, endpoint: str, *actions: Action) -> None:
    """Run each action in its own transaction; each must change something."""
    for action in actions:
        async with database.write() as connection:
            assert await action(connection, endpoint), action.__name__


async def row(database: Database, endpoint: str) -> Any:
    table = Endpoint.__table__
    async with database.read() as connection:
        return (await connection.execute(select(table).where(table.c.id == endpoint))).one()


async def hold(database: Database, endpoint: str) -> str:
    delivery = await seed_due(database, endpoint)
    assert not await admitted(database, endpoint, delivery)
    return delivery


# -- the endpoint's state -----------------------------------------------------------------------


async def test_each_action_changes_the_state_where_it_applies(database: Database) -> None:
    reasons = {"paused": "Paused by request.", "disabled": "It is enough.", "enabled": None}
    for before, action, then in (
        ("enabled", pause, "paused"),
        ("enabled", disable, "disabled"),
        ("paused", resume, "enabled"),
        ("paused", enable, "enabled"),
        ("paused", disable, "disabled"),
        ("disabled", enable, "enabled"),
    ):
        endpoint = await seed_endpoint(database, "https://example.com/hook", state=before)
        async with database.write() as connection:
            assert await action(connection, endpoint), (before, then)
        now = await row(database, endpoint)
        assert (now.state, now.state_reason) == (then, reasons[then])
        # caches of endpoints depend on this time
        assert at(600) <= now.updated_at <= at(650)


async def test_an_action_that_does_not_apply_changes_nothing(database: Database) -> None:
    for before, action in (
        ("enabled", resume),
        ("enabled", enable),
        ("paused", pause),
        ("disabled", pause),
        ("disabled", resume),
        ("disabled", disable),
    ):
        endpoint = await seed_endpoint(database, "https://example.com/hook", state=before)
        was = await row(database, endpoint)
        async with database.write() as connection:
            assert not await action(connection, endpoint), (before, action)
        assert await row(database, endpoint) == was, (before, action)
    assert await notified(database) == ([], [])


async def test_a_deleted_endpoint_stays_as_it_is(database: Database) -> None:
    actions = (pause, resume, enable, disable, probe_now)
    for state, action in product(("enabled", "paused", "disabled"), actions):
        endpoint = await seed_endpoint(
            database, "https://example.com/hook", state=state, deleted_at=at(0)
        )
        was = await row(database, endpoint)
        async with database.write() as connection:
            assert not await action(connection, endpoint), (state, action)
        assert await row(database, endpoint) == was, (state, action)
    assert await notified(database) == ([], [])


# -- resuming -----------------------------------------------------------------------------------


async def test_resuming_drains_the_deliveries_held_while_paused(
    database: Database, endpoint: str
) -> None:
    await do(database, endpoint, pause)
    await hold(database, endpoint)
    await do(database, endpoint, resume)
    circuit = await circuit_of(database, endpoint)
    assert (circuit.state, circuit.cause) == (State.DRAINING, Cause.RESUMED)
    assert not circuit.workflow_started
    assert await notified(database) == ([], [])


async def test_resuming_without_held_deliveries_needs_no_drain(
    database: Database, endpoint: str
) -> None:
    await do(database, endpoint, pause, resume)
    circuit = await circuit_of(database, endpoint)
    assert (circuit.state, circuit.workflow_started) == (State.CLOSED, True)


@pytest.mark.parametrize("half_open", [False, True])
async def test_resuming_an_endpoint_with_an_open_circuit_probes_it_at_once(
    database: Database, endpoint: str, half_open: bool
) -> None:
    await open_circuit(database, endpoint)
    if half_open:
        await change(database, endpoint, lambda now: begin_probe(now, None, until=at(0)))
    before = await change(database, endpoint, lambda now: replace(now, workflow_started=True))
    await do(database, endpoint, pause)
    assert await circuit_of(database, endpoint) == before
    await do(database, endpoint, resume)
    after = await circuit_of(database, endpoint)
    assert after == replace(before, next_probe_at=at(610), workflow_started=False)
    assert await notified(database) == OPENED


async def test_owners_are_notified_of_an_outage_that_begins_during_a_drain(
    database: Database, endpoint: str
) -> None:
    await do(database, endpoint, pause)
    await hold(database, endpoint)
    await do(database, endpoint, resume)
    await record(database, endpoint, 700, 701, 702, 703, 704)
    assert (await circuit_of(database, endpoint)).state is State.OPEN
    assert await notified(database) == OPENED


# -- probing ------------------------------------------------------------------------------------


async def test_only_an_open_circuit_is_probed_now(database: Database, endpoint: str) -> None:
    async with database.write() as connection:
        assert not await probe_now(connection, endpoint)
    await open_circuit(database, endpoint)
    await change(database, endpoint, lambda now: replace(now, workflow_started=True))
    await do(database, endpoint, probe_now)
    circuit = await circuit_of(database, endpoint)
    assert (circuit.next_probe_at, circuit.workflow_started) == (at(630), False)
    await record(database, endpoint, 700, succeeded=True)
    async with database.write() as connection:
        assert not await probe_now(connection, endpoint)


# -- disabling and enabling ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "kinds"),
    [(Cause.GONE, ["disabled"]), (Cause.GAVE_UP, ["disabled"]), (Cause.DISABLED, [])],
)
async def test_owners_are_notified_of_a_disabled_endpoint_unless_a_person_disabled_it(
    database: Database, endpoint: str, cause: Cause, kinds: list[str]
) -> None:
    await open_circuit(database, endpoint)
    async with database.write() as connection:
        assert await disable(connection, endpoint, cause=cause)
    notices, events = await notified(database)
    assert notices == to_owners("opened", *kinds)
    assert events == [Kind.CIRCUIT_OPENED, Kind.ENDPOINT_DISABLED]
    n = Notice.__table__.c
    async with database.read() as connection:
        facts = (await connection.execute(select(n.facts).where(n.kind == "disabled"))).scalars()
        assert all(
            (found["reason"], found["since"]) == ("It is enough.", rfc3339(at(0)))
            for found in facts
        )


@pytest.mark.parametrize("state", ["closed", "open", "half_open", "draining"])
async def test_disabling_releases_held_deliveries_in_any_circuit_state(
    database: Database, endpoint: str, state: str
) -> None:
    if state in ("open", "half_open"):
        await open_circuit(database, endpoint)
    if state == "half_open":
        await change(database, endpoint, lambda now: begin_probe(now, "dlv_1", until=at(0)))
    if state == "draining":
        await draining(database, endpoint)
    await do(database, endpoint, disable)
    circuit = await circuit_of(database, endpoint)
    assert (circuit.state, circuit.cause) == (State.DRAINING, Cause.DISABLED)
    assert not circuit.workflow_started
    assert circuit.probe_delivery_id is None


@pytest.mark.parametrize("some_held", [False, True])
async def test_enabling_an_endpoint_resets_its_circuit(
    database: Database, endpoint: str, some_held: bool
) -> None:
    await open_circuit(database, endpoint)
    if some_held:
        await hold(database, endpoint)
    closed = CIRCUIT_CHANGES.total(change="closed")
    disabled = CIRCUIT_CHANGES.total(change="disabled")
    await do(database, endpoint, disable, enable)
    assert CIRCUIT_CHANGES.total(change="disabled") == disabled + 1
    assert CIRCUIT_CHANGES.total(change="closed") == closed  # it has not recovered
    circuit = await circuit_of(database, endpoint)
    assert circuit.state is (State.DRAINING if some_held else State.CLOSED)
    assert (circuit.consecutive_failures, circuit.first_failure_at) == (0, None)
    _, events = await notified(database)
    assert events == [Kind.CIRCUIT_OPENED, Kind.ENDPOINT_DISABLED, Kind.ENDPOINT_ENABLED]
    # four more failures count as four, and the fifth opens the circuit again
    await record(database, endpoint, 700, 705, 710, 715)
    assert (await circuit_of(database, endpoint)).state is circuit.state
    await record(database, endpoint, 720)
    assert (await circuit_of(database, endpoint)).state is State.OPEN


@pytest.mark.parametrize("flushed", [False, True])
async def test_failures_after_an_endpoint_was_disabled_do_not_open_its_circuit(
    database: Database, endpoint: str, flushed: bool
) -> None:
    await do(database, endpoint, disable)
    if flushed:
        assert await close(database, endpoint)
    before = await notified(database)
    await record(database, endpoint, *range(20, 40))
    circuit = await circuit_of(database, endpoint)
    assert circuit.state is (State.CLOSED if flushed else State.DRAINING)
    assert await notified(database) == before == ([], [Kind.ENDPOINT_DISABLED])


async def test_a_rolled_back_change_notifies_nobody(database: Database, endpoint: str) -> None:
    async with undoing(database) as connection:
        assert await disable(connection, endpoint, cause=Cause.GONE)
    assert (await row(database, endpoint)).state == "enabled"
    assert await notified(database) == ([], [])


async def test_deleting_an_endpoint_releases_its_held_deliveries(
    database: Database, endpoint: str
) -> None:
    await open_circuit(database, endpoint)
    await hold(database, endpoint)
    e = Endpoint.__table__
    async with database.write() as connection:
        await connection.execute(update(e).where(e.c.id == endpoint).values(deleted_at=at(640)))
        await endpoint_state.release_held(connection, endpoint, now=at(640))
    circuit = await circuit_of(database, endpoint)
    assert (circuit.state, circuit.cause) == (State.DRAINING, Cause.DISABLED)
    async with database.read() as connection:
        stored = await circuits.get(connection, endpoint)
    assert stored is not None
    assert stored.endpoint_state is EndpointState.DELETED
