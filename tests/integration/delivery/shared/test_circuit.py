"""A circuit in a whole worker: it holds deliveries while open, probes, and drains on recovery."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from hookfast.endpoints.outage import workflow_id
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Endpoint
from tests.integration.delivery.circuits import (
    QUICK,
    broken,
    circuit,
    hold,
    notices,
    until_circuit,
    until_workflow_waits,
)
from tests.integration.delivery.conftest import Stack
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def test_open_circuit_holds_deliveries_and_sends_them_after_recovery(stack: Stack) -> None:
    endpoint, _ = await broken(stack, circuit=QUICK | {"probe_delays_seconds": [60, 0.5, 30]})
    assert len(stack.receiver.requests) == 3

    held = await hold(stack, endpoint, 6)
    await stack.change_endpoint(endpoint_state.probe_now, endpoint)

    async def probed_twice() -> bool:
        return (await circuit(stack, endpoint)).probes == 2

    await eventually(probed_twice)
    await until_workflow_waits(stack, endpoint, seconds=30)
    # the three failures and two probes, both with held deliveries; nothing else was sent
    assert len(stack.receiver.requests) == 5
    triggers = [a.trigger for one in held for a in await stack.attempts(one)]
    assert triggers == ["probe", "probe"]

    stack.receiver.routes["/hook"] = "/ok"
    await stack.change_endpoint(endpoint_state.probe_now, endpoint)
    await stack.until_all(held, "delivered")
    after = await until_circuit(stack, endpoint, "closed")
    assert (after.episode, after.drained) == (1, 5)
    rows = [await stack.row(one) for one in held]
    assert {row.retries for row in rows} == {0}  # holding and probing used up no retries
    assert sorted(row.attempts for row in rows) == [1] * 4 + [2] * 2
    state = await stack.client.get_workflow_handle(workflow_id(endpoint)).result()
    assert state["state"] == "closed"
    assert [kind for kind, _ in await notices(stack, endpoint)] == ["opened", "recovered"]


async def test_endpoint_without_a_success_for_too_long_is_disabled(stack: Stack) -> None:
    hurried = {"disable_after_seconds": 5, "probe_delays_seconds": [3, 0.5]}
    endpoint, _ = await broken(stack, circuit=QUICK | hurried)
    held = await hold(stack, endpoint, 5)
    await stack.until_all(held, "dead")
    rows = [await stack.row(one) for one in held]
    assert {row.reason for row in rows} == {"endpoint_disabled"}
    await until_circuit(stack, endpoint, "closed")
    async with stack.database.read() as connection:
        table = Endpoint.__table__
        row = (await connection.execute(select(table).where(table.c.id == endpoint))).one()
    assert row.state == "disabled"
    assert "without a success" in row.state_reason
    kinds = [kind for kind, _ in await notices(stack, endpoint)]
    assert kinds == ["disabled", "opened", "still_failing"]


async def test_a_paused_endpoint_holds_and_a_resumed_one_sends(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    await stack.change_endpoint(endpoint_state.pause, endpoint)
    held = await hold(stack, endpoint, 5)
    assert {(await stack.row(one)).reason for one in held} == {"endpoint_paused"}
    assert stack.receiver.requests == []
    await stack.change_endpoint(endpoint_state.resume, endpoint)
    await stack.until_all(held, "delivered")
    await until_circuit(stack, endpoint, "closed")
    assert await notices(stack, endpoint) == []


async def test_without_held_deliveries_the_next_delivery_is_the_probe(stack: Stack) -> None:
    endpoint, _ = await broken(stack, circuit=QUICK | {"probe_delays_seconds": [0.3, 60]})
    await until_circuit(stack, endpoint, "half_open")
    stack.receiver.routes["/hook"] = "/ok"
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "delivered")
    await until_circuit(stack, endpoint, "closed")
    assert [a.trigger for a in await stack.attempts(delivery)] == ["first"]


async def test_a_persons_resend_passes_an_open_circuit_and_its_success_closes_it(
    stack: Stack,
) -> None:
    endpoint, _ = await broken(stack, circuit=QUICK | {"probe_delays_seconds": [60]})
    held = await hold(stack, endpoint, 3)
    await stack.workflow(held[1]).signal("resend")
    await stack.receiver.wait_for(4)
    await stack.until_status(held[1], "held")  # it failed, and waits with the others
    stack.receiver.routes["/hook"] = "/ok"
    await stack.workflow(held[1]).signal("resend")
    await stack.until_all(held, "delivered")
    await until_circuit(stack, endpoint, "closed")
