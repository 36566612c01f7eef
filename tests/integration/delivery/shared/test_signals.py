"""The signals `pause`, `resume`, `resend` and `cancel`, and Temporal's cancellation reach the step.
What the step makes of them is tested in `tests/integration/delivery/step`."""

from __future__ import annotations

import asyncio

import pytest

from hookfast.clock import utc_now
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def test_pause_stops_the_retries_and_resume_continues_them(stack: Stack) -> None:
    plan = {"delays_seconds": [4], "jitter": 0, "retry_on": "all"}
    delivery = await stack.deliver_until("retrying", "/fail-first/1", plan=plan)
    planned = (await stack.row(delivery)).next_attempt_at

    row = await stack.signal(delivery, "pause", until="paused")
    assert row.next_attempt_at is None
    await asyncio.sleep((planned - utc_now()).total_seconds() + 0.5)
    assert len(stack.receiver.requests) == 1

    await stack.signal(delivery, "resume", until="delivered")


async def test_resume_during_a_resend_takes_effect_when_the_resend_fails(stack: Stack) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    delivery = await stack.deliver(await stack.endpoint("/hook", plan=PATIENT, timeout=20))
    planned = (await stack.until_status(delivery, "retrying")).next_attempt_at
    await stack.signal(delivery, "pause", until="paused")
    stack.receiver.routes["/hook"] = "/slow/1?status=500"
    await stack.workflow(delivery).signal("resend")
    await stack.receiver.wait_for(2)

    row = await stack.signal(delivery, "resume", until="retrying")
    assert row.attempts == 2
    assert abs((row.next_attempt_at - planned).total_seconds()) < 2


@pytest.mark.parametrize("by", ["signal", "temporal"])
async def test_cancel_ends_a_waiting_delivery(stack: Stack, by: str) -> None:
    delivery = await stack.deliver_until("retrying", "/status/500", plan=PATIENT)

    handle = stack.workflow(delivery)
    await (handle.signal("cancel") if by == "signal" else handle.cancel())

    row = await stack.until_status(delivery, "cancelled")
    assert row.next_attempt_at is None
    assert row.finished_at is not None
    assert len(stack.receiver.requests) == 1


async def test_temporals_cancel_button_lets_the_attempt_in_flight_end_first(stack: Stack) -> None:
    endpoint = await stack.endpoint("/slow/1?status=500", plan=PATIENT, timeout=20)
    delivery = await stack.deliver(endpoint)
    await stack.receiver.wait_for(1)

    await stack.workflow(delivery).cancel()

    state = await stack.final_state(delivery)
    assert (state.status, state.attempts) == ("cancelled", 1)
    row = await stack.row(delivery)
    assert (row.status, row.attempts, row.next_attempt_at) == ("cancelled", 1, None)
    assert len(await stack.attempts(delivery)) == 1


async def test_a_resend_right_after_a_cancel_is_not_lost(stack: Stack) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    endpoint = await stack.endpoint("/hook", plan=PATIENT, circuit={"failure_threshold": 100})
    deliveries = await stack.deliver_together(endpoint, 5)
    await stack.until_all(deliveries, "retrying")
    stack.receiver.routes["/hook"] = "/ok"

    for delivery in deliveries:
        await stack.request(delivery, "cancel")
        await stack.request(delivery, "resend")

    await stack.until_all(deliveries, "delivered")


async def test_a_resend_that_succeeds_ends_the_delivery(stack: Stack) -> None:
    delivery = await stack.deliver_until("retrying", "/fail-first/1", plan=PATIENT)

    row = await stack.signal(delivery, "resend", until="delivered")
    assert row.attempts == 2
