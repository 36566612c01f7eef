"""Resends and probes that meet their endpoint's limits: each has its turn, and the plan stays."""

from __future__ import annotations

from typing import Any

import pytest

from hookfast.clock import utc_now
from hookfast.dispatch.workflow_starter import workflow_starter_for
from hookfast.settings.settings import Settings
from hookfast.storage.endpoints import endpoint_state
from tests.integration.delivery.circuits import QUICK, until_all, until_circuit
from tests.integration.delivery.conftest import Stack, eventually
from tests.integration.delivery.plans import PATIENT

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

SLOW = {"rate_limit_per_second": 0.5}
"""So that what comes right after an attempt waits for two seconds."""


async def paused_after_a_failure(stack: Stack) -> str:
    """A delivery whose endpoint has just been sent to, and is not for two seconds."""
    stack.receiver.routes["/hook"] = "/status/500"
    delivery = await stack.deliver(await stack.endpoint("/hook", plan=PATIENT, **SLOW))
    await stack.until_status(delivery, "retrying")
    await stack.workflow(delivery).signal("pause")
    await stack.until_status(delivery, "paused")
    return delivery


async def until_limited(stack: Stack, delivery: str) -> None:
    async def limited() -> bool:
        return (await stack.state(delivery)).next_attempt_at is not None

    await eventually(limited)


async def triggers(stack: Stack, delivery: str, count: int) -> list[str]:
    """Why so many attempts were made, once they are recorded."""

    async def made() -> Any:
        rows = await stack.attempts(delivery)
        return rows if len(rows) == count else None

    return [row.trigger for row in await eventually(made)]


async def test_a_resend_of_a_paused_delivery_is_sent_when_its_turn_comes(stack: Stack) -> None:
    delivery = await paused_after_a_failure(stack)
    stack.receiver.routes["/hook"] = "/ok"

    await stack.workflow(delivery).signal("resend")
    await until_limited(stack, delivery)

    assert (await stack.row(delivery)).status in ("paused", "delivered")
    await stack.until_status(delivery, "delivered")
    assert await triggers(stack, delivery, 2) == ["first", "resend"]


async def test_a_paused_delivery_stays_paused_when_its_turn_brought_nothing(stack: Stack) -> None:
    delivery = await paused_after_a_failure(stack)

    await stack.workflow(delivery).signal("resend")

    assert await triggers(stack, delivery, 2) == ["first", "resend"]
    row = await stack.row(delivery)
    assert (row.status, row.retries, row.next_attempt_at) == ("paused", 0, None)


async def test_cancelling_takes_a_resend_back_that_waits_for_its_turn(stack: Stack) -> None:
    delivery = await paused_after_a_failure(stack)
    await stack.workflow(delivery).signal("resend")
    await until_limited(stack, delivery)

    await stack.workflow(delivery).signal("cancel")

    state = await stack.last_state(delivery)
    assert (state.status, state.next_attempt_at) == ("cancelled", None)
    assert len(stack.receiver.requests) == 1


async def test_resends_of_held_deliveries_are_sent_one_after_the_other(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok", **SLOW)
    async with stack.database.write() as connection:
        assert await endpoint_state.pause(connection, endpoint, now=utc_now())
    deliveries = [await stack.deliver(endpoint) for _ in range(2)]
    await until_all(stack, deliveries, "held")

    for delivery in deliveries:
        await stack.workflow(delivery).signal("resend")

    await until_all(stack, deliveries, "delivered")
    for delivery in deliveries:
        assert await triggers(stack, delivery, 1) == ["resend"]


async def test_a_resend_of_what_was_delivered_begins_its_plan_when_its_turn_comes(
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


async def test_a_probe_that_waits_for_its_turn_is_still_a_probe(
    stack: Stack, settings: Settings
) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    options = QUICK | {"failure_threshold": 1, "probe_delays_seconds": [600]}
    endpoint = await stack.endpoint("/hook", plan=PATIENT, circuit=options, max_in_flight=1)
    failed = await stack.deliver(endpoint)
    await until_circuit(stack, endpoint, "open")
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "held")
    stack.receiver.routes["/hook"] = "/slow/2?status=500"
    await stack.workflow(failed).signal("resend")
    await stack.receiver.wait_for(2)  # the endpoint takes no other now
    async with stack.database.write() as connection:
        assert await endpoint_state.probe_now(connection, endpoint, now=utc_now())
    await workflow_starter_for(settings, stack.client, stack.database).start_requested()

    assert await triggers(stack, delivery, 1) == ["probe"]

    row = await stack.row(delivery)
    assert (row.status, row.retries) == ("held", 0)
