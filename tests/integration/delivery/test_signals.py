"""Steering one delivery by signal, as the API, the Temporal UI and the CLI do."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client

from api.steering import Steering
from hookfast.clock import utc_now
from hookfast.delivery import DeliveryState
from hookfast.errors import Conflict
from hookfast.settings import Settings
from tests.integration.delivery.conftest import Stack, eventually, running_stack
from tests.seed import SECRET

pytestmark = pytest.mark.anyio

PATIENT = {"delays_seconds": [60, 60], "jitter": 0, "retry_on": "all"}
QUICK = {"delays_seconds": [0.2, 0.2, 0.2], "jitter": 0, "retry_on": "all"}


@pytest.fixture
def steering(stack: Stack, settings: Settings) -> Steering:
    return Steering(stack.client, stack.database, fast_lane_timeout=settings.fast_lane_timeout)


async def state(stack: Stack, delivery: str) -> DeliveryState:
    answer: DeliveryState = await stack.workflow(delivery).query("state", result_type=DeliveryState)
    return answer


async def test_the_query_tells_where_a_delivery_stands(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/503", plan=PATIENT))
    row = await stack.until_status(delivery, "retrying")

    now = await state(stack, delivery)

    assert (now.status, now.attempts, now.retries, now.retries_planned) == ("retrying", 1, 0, 2)
    assert now.next_attempt_at is not None
    assert abs((now.next_attempt_at - row.next_attempt_at).total_seconds()) < 2
    assert "503" in (now.last_error or "")


async def test_pause_stops_the_retries_and_resume_goes_on(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/fail-first/1", plan=QUICK))
    await stack.until_status(delivery, "retrying")

    await stack.workflow(delivery).signal("pause")
    row = await stack.until_status(delivery, "paused")
    assert row.next_attempt_at is None
    sent = len(stack.receiver.requests)
    await asyncio.sleep(0.6)
    assert len(stack.receiver.requests) == sent

    await stack.workflow(delivery).signal("resume")
    await stack.until_status(delivery, "delivered")


async def test_pausing_twice_and_resuming_what_is_not_paused_are_harmless(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/500", plan=PATIENT))
    await stack.until_status(delivery, "retrying")
    handle = stack.workflow(delivery)

    for name in ("resume", "pause", "pause"):
        await handle.signal(name)
    await stack.until_status(delivery, "paused")
    for name in ("resume", "resume"):
        await handle.signal(name)

    row = await stack.until_status(delivery, "retrying")
    assert row.next_attempt_at is not None


async def test_cancel_ends_a_waiting_delivery(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/500", plan=PATIENT))
    await stack.until_status(delivery, "retrying")

    await stack.workflow(delivery).signal("cancel")

    row = await stack.until_status(delivery, "cancelled")
    assert row.next_attempt_at is None
    assert row.finished_at is not None
    assert len(stack.receiver.requests) == 1


async def test_a_failed_resend_neither_ends_nor_moves_the_plan(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/500", plan=PATIENT))
    before = await stack.until_status(delivery, "retrying")

    await stack.workflow(delivery).signal("resend")
    await stack.receiver.wait_for(2)

    async def recorded() -> Any:
        row = await stack.row(delivery)
        return row if row.attempts == 2 else None

    after = await eventually(recorded)
    assert (after.status, after.retries) == ("retrying", 0)
    assert after.next_attempt_at == before.next_attempt_at
    now = await state(stack, delivery)
    assert now.retries == 0
    assert now.next_attempt_at is not None
    assert abs((now.next_attempt_at - before.next_attempt_at).total_seconds()) < 2
    assert [attempt.trigger for attempt in await stack.attempts(delivery)] == ["first", "resend"]


async def test_a_resend_that_succeeds_ends_the_delivery(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/fail-first/1", plan=PATIENT))
    await stack.until_status(delivery, "retrying")

    await stack.workflow(delivery).signal("resend")

    row = await stack.until_status(delivery, "delivered")
    assert row.attempts == 2


async def test_a_paused_delivery_can_be_resent_and_stays_paused_when_that_fails(
    stack: Stack,
) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/500", plan=PATIENT))
    await stack.until_status(delivery, "retrying")
    await stack.workflow(delivery).signal("pause")
    await stack.until_status(delivery, "paused")

    await stack.workflow(delivery).signal("resend")
    await stack.receiver.wait_for(2)
    await asyncio.sleep(0.3)

    assert (await stack.row(delivery)).status == "paused"


async def test_a_delivery_paused_before_its_first_attempt_stays_paused_when_a_resend_fails(
    stack: Stack,
) -> None:
    due = utc_now() + timedelta(days=1)
    endpoint = await stack.endpoint("/status/500", plan=PATIENT)
    delivery = await stack.deliver(endpoint, deliver_at=due)

    async def started() -> bool:
        return (await stack.row(delivery)).started_at is not None

    await eventually(started)
    await stack.workflow(delivery).signal("pause")
    await stack.until_status(delivery, "paused")
    await stack.workflow(delivery).signal("resend")
    await stack.receiver.wait_for(1)

    async def settled() -> bool:
        row = await stack.row(delivery)
        return row.attempts == 1 and row.status == "paused"

    await eventually(settled)
    assert (await stack.row(delivery)).next_attempt_at is None


@pytest.mark.parametrize("ended", ["/ok", "/status/404"])
async def test_resending_a_finished_delivery_starts_it_again_under_its_id(
    stack: Stack, steering: Steering, ended: str
) -> None:
    stack.receiver.routes["/hook"] = ended
    delivery = await stack.deliver(await stack.endpoint("/hook", plan="stepped", timeout=5))
    await stack.until_status(delivery, "delivered", "dead")
    await stack.until_closed(delivery)

    stack.receiver.routes["/hook"] = "/ok"
    await steering.signal(delivery, "resend")

    async def again() -> Any:
        row = await stack.row(delivery)
        return row if row.attempts == 2 and row.status == "delivered" else None

    await eventually(again)
    assert {request.message_id for request in stack.receiver.requests} == {delivery}
    attempts = await stack.attempts(delivery)
    assert [attempt.number for attempt in attempts] == [1, 2]
    assert attempts[1].trigger == "resend"


async def test_a_resend_of_a_finished_delivery_that_fails_gets_the_whole_plan(
    stack: Stack, steering: Steering
) -> None:
    stack.receiver.routes["/hook"] = "/ok"
    delivery = await stack.deliver(await stack.endpoint("/hook", plan=QUICK))
    await stack.until_closed(delivery)

    stack.receiver.routes["/hook"] = "/status/500"
    await steering.signal(delivery, "resend")

    row = await stack.until_status(delivery, "dead")
    assert (row.attempts, row.retries) == (5, 3)


@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
async def test_only_resend_makes_sense_for_a_finished_delivery(
    stack: Stack, steering: Steering, action: Any
) -> None:
    delivery = await stack.deliver(await stack.endpoint("/ok"))
    await stack.until_status(delivery, "delivered")

    with pytest.raises(Conflict, match="ended as delivered"):
        await steering.signal(delivery, action)


async def test_a_signal_may_come_before_the_workflow(
    temporal: Any, settings: Settings, database: Any, receiver: Any
) -> None:
    """No worker runs yet: the delivery is paused before its first attempt, and stays so."""
    client: Client = temporal.client
    stack = Stack(client, database, receiver)
    delivery = await stack.deliver(await stack.endpoint("/ok"))
    steering = Steering(client, database, fast_lane_timeout=settings.fast_lane_timeout)
    await steering.signal(delivery, "pause")

    async with running_stack(temporal, settings, database, receiver) as stack:
        await stack.until_status(delivery, "paused")
        assert receiver.requests == []
        await steering.signal(delivery, "resume")
        await stack.until_status(delivery, "delivered")
    assert len(receiver.requests) == 1


async def test_search_attributes_and_details_say_what_a_delivery_is(stack: Stack) -> None:
    endpoint = await stack.endpoint("/status/500?token=private", plan=PATIENT)
    delivery = await stack.deliver(endpoint)
    row = await stack.until_status(delivery, "retrying")

    described = await stack.workflow(delivery).describe()

    attributes = {pair.key.name: pair.value for pair in described.typed_search_attributes}
    assert attributes["HookTenant"] == row.tenant_id
    assert attributes["HookEndpoint"] == endpoint
    assert attributes["HookEventType"] == "order.invoice.paid"
    assert attributes["HookState"] == "retrying"
    summary = await described.static_summary()
    assert summary is not None
    assert summary.startswith("order.invoice.paid → http://127.0.0.1")
    assert "private" not in summary


async def test_bodies_and_secrets_stay_out_of_history(stack: Stack) -> None:
    delivery = await stack.deliver(
        await stack.endpoint("/echo", plan=QUICK), data={"card": "4242-body-of-the-event"}
    )
    await stack.until_status(delivery, "delivered")
    await stack.until_closed(delivery)

    history = await stack.workflow(delivery).fetch_history()

    stored = b"".join(event.SerializeToString() for event in history.events)
    assert delivery.encode() in stored
    for private in ("4242-body-of-the-event", SECRET, SECRET.removeprefix("whsec_")):
        assert private.encode() not in stored
