"""Resends and probes that wait at their endpoint's limits, and leave the retry plan as it was."""

from __future__ import annotations

import pytest

from hookfast.clock import utc_now
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.circuits import QUICK, until_circuit
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

SLOW = {"rate_limit_per_second": 0.5}
"""A limit at which the next attempt waits for two seconds."""


async def paused_after_a_failure(stack: Stack) -> str:
    """Return a paused delivery whose endpoint takes no request for the next two seconds."""
    stack.receiver.routes["/hook"] = "/status/500"
    delivery = await stack.deliver_until("retrying", "/hook", plan=PATIENT, **SLOW)
    await stack.signal(delivery, "pause", until="paused")
    return delivery


async def until_limited(stack: Stack, delivery: str) -> None:
    async def limited() -> bool:
        return (await stack.state(delivery)).next_attempt_at is not None

    await eventually(limited)


async def triggers(stack: Stack, delivery: str, count: int) -> list[str]:
    """Wait until this number of attempts is recorded, and return their triggers."""

    await stack.until_attempts(delivery, count)
    return [row.trigger for row in await stack.attempts(delivery)]


async def test_limited_resend_of_a_paused_delivery_is_sent_when_the_limit_allows(
    stack: Stack,
) -> None:
    delivery = await paused_after_a_failure(stack)
    stack.receiver.routes["/hook"] = "/ok"

    await stack.workflow(delivery).signal("resend")
    await until_limited(stack, delivery)

    assert (await stack.row(delivery)).status in ("paused", "delivered")
    await stack.until_status(delivery, "delivered")
    assert await triggers(stack, delivery, 2) == ["first", "resend"]


async def test_paused_delivery_stays_paused_when_its_limited_resend_fails(stack: Stack) -> None:
    delivery = await paused_after_a_failure(stack)

    await stack.workflow(delivery).signal("resend")

    assert await triggers(stack, delivery, 2) == ["first", "resend"]
    row = await stack.row(delivery)
    assert (row.status, row.retries, row.next_attempt_at) == ("paused", 0, None)


async def test_cancel_withdraws_a_resend_that_waits_at_a_limit(stack: Stack) -> None:
    delivery = await paused_after_a_failure(stack)
    await stack.workflow(delivery).signal("resend")
    await until_limited(stack, delivery)

    await stack.workflow(delivery).signal("cancel")

    state = await stack.final_state(delivery)
    assert (state.status, state.next_attempt_at) == ("cancelled", None)
    assert len(stack.receiver.requests) == 1


async def test_limited_resends_of_held_deliveries_are_sent_one_after_the_other(
    stack: Stack,
) -> None:
    endpoint = await stack.endpoint("/ok", **SLOW)
    await stack.change_endpoint(endpoint_state.pause, endpoint)
    deliveries = [await stack.deliver(endpoint) for _ in range(2)]
    await stack.until_all(deliveries, "held")

    for delivery in deliveries:
        await stack.workflow(delivery).signal("resend")

    await stack.until_all(deliveries, "delivered")
    for delivery in deliveries:
        assert await triggers(stack, delivery, 1) == ["resend"]


async def test_limited_resend_of_a_cancelled_delivery_begins_its_plan_again(
    stack: Stack,
) -> None:
    endpoint = await stack.endpoint("/fail-first/2", plan=PATIENT, **SLOW)
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "retrying")
    await stack.workflow(delivery).signal("cancel")
    await stack.workflow(delivery).signal("resend")

    assert await triggers(stack, delivery, 2) == ["first", "resend"]
    row = await stack.until_status(delivery, "retrying")
    assert (row.attempts, row.retries) == (2, 0)
    assert row.next_attempt_at > utc_now()


async def test_probe_that_waits_at_a_limit_is_still_a_probe(stack: Stack) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    options = QUICK | {"failure_threshold": 1, "probe_delays_seconds": [600]}
    endpoint = await stack.endpoint("/hook", plan=PATIENT, circuit=options, max_in_flight=1)
    failed = await stack.deliver(endpoint)
    await until_circuit(stack, endpoint, "open")
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "held")
    stack.receiver.routes["/hook"] = "/slow/2?status=500"
    await stack.workflow(failed).signal("resend")
    await stack.receiver.wait_for(2)  # max_in_flight is reached now
    await stack.change_endpoint(endpoint_state.probe_now, endpoint)

    assert await triggers(stack, delivery, 1) == ["probe"]

    row = await stack.row(delivery)
    assert (row.status, row.retries) == ("held", 0)
