"""An endpoint is well again, or now and then: what was held goes out in order and within limits."""

from __future__ import annotations

import time
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from tests.integration.delivery.circuits import (
    ON_REQUEST,
    QUICK,
    assert_within_rate,
    broken,
    deliver_many,
    recover,
    sent,
    until_all,
    until_circuit,
)
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

_RELEASED_AT_ONCE = 16
"""Held deliveries are told to go so many at a time, in no order among themselves."""


async def held_for(stack: Stack, count: int, **options: Any) -> tuple[str, list[str]]:
    """An endpoint with so many deliveries held for it; no request that was made so far counts."""
    endpoint, _ = await broken(stack, circuit=ON_REQUEST, **options)
    held = await deliver_many(stack, endpoint, count)
    await until_all(stack, held, "held")
    stack.receiver.requests.clear()
    return endpoint, held


async def was_released(stack: Stack, delivery: str) -> bool:
    """Whether the delivery was let go, and so had been held: only then was it woken."""
    return any(
        [
            event.workflow_execution_signaled_event_attributes.signal_name == "wake"
            async for event in stack.workflow(delivery).fetch_history_events()
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
        ]
    )


async def test_what_comes_during_the_drain_waits_its_turn(stack: Stack) -> None:
    endpoint, held = await held_for(stack, 40)

    await recover(stack, endpoint)
    await until_circuit(stack, endpoint, "draining")
    # 40 take seven seconds: these come long before the last of them has gone
    new = await deliver_many(stack, endpoint, 10)
    await until_all(stack, held + new, "delivered")

    after = await until_circuit(stack, endpoint, "closed")
    assert (after.episode, after.drained) == (1, 49)
    assert all([await was_released(stack, delivery) for delivery in new])
    arrived = [request.message_id or "" for request in stack.receiver.requests]
    assert sorted(arrived) == held + new
    places = {delivery: place for place, delivery in enumerate(held + new)}
    assert max(abs(places[one] - at) for at, one in enumerate(arrived)) <= _RELEASED_AT_ONCE


@pytest.mark.slow
async def test_a_drain_stays_within_the_endpoints_rate(stack: Stack) -> None:
    endpoint, held = await held_for(stack, 40, rate_limit_per_second=5)

    begun = time.time()
    await recover(stack, endpoint)
    await until_all(stack, held, "delivered")

    assert sorted(request.message_id or "" for request in stack.receiver.requests) == held
    assert_within_rate(stack.receiver.requests, 5, since=begun)
    await until_circuit(stack, endpoint, "closed")


@pytest.mark.slow
async def test_a_drain_never_has_more_requests_under_way_than_the_endpoint_takes(
    stack: Stack,
) -> None:
    endpoint, held = await held_for(stack, 40, max_in_flight=2)

    # two at a time make 6.7/s; the ramp alone would have six under way in its third step
    await recover(stack, endpoint, "/slow/0.3")
    await until_all(stack, held, "delivered")

    assert sorted(request.message_id or "" for request in stack.receiver.requests) == held
    assert stack.receiver.most_under_way == 2
    await until_circuit(stack, endpoint, "closed")


async def test_an_endpoint_that_fails_every_other_time_gets_everything(stack: Stack) -> None:
    stack.receiver.routes["/hook"] = "/flapping/50"
    plan = PATIENT | {"delays_seconds": [0.5] * 100}
    policy = QUICK | {"probe_delays_seconds": [0.2, 0.4, 0.8]}
    endpoint = await stack.endpoint("/hook", plan=plan, circuit=policy)

    deliveries = await deliver_many(stack, endpoint, 60)
    opened = await until_circuit(stack, endpoint, "open", "half_open", "draining")
    assert opened.episode == 1
    await until_all(stack, deliveries, "delivered", timeout=110)

    await until_circuit(stack, endpoint, "closed")
    # every request was recorded, under the number it was sent with, and nothing else was
    posts = [
        (one.message_id, int(one.headers["x-hook-attempt"])) for one in stack.receiver.requests
    ]
    assert sorted(posts) == await sent(stack, endpoint)
    # half of the requests were answered well, and each delivery took only one of those
    assert {message for message, _ in posts} == set(deliveries)
    assert len(posts) == pytest.approx(120, abs=40)
