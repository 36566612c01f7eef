"""A delivery is cancelled, by signal or by Temporal's button, also around a resend."""

from __future__ import annotations

import pytest

from tests.integration.delivery.conftest import Stack, eventually
from tests.integration.delivery.plans import PATIENT

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def test_cancel_ends_a_waiting_delivery(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/500", plan=PATIENT))
    await stack.until_status(delivery, "retrying")

    await stack.workflow(delivery).signal("cancel")

    row = await stack.until_status(delivery, "cancelled")
    assert row.next_attempt_at is None
    assert row.finished_at is not None
    assert len(stack.receiver.requests) == 1


async def test_temporals_cancel_button_lets_the_attempt_under_way_end_first(stack: Stack) -> None:
    endpoint = await stack.endpoint("/slow/1?status=500", plan=PATIENT, timeout=20)
    delivery = await stack.deliver(endpoint)
    await stack.receiver.wait_for(1)

    await stack.workflow(delivery).cancel()

    state = await stack.last_state(delivery)
    assert (state.status, state.attempts) == ("cancelled", 1)
    row = await stack.row(delivery)
    assert (row.status, row.attempts, row.next_attempt_at) == ("cancelled", 1, None)
    assert len(await stack.attempts(delivery)) == 1


async def test_temporals_cancel_button_comes_too_late_for_what_arrives(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/slow/1", timeout=20))
    await stack.receiver.wait_for(1)

    await stack.workflow(delivery).cancel()

    assert (await stack.last_state(delivery)).status == "delivered"
    assert (await stack.row(delivery)).status == "delivered"


async def test_a_resend_right_after_a_cancel_is_not_lost(stack: Stack) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    endpoint = await stack.endpoint("/hook", plan=PATIENT, circuit={"failure_threshold": 100})
    deliveries = [await stack.deliver(endpoint) for _ in range(5)]
    for delivery in deliveries:
        await stack.until_status(delivery, "retrying")
    stack.receiver.routes["/hook"] = "/ok"

    for delivery in deliveries:
        await stack.ask(delivery, "cancel")
        await stack.ask(delivery, "resend")

    for delivery in deliveries:
        await stack.until_status(delivery, "delivered")


async def test_a_resend_after_a_cancel_begins_the_plan_anew(stack: Stack) -> None:
    """Both come while an attempt is under way."""
    stack.receiver.routes["/hook"] = "/slow/1?status=500"
    delivery = await stack.deliver(await stack.endpoint("/hook", plan=PATIENT, timeout=20))
    await stack.receiver.wait_for(1)
    stack.receiver.routes["/hook"] = "/status/500"

    for name in ("pause", "cancel", "resend"):
        await stack.workflow(delivery).signal(name)

    await stack.receiver.wait_for(2)
    row = await stack.until_status(delivery, "retrying")

    async def recorded() -> bool:
        row = await stack.row(delivery)
        return row.attempts == 2 and row.status == "retrying"

    await eventually(recorded)
    row = await stack.row(delivery)
    assert (row.retries, row.finished_at) == (0, None)
    assert row.next_attempt_at is not None


async def test_a_cancel_after_a_resend_takes_it_back(stack: Stack) -> None:
    """Both come while an attempt is under way that arrives: the last word counts."""
    delivery = await stack.deliver(await stack.endpoint("/slow/1", timeout=20))
    await stack.receiver.wait_for(1)

    for name in ("resend", "cancel"):
        await stack.workflow(delivery).signal(name)

    assert (await stack.last_state(delivery)).status == "cancelled"
    assert len(stack.receiver.requests) == 1
    assert [attempt.result for attempt in await stack.attempts(delivery)] == ["success"]
