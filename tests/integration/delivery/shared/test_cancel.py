"""Cancelling a delivery: by signal, by Temporal's Cancel button, and around a resend."""

from __future__ import annotations

import pytest

from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


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


async def test_delivery_that_succeeds_during_temporals_cancel_stays_delivered(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/slow/1", timeout=20))
    await stack.receiver.wait_for(1)

    await stack.workflow(delivery).cancel()

    assert (await stack.final_state(delivery)).status == "delivered"
    assert (await stack.row(delivery)).status == "delivered"


async def test_a_resend_right_after_a_cancel_is_not_lost(stack: Stack) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    endpoint = await stack.endpoint("/hook", plan=PATIENT, circuit={"failure_threshold": 100})
    deliveries = [await stack.deliver(endpoint) for _ in range(5)]
    await stack.until_all(deliveries, "retrying")
    stack.receiver.routes["/hook"] = "/ok"

    for delivery in deliveries:
        await stack.request(delivery, "cancel")
        await stack.request(delivery, "resend")

    await stack.until_all(deliveries, "delivered")


async def test_a_resend_after_a_cancel_begins_the_plan_again(stack: Stack) -> None:
    """Both arrive while an attempt is in flight."""
    stack.receiver.routes["/hook"] = "/slow/1?status=500"
    delivery = await stack.deliver(await stack.endpoint("/hook", plan=PATIENT, timeout=20))
    await stack.receiver.wait_for(1)
    stack.receiver.routes["/hook"] = "/status/500"

    for name in ("pause", "cancel", "resend"):
        await stack.workflow(delivery).signal(name)

    await stack.receiver.wait_for(2)
    row = await stack.until_status(delivery, "retrying")

    await stack.until(delivery, lambda row: row.attempts == 2 and row.status == "retrying")
    row = await stack.row(delivery)
    assert (row.retries, row.finished_at) == (0, None)
    assert row.next_attempt_at is not None


async def test_a_cancel_after_a_resend_withdraws_the_resend(stack: Stack) -> None:
    """Both arrive while an attempt is in flight that succeeds: the last action counts."""
    delivery = await stack.deliver(await stack.endpoint("/slow/1", timeout=20))
    await stack.receiver.wait_for(1)

    for name in ("resend", "cancel"):
        await stack.workflow(delivery).signal(name)

    assert (await stack.final_state(delivery)).status == "cancelled"
    assert len(stack.receiver.requests) == 1
    assert [attempt.result for attempt in await stack.attempts(delivery)] == ["success"]
