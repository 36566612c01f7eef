"""Steering one delivery by signal, as the API, the Temporal UI and the CLI do."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from temporalio.client import Client, WorkflowExecutionStatus

from hookfast.circuit import Cause
from hookfast.clock import utc_now
from hookfast.delivery import DeliveryState
from hookfast.errors import Conflict
from hookfast.settings import Settings
from hookfast.steering import Steering
from hookfast.storage import endpoint_state, endpoints
from hookfast.storage.tables import Event
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


@pytest.mark.parametrize("deleted", [False, True], ids=["disabled", "deleted"])
async def test_a_resend_to_an_endpoint_that_is_sent_nothing_is_refused_and_changes_nothing(
    stack: Stack, steering: Steering, deleted: bool
) -> None:
    endpoint = await stack.endpoint("/ok")
    delivery = await stack.deliver(endpoint)
    await stack.until_closed(delivery)
    before = await stack.row(delivery)
    async with stack.database.write() as connection:
        if deleted:
            await endpoints.mark_deleted(connection, endpoint, at=utc_now())
        else:
            await endpoint_state.disable(
                connection, endpoint, cause=Cause.DISABLED, reason="Disabled.", now=utc_now()
            )

    with pytest.raises(Conflict, match="deleted" if deleted else "disabled") as refused:
        await steering.signal(delivery, "resend")

    assert refused.value.code == "endpoint_disabled"
    description = await stack.workflow(delivery).describe()
    assert description.status is WorkflowExecutionStatus.COMPLETED
    assert await stack.row(delivery) == before
    assert len(stack.receiver.requests) == 1


async def test_what_was_delivered_stays_so_when_its_endpoint_is_disabled_before_it_is_sent_again(
    stack: Stack, steering: Steering, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await stack.endpoint("/ok")
    delivery = await stack.deliver(endpoint)
    await stack.until_closed(delivery)
    before = await stack.row(delivery)
    sendable = Steering._refuse_unless_sendable

    async def sendable_a_moment_ago(self: Steering, row: Any) -> None:
        await sendable(self, row)
        async with stack.database.write() as connection:
            await endpoint_state.disable(
                connection, endpoint, cause=Cause.DISABLED, reason="Disabled.", now=utc_now()
            )

    monkeypatch.setattr(Steering, "_refuse_unless_sendable", sendable_a_moment_ago)
    await steering.signal(delivery, "resend")

    ended = await stack.until_closed(delivery)
    assert (ended["status"], ended["attempts"]) == ("delivered", 1)
    assert "Nothing was sent" in ended["last_error"]
    assert await stack.row(delivery) == before
    async with stack.database.read() as connection:
        told = await connection.execute(
            select(Event.__table__.c.id).where(Event.__table__.c.type == "hookfast.delivery.dead")
        )
        assert told.all() == []
    assert len(stack.receiver.requests) == 1


@pytest.mark.parametrize(
    ("status", "action", "then"),
    [
        ("retrying", "pause", "paused"),
        ("retrying", "cancel", "cancelled"),
        ("paused", "cancel", "cancelled"),
        ("paused", "resume", "delivered"),
    ],
)
async def test_a_delivery_whose_workflow_was_terminated_does_as_it_is_told(
    stack: Stack, steering: Steering, status: str, action: Any, then: str
) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    delivery = await stack.deliver(await stack.endpoint("/hook", plan=PATIENT))
    await stack.until_status(delivery, "retrying")
    if status == "paused":
        await steering.signal(delivery, "pause")
        await stack.until_status(delivery, "paused")
    await stack.workflow(delivery).terminate("lost")
    stack.receiver.routes["/hook"] = "/ok"

    await steering.signal(delivery, action)

    row = await stack.until_status(delivery, then)
    sent = 2 if then == "delivered" else 1
    assert (row.attempts, len(stack.receiver.requests)) == (sent, sent)
    if row.finished_at is not None:
        await stack.until_closed(delivery)
        with pytest.raises(Conflict, match=f"ended as {then}"):
            await steering.signal(delivery, action)


async def test_a_resume_that_comes_during_a_resend_is_seen_when_that_fails(stack: Stack) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    delivery = await stack.deliver(await stack.endpoint("/hook", plan=PATIENT, timeout=20))
    planned = (await stack.until_status(delivery, "retrying")).next_attempt_at
    await stack.workflow(delivery).signal("pause")
    await stack.until_status(delivery, "paused")
    stack.receiver.routes["/hook"] = "/slow/1?status=500"
    await stack.workflow(delivery).signal("resend")
    await stack.receiver.wait_for(2)

    await stack.workflow(delivery).signal("resume")

    row = await stack.until_status(delivery, "retrying")
    assert row.attempts == 2
    assert abs((row.next_attempt_at - planned).total_seconds()) < 2


async def test_a_scheduled_delivery_whose_workflow_was_terminated_is_resumed_for_its_time(
    stack: Stack, steering: Steering
) -> None:
    due = utc_now() + timedelta(days=1)
    delivery = await stack.deliver(await stack.endpoint("/ok"), deliver_at=due)
    await steering.signal(delivery, "pause")
    await stack.until_status(delivery, "paused")
    await stack.workflow(delivery).terminate("lost")

    await steering.signal(delivery, "resume")

    row = await stack.until_status(delivery, "pending")
    assert row.next_attempt_at == due
    assert stack.receiver.requests == []


async def test_one_that_was_paused_before_its_first_attempt_stays_so_when_a_resend_fails(
    stack: Stack, steering: Steering
) -> None:
    endpoint = await stack.endpoint("/status/500", plan=PATIENT)
    delivery = await stack.deliver(endpoint, deliver_at=utc_now() + timedelta(days=1))
    await steering.signal(delivery, "pause")
    await stack.until_status(delivery, "paused")
    await stack.workflow(delivery).terminate("lost")

    await steering.signal(delivery, "resend")

    async def settled() -> bool:
        row = await stack.row(delivery)
        return row.attempts == 1 and row.status == "paused"

    await eventually(settled)


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

    async def retrying() -> Any:
        # the row is first: the workflow hears of it after the commit
        described = await stack.workflow(delivery).describe()
        pairs = described.typed_search_attributes
        attributes = {pair.key.name: pair.value for pair in pairs}
        return (described, attributes) if attributes["HookState"] == "retrying" else None

    described, attributes = await eventually(retrying)
    assert attributes["HookTenant"] == row.tenant_id
    assert attributes["HookEndpoint"] == endpoint
    assert attributes["HookEventType"] == "order.invoice.paid"
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


async def test_temporals_cancel_button_lets_the_attempt_under_way_end_first(stack: Stack) -> None:
    endpoint = await stack.endpoint("/slow/1?status=500", plan=PATIENT, timeout=20)
    delivery = await stack.deliver(endpoint)
    await stack.receiver.wait_for(1)

    await stack.workflow(delivery).cancel()

    state = await stack.until_closed(delivery)
    assert (state["status"], state["attempts"]) == ("cancelled", 1)
    row = await stack.row(delivery)
    assert (row.status, row.attempts, row.next_attempt_at) == ("cancelled", 1, None)
    assert len(await stack.attempts(delivery)) == 1


async def test_temporals_cancel_button_comes_too_late_for_what_arrives(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/slow/1", timeout=20))
    await stack.receiver.wait_for(1)

    await stack.workflow(delivery).cancel()

    assert (await stack.until_closed(delivery))["status"] == "delivered"
    assert (await stack.row(delivery)).status == "delivered"


async def test_a_resend_right_after_a_cancel_is_not_lost(stack: Stack, steering: Steering) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    endpoint = await stack.endpoint("/hook", plan=PATIENT, circuit={"failure_threshold": 100})
    deliveries = [await stack.deliver(endpoint) for _ in range(5)]
    for delivery in deliveries:
        await stack.until_status(delivery, "retrying")
    stack.receiver.routes["/hook"] = "/ok"

    for delivery in deliveries:
        await steering.signal(delivery, "cancel")
        await steering.signal(delivery, "resend")

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
    """Both come while an attempt is under way that arrives."""
    delivery = await stack.deliver(await stack.endpoint("/slow/1", timeout=20))
    await stack.receiver.wait_for(1)

    for name in ("resend", "cancel"):
        await stack.workflow(delivery).signal(name)

    assert (await stack.until_closed(delivery))["status"] == "delivered"
    assert len(stack.receiver.requests) == 1


async def stale(
    stack: Stack, steering: Steering, delivery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancel the delivery; whoever steers it next reads its row as it was just before."""
    before = iter([await steering._find(delivery)])
    find = steering._find
    await stack.workflow(delivery).signal("cancel")
    await stack.until_closed(delivery)

    async def late(delivery_id: str) -> Any:
        return next(before, None) or await find(delivery_id)

    monkeypatch.setattr(steering, "_find", late)


async def test_a_resend_that_crosses_the_end_of_the_workflow_begins_the_plan_anew(
    stack: Stack, steering: Steering, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = await stack.deliver(await stack.endpoint("/status/500", plan=PATIENT))
    await stack.until_status(delivery, "retrying")
    await stale(stack, steering, delivery, monkeypatch)

    await steering.signal(delivery, "resend")

    async def resent() -> Any:
        row = await stack.row(delivery)
        return row if row.attempts == 2 else None

    row = await eventually(resent)
    assert (row.status, row.retries, row.finished_at) == ("retrying", 0, None)


async def test_a_release_that_crosses_the_end_of_the_workflow_sends_nothing(
    stack: Stack, steering: Steering, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await stack.endpoint("/ok")
    async with stack.database.write() as connection:
        assert await endpoint_state.pause(connection, endpoint, now=utc_now())
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "held")
    await stale(stack, steering, delivery, monkeypatch)

    with pytest.raises(Conflict, match="ended as cancelled"):
        await steering.release(delivery)
