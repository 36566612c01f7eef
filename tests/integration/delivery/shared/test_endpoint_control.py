"""Pausing, disabling, enabling and deleting an endpoint during an outage."""

from __future__ import annotations

from typing import Any

import pytest

from activities import circuit_breaker
from hookfast.clock import utc_now
from hookfast.endpoints.circuit import Cause
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.circuits import (
    ON_REQUEST,
    broken,
    circuit,
    count_held,
    hold,
    times_sent,
    until_over,
    until_workflow_waits,
)
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.control import Control
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def in_open(stack: Stack, control: Control, endpoint: str) -> None:
    assert (await circuit(stack, endpoint)).state == "open"


async def in_half_open(stack: Stack, control: Control, endpoint: str) -> None:
    stack.receiver.routes["/hook"] = "/slow/2"
    sent = len(stack.receiver.requests)
    await control.probe(endpoint)
    await stack.receiver.wait_for(sent + 1)  # the probe is in flight
    assert (await circuit(stack, endpoint)).state == "half_open"


async def in_draining(stack: Stack, control: Control, endpoint: str) -> None:
    stack.receiver.routes["/hook"] = "/ok"
    sent = len(stack.receiver.requests)
    await control.probe(endpoint)
    await stack.receiver.wait_for(sent + 3)
    assert (await circuit(stack, endpoint)).state == "draining"


PHASES = pytest.mark.parametrize(
    "phase",
    [
        in_open,
        pytest.param(in_half_open, marks=pytest.mark.slow),
        pytest.param(in_draining, marks=pytest.mark.slow),
    ],
)
LATER_PHASES = pytest.mark.parametrize(
    "phase",
    [
        pytest.param(in_open, marks=pytest.mark.slow),
        pytest.param(in_half_open, marks=pytest.mark.slow),
        in_draining,
    ],
)
"""Of an action whose other phases are as those of disabling."""


async def assert_sent_once_or_dead(stack: Stack, deliveries: list[str], *, reason: str) -> None:
    """Check that the requests in flight succeeded, nothing was sent twice, and the rest is dead."""
    rows = [await stack.row(delivery) for delivery in deliveries]
    assert {row.reason for row in rows if row.status == "dead"} == {reason}
    assert times_sent(stack, deliveries) == [int(row.status == "delivered") for row in rows]


@PHASES
async def test_an_endpoint_paused_in_an_outage_is_sent_nothing_until_it_is_resumed(
    stack: Stack, control: Control, phase: Any
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await hold(stack, endpoint, 12)
    await phase(stack, control, endpoint)
    await control.pause(endpoint)
    stack.receiver.routes["/hook"] = "/ok"
    new = await stack.deliver(endpoint)
    row = await stack.until_status(new, "held")
    assert row.reason == "endpoint_paused"

    async def settled() -> bool:
        """Return whether everything released before the pause has been attempted or held."""
        requests = sum(times_sent(stack, deliveries))
        rows = [await stack.row(delivery) for delivery in deliveries]
        ended = {one.status for one in rows} <= {"held", "delivered"}
        return (
            ended
            and not any(one.status == "held" and one.released for one in rows)
            and requests == sum(one.attempts for one in rows)
        )

    await until_workflow_waits(stack, endpoint, seconds=600)  # it releases no more
    await eventually(settled)
    assert sum(times_sent(stack, deliveries)) < 12

    await control.resume(endpoint)
    await stack.until_all([*deliveries, new], "delivered")
    state = await until_over(stack, endpoint)
    assert state.episode == 1
    assert times_sent(stack, [*deliveries, new]) == [1] * 13


@PHASES
async def test_disabling_an_endpoint_in_an_outage_turns_held_deliveries_into_dead_letters(
    stack: Stack, control: Control, phase: Any
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await hold(stack, endpoint, 12)
    await phase(stack, control, endpoint)
    await control.disable(endpoint)
    await stack.until_all(deliveries, "dead", "delivered")
    state = await until_over(stack, endpoint)
    assert state.episode == 1
    await assert_sent_once_or_dead(stack, deliveries, reason="endpoint_disabled")


async def test_endpoint_disabled_and_enabled_at_once_is_sent_all_held_deliveries(
    stack: Stack, control: Control
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await hold(stack, endpoint, 5)
    stack.receiver.routes["/hook"] = "/ok"
    async with stack.database.write() as connection:
        await endpoint_state.disable(
            connection, endpoint, cause=Cause.DISABLED, reason="By mistake.", now=utc_now()
        )
        await endpoint_state.enable(connection, endpoint, now=utc_now())
    await stack.workflow_starter.start_requested()
    await stack.until_all(deliveries, "delivered")
    await until_over(stack, endpoint)
    assert times_sent(stack, deliveries) == [1] * 5


async def test_endpoint_enabled_while_its_held_deliveries_become_dead_letters_is_sent_the_rest(
    stack: Stack, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(circuit_breaker, "_MAX_RELEASED", 2)  # at once; five times a second
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await hold(stack, endpoint, 12)
    stack.receiver.routes["/hook"] = "/ok"
    await control.disable(endpoint)

    async def begun() -> bool:
        return await count_held(stack, endpoint) < 12

    await eventually(begun)
    await control.enable(endpoint)
    await stack.until_all(deliveries, "dead", "delivered")
    await until_over(stack, endpoint)
    await assert_sent_once_or_dead(stack, deliveries, reason="endpoint_disabled")
    assert 1 in times_sent(stack, deliveries)
    fresh = await stack.deliver(endpoint)
    await stack.until_status(fresh, "delivered")


@LATER_PHASES
async def test_deleting_an_endpoint_in_an_outage_turns_held_deliveries_into_dead_letters(
    stack: Stack, control: Control, phase: Any
) -> None:
    endpoint, _ = await broken(stack, circuit=ON_REQUEST)
    deliveries = await hold(stack, endpoint, 12)
    await phase(stack, control, endpoint)
    await control.delete(endpoint)
    await stack.until_all(deliveries, "dead", "delivered")
    await until_over(stack, endpoint)
    await assert_sent_once_or_dead(stack, deliveries, reason="endpoint_deleted")
