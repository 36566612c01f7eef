"""Draining after an outage: held deliveries are sent in order and within the limits."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from tests.integration.delivery.circuits import (
    ON_REQUEST,
    QUICK,
    assert_within_rate,
    broken,
    record_slots,
    recorded_attempts,
    recover,
    until_circuit,
)
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

_RELEASED_AT_ONCE = 16
"""Number of held deliveries that are released together, in no order among themselves."""


async def held_for(stack: Stack, count: int, **options: Any) -> tuple[str, list[str]]:
    """Create an endpoint with held deliveries, and forget the requests so far."""
    endpoint, _ = await broken(stack, circuit=ON_REQUEST, **options)
    held = await stack.deliver_together(endpoint, count)
    await stack.until_all(held, "held")
    stack.receiver.requests.clear()
    return endpoint, held


async def was_released(stack: Stack, delivery: str) -> bool:
    """Return whether the delivery was released: only then is its workflow woken."""
    return any(
        [
            event.workflow_execution_signaled_event_attributes.signal_name == "wake"
            async for event in stack.workflow(delivery).fetch_history_events()
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
        ]
    )


async def test_new_deliveries_during_a_drain_wait_their_turn(stack: Stack) -> None:
    endpoint, held = await held_for(stack, 24)

    await recover(stack, endpoint)
    await until_circuit(stack, endpoint, "draining")
    # 24 take five seconds, so these are created long before the last is sent
    new = await stack.deliver_together(endpoint, 6)
    await stack.until_all(held + new, "delivered")

    after = await until_circuit(stack, endpoint, "closed")
    assert (after.episode, after.drained) == (1, 29)
    assert all([await was_released(stack, delivery) for delivery in new])
    arrived = [request.message_id or "" for request in stack.receiver.requests]
    assert sorted(arrived) == held + new
    places = {delivery: place for place, delivery in enumerate(held + new)}
    assert max(abs(places[one] - at) for at, one in enumerate(arrived)) <= _RELEASED_AT_ONCE


@pytest.mark.slow
async def test_a_drain_stays_within_the_endpoints_rate(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, held = await held_for(stack, 40, rate_limit_per_second=5)

    slots = record_slots(monkeypatch)
    await recover(stack, endpoint)
    await stack.until_all(held, "delivered")

    assert sorted(request.message_id or "" for request in stack.receiver.requests) == held
    assert_within_rate(stack.receiver.requests, 5, slots)
    await until_circuit(stack, endpoint, "closed")


@pytest.mark.slow
async def test_a_drain_stays_within_the_endpoints_max_in_flight(
    stack: Stack,
) -> None:
    endpoint, held = await held_for(stack, 40, max_in_flight=2)

    # two at a time are 6.7/s; the ramp alone would have six in flight in its third step
    await recover(stack, endpoint, "/slow/0.3")
    await stack.until_all(held, "delivered")

    assert sorted(request.message_id or "" for request in stack.receiver.requests) == held
    assert stack.receiver.most_in_flight == 2
    await until_circuit(stack, endpoint, "closed")


@pytest.mark.parametrize("count", [15, pytest.param(60, marks=pytest.mark.slow)])
async def test_endpoint_that_fails_half_of_the_time_receives_every_delivery_once(
    stack: Stack, count: int
) -> None:
    stack.receiver.routes["/hook"] = "/flapping/50"
    plan = PATIENT | {"delays_seconds": [0.5] * 100}
    policy = QUICK | {"probe_delays_seconds": [0.2, 0.4, 0.8]}
    endpoint = await stack.endpoint("/hook", plan=plan, circuit=policy)

    deliveries = await stack.deliver_together(endpoint, count)
    opened = await until_circuit(stack, endpoint, "open", "half_open", "draining")
    assert opened.episode == 1
    await stack.until_all(deliveries, "delivered", timeout=110)

    await until_circuit(stack, endpoint, "closed")
    # every request was recorded, under the number it was sent with, and nothing else was
    posts = [
        (one.message_id, int(one.headers["x-hook-attempt"])) for one in stack.receiver.requests
    ]
    assert sorted(posts) == await recorded_attempts(stack, endpoint)
    # half of the requests succeeded, and each delivery had only one of those
    assert {message for message, _ in posts} == set(deliveries)
    assert len(posts) == pytest.approx(2 * count, rel=1 / 3)
