"""What people do to an endpoint in an outage: pause, disable, enable or delete it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookfast.clock import utc_now
from hookfast.endpoints.circuit import Cause
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.circuits import (
    ON_REQUEST,
    broken,
    circuit,
    count_held,
    held,
    times_sent,
    until_all,
    until_over,
)
from tests.integration.delivery.conftest import Stack, eventually
from tests.integration.delivery.control import Control

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def in_open(stack: Stack, control: Control, endpoint: str) -> None:
    assert (await circuit(stack, endpoint)).state == "open"


async def in_half_open(stack: Stack, control: Control, endpoint: str) -> None:
    stack.receiver.routes["/hook"] = "/slow/2"
    sent = len(stack.receiver.requests)
    await control.probe(endpoint)
    await stack.receiver.wait_for(sent + 1)  # the probe's request is under way
    assert (await circuit(stack, endpoint)).state == "half_open"


async def in_draining(stack: Stack, control: Control, endpoint: str) -> None:
    stack.receiver.routes["/hook"] = "/ok"
    sent = len(stack.receiver.requests)
    await control.probe(endpoint)
    await stack.receiver.wait_for(sent + 3)
    assert (await circuit(stack, endpoint)).state == "draining"


PHASES = pytest.mark.parametrize(
    "phase", [in_open, pytest.param(in_half_open, marks=pytest.mark.slow), in_draining]
)


@PHASES
async def test_an_endpoint_paused_in_an_outage_is_sent_nothing_until_it_is_resumed(
    stack: Stack, control: Control, phase: Any
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 20)
    await phase(stack, control, endpoint)
    await control.pause(endpoint)
    stack.receiver.routes["/hook"] = "/ok"
    new = await stack.deliver(endpoint)
    row = await stack.until_status(new, "held")
    assert row.reason == "endpoint_paused"

    async def settled() -> bool:
        """What was under way when it was paused has ended."""
        requests = sum(times_sent(stack, deliveries))
        rows = [await stack.row(delivery) for delivery in deliveries]
        return {one.status for one in rows} <= {"held", "delivered"} and requests == sum(
            one.attempts for one in rows
        )

    await eventually(settled)
    await asyncio.sleep(0.5)
    await eventually(settled)
    sent = sum(times_sent(stack, deliveries))
    await asyncio.sleep(1)
    assert sum(times_sent(stack, deliveries)) == sent
    assert sent < 20

    await control.resume(endpoint)
    await until_all(stack, [*deliveries, new], "delivered")
    state = await until_over(stack, endpoint)
    assert state.episode == 1
    assert times_sent(stack, [*deliveries, new]) == [1] * 21


@PHASES
async def test_an_endpoint_disabled_in_an_outage_turns_what_is_held_into_dead_letters(
    stack: Stack, control: Control, phase: Any
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 20)
    await phase(stack, control, endpoint)
    await control.disable(endpoint)
    await until_all(stack, deliveries, "dead", "delivered")
    state = await until_over(stack, endpoint)
    assert state.episode == 1
    rows = [await stack.row(delivery) for delivery in deliveries]
    assert {row.reason for row in rows if row.status == "dead"} == {"endpoint_disabled"}
    # what was on its way when it was disabled arrived; nothing was sent twice
    assert times_sent(stack, deliveries) == [int(row.status == "delivered") for row in rows]


async def test_an_endpoint_enabled_at_once_is_sent_all_that_was_held(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 5)
    stack.receiver.routes["/hook"] = "/ok"
    async with stack.database.write() as connection:
        await endpoint_state.disable(
            connection, endpoint, cause=Cause.DISABLED, reason="A slip.", now=utc_now()
        )
        await endpoint_state.enable(connection, endpoint, now=utc_now())
    await control.start_requested()
    await until_all(stack, deliveries, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, deliveries) == [1] * 5


async def test_an_endpoint_enabled_while_it_is_flushed_is_sent_the_rest(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 80)
    stack.receiver.routes["/hook"] = "/ok"
    await control.disable(endpoint)

    async def begun() -> bool:
        return await count_held(stack, endpoint) < 80

    await eventually(begun)
    await control.enable(endpoint)
    await until_all(stack, deliveries, "dead", "delivered")
    await until_over(stack, endpoint)
    rows = [await stack.row(delivery) for delivery in deliveries]
    assert {row.reason for row in rows if row.status == "dead"} == {"endpoint_disabled"}
    assert times_sent(stack, deliveries) == [int(row.status == "delivered") for row in rows]
    fresh = await stack.deliver(endpoint)
    await stack.until_status(fresh, "delivered")


@PHASES
async def test_a_deleted_endpoints_held_deliveries_end_dead(
    stack: Stack, control: Control, phase: Any
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await held(stack, endpoint, 20)
    await phase(stack, control, endpoint)
    await control.delete(endpoint)
    await until_all(stack, deliveries, "dead", "delivered")
    await until_over(stack, endpoint)
    rows = [await stack.row(delivery) for delivery in deliveries]
    assert {row.reason for row in rows if row.status == "dead"} == {"endpoint_deleted"}
    assert times_sent(stack, deliveries) == [int(row.status == "delivered") for row in rows]
