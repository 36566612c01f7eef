"""First attempts in batches: a delivery that does not succeed at once continues in its own
workflow, as if it had always had one."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from activities.attempt import AttemptRunner
from activities.batch_member import BatchRows
from hookfast.clock import utc_now
from hookfast.deliveries import batch_life, batch_messages
from hookfast.deliveries.batch_messages import BatchResult
from hookfast.deliveries.time_budget import RECORD_SHARE
from hookfast.dispatch import batches
from hookfast.dispatch.start import start_batch
from hookfast.ids import new_id
from hookfast.storage.database.availability import connection_lost
from hookfast.storage.deliveries import outbox, outgoing
from hookfast.storage.deliveries.recorder import Recorder
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Delivery
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT, QUICK
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def first_attempts() -> str:
    return "batch"


async def result_of_batch(stack: Stack, delivery: str) -> BatchResult:
    """Wait until the delivery has a batch and that has ended, and return the batch's result."""
    row = await stack.until(delivery, lambda row: row.batch_id)
    return await batch_of(stack, row).result()


def batch_of(stack: Stack, row: Any) -> WorkflowHandle[Any, BatchResult]:
    """Return the batch that a delivery's row named when it was read. A busy batch returns its
    deliveries, and their rows name it no longer."""
    name = batch_messages.workflow_id(row.batch_id)
    return stack.client.get_workflow_handle(name, result_type=BatchResult)


async def has_workflow(stack: Stack, delivery: str) -> bool:
    try:
        await stack.workflow(delivery).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True


def sent(stack: Stack) -> Counter[str]:
    return Counter(request.message_id for request in stack.receiver.requests)


async def test_delivery_that_succeeds_at_once_needs_no_workflow_of_its_own(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    ids = await stack.deliver_together(endpoint, 40)
    await stack.until_all(ids, "delivered")
    results = {
        (await stack.row(delivery)).batch_id: await result_of_batch(stack, delivery)
        for delivery in ids
    }
    delivered = [delivery for result in results.values() for delivery in result.delivered]
    assert sorted(delivered) == sorted(ids)
    assert not any([await has_workflow(stack, delivery) for delivery in ids])
    assert sent(stack) == Counter(ids)
    for delivery in ids:
        row = await stack.row(delivery)
        assert (row.attempts, row.wake_count, row.started_at is None) == (1, 0, False)


async def test_temporal_finds_a_batch_by_the_id_of_a_delivery(stack: Stack) -> None:
    [delivery] = await stack.deliver_together(await stack.endpoint("/ok"))
    await stack.until_status(delivery, "delivered")
    query = f'HookDeliveries="{batch_messages.short_name(delivery)}"'

    async def found() -> list[str]:
        return [one.id async for one in stack.client.list_workflows(query)]

    row = await stack.row(delivery)
    assert await eventually(found) == [batch_messages.workflow_id(row.batch_id)]


async def test_failed_first_attempt_continues_in_its_own_workflow(stack: Stack) -> None:
    failing = await stack.endpoint("/fail-first/1", plan=QUICK)
    [delivery] = await stack.deliver_together(failing, 1)
    await stack.until_status(delivery, "delivered")
    await stack.until_closed(delivery)
    result = await result_of_batch(stack, delivery)
    assert result.summary == "1 first attempt: 0 delivered, 1 continues"
    assert result.continued == {delivery: "500"}
    attempts = await stack.attempts(delivery)
    assert [(one.number, one.trigger) for one in attempts] == [(1, "first"), (2, "retry")]
    assert (await stack.workflow(delivery).result())["attempts"] == 2
    described = await stack.workflow(delivery).describe()
    row = await stack.row(delivery)
    assert (
        await described.static_details()
        == f"Began in `{batch_messages.workflow_id(row.batch_id)}`."
    )


async def test_delivery_that_is_gone_at_its_first_attempt_ends_its_workflow_as_failed(
    stack: Stack,
) -> None:
    [delivery] = await stack.deliver_together(await stack.endpoint("/status/410"))
    await stack.until_status(delivery, "gone")
    await stack.until_closed(delivery)
    described = await stack.workflow(delivery).describe()
    assert described.status is WorkflowExecutionStatus.FAILED
    assert sent(stack) == {delivery: 1}


async def test_a_slow_receiver_does_not_hold_up_a_batch(stack: Stack) -> None:
    slow, fine = await stack.endpoint("/slow/3"), await stack.endpoint("/ok")
    late = await stack.deliver(slow)
    ids = await stack.deliver_together(fine, 10)
    await stack.until_all(ids, "delivered")
    assert (await result_of_batch(stack, late)).continued == {late: "no answer yet"}
    row = await stack.row(late)
    assert row.status == "pending"  # its batch has ended; its request continues
    assert row.batch_until - utc_now() > RECORD_SHARE
    await stack.until_status(late, "delivered")
    assert not await has_workflow(stack, late)
    assert sent(stack)[late] == 1
    assert len(await stack.attempts(late)) == 1


async def test_a_batch_limits_its_open_requests_to_one_endpoint(stack: Stack) -> None:
    ids = await stack.deliver_together(
        await stack.endpoint("/slow/0.2"), 3 * batch_messages.PER_ENDPOINT
    )
    await stack.until_all(ids, "delivered")
    batch_ids = {(await stack.row(one)).batch_id for one in ids}  # one, unless the machine is busy
    assert 1 < stack.receiver.most_in_flight <= batch_messages.PER_ENDPOINT * len(batch_ids)


async def test_requests_do_not_wait_for_the_records_of_earlier_ones(stack: Stack) -> None:
    """A slow database does not slow down the requests to a receiver."""
    record, recorded = Recorder.record, asyncio.Event()

    async def late(*args: Any, **options: Any) -> Any:
        await recorded.wait()
        return await record(*args, **options)

    with patch.object(Recorder, "record", late):
        ids = await stack.deliver_together(
            await stack.endpoint("/ok"), 2 * batch_messages.PER_ENDPOINT
        )
        await stack.receiver.wait_for(2 * batch_messages.PER_ENDPOINT)
        assert {(await stack.row(one)).status for one in ids} == {"pending"}
        recorded.set()
        await stack.until_all(ids, "delivered")
    assert Counter(one.message_id for one in stack.receiver.requests) == Counter(ids)


async def test_slow_receivers_leave_room_for_another_batch(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both batches that may run at once wait for slow receivers, for longer than this test."""
    monkeypatch.setattr(batch_life, "SLOW", timedelta(minutes=1))
    late: list[str] = []
    for _ in range(2):
        late += await stack.deliver_together(await stack.endpoint("/slow/4"))
        await stack.receiver.wait_for(len(late))
    [fine] = await stack.deliver_together(await stack.endpoint("/ok"))
    await stack.until_status(fine, "delivered")
    assert [(await stack.row(delivery)).status for delivery in late] == ["pending"] * 2
    await stack.until_all(late, "delivered")


async def test_request_that_outlives_its_batch_is_recorded_although_the_database_is_slow(
    stack: Stack,
) -> None:
    with patch.object(AttemptRunner, "_try_to_record", AsyncMock(return_value=None)):
        [late] = await stack.deliver_together(await stack.endpoint("/slow/2"))
        await stack.until_status(late, "delivered")
    assert sent(stack) == {late: 1}
    assert len(await stack.attempts(late)) == 1


@pytest.mark.parametrize("action", ["cancel", "pause", "resend"])
async def test_action_requested_before_the_first_attempt_takes_effect(
    stack: Stack, action: Any
) -> None:
    """The batch reads the row again right before it sends the first byte."""
    loaded, requested, load = asyncio.Event(), asyncio.Event(), AttemptRunner.load

    async def slow_load(self: AttemptRunner, *arguments: Any) -> None:
        await load(self, *arguments)
        loaded.set()
        await requested.wait()

    with (
        patch.object(outgoing, "FRESH_SECONDS", 0.0),  # a read row is out of date at once
        patch.object(AttemptRunner, "load", slow_load),
    ):
        [delivery] = await stack.deliver_together(await stack.endpoint("/ok"))

        row = await stack.until(delivery, lambda row: row.batch_until)
        await loaded.wait()
        await stack.request(delivery, action)
        requested.set()
        expected = {"cancel": "cancelled", "pause": "paused", "resend": "delivered"}[action]
        await stack.until_status(delivery, expected)
        await batch_of(stack, row).result()
        if action != "pause":
            await stack.until_closed(delivery)
    assert sent(stack)[delivery] == (1 if action == "resend" else 0)


@pytest.mark.parametrize("actions", [("resend",), ("cancel", "resend")])
async def test_resend_requested_during_the_first_attempt_waits_for_its_end(
    stack: Stack, actions: tuple[Any, ...]
) -> None:
    """A delivery never has two requests in flight."""
    stack.receiver.routes["/hook"] = "/slow/2?status=500"
    [delivery] = await stack.deliver_together(await stack.endpoint("/hook", plan=PATIENT))
    await stack.receiver.wait_for(1)
    stack.receiver.routes["/hook"] = "/ok"
    for action in actions:
        await stack.request(delivery, action)
    await stack.receiver.wait_for(2)
    first, second = stack.receiver.requests
    assert second.at - first.at > 1.5
    await stack.until_status(delivery, "delivered")
    assert [one.number for one in await stack.attempts(delivery)] == [1, 2]


async def test_deliveries_that_may_wait_start_in_their_own_workflow(stack: Stack) -> None:
    for reason in ("limited", "scheduled", "paused endpoint", "long timeout"):
        delivery = await delivery_that_may_wait(stack, reason)
        assert (await stack.row(delivery)).batch_id is None, reason
        assert await has_workflow(stack, delivery), reason


async def delivery_that_may_wait(stack: Stack, reason: str) -> str:
    """Create a delivery that may wait for this reason, and return its id once it was attempted or
    is held."""
    endpoint = await stack.endpoint(
        "/hook",
        plan=PATIENT,
        **{"limited": {"max_in_flight": 5}, "long timeout": {"timeout": 20}}.get(reason, {}),
    )
    options: dict[str, Any] = {}
    if reason == "scheduled":
        options["deliver_at"] = utc_now() + timedelta(seconds=0.5)
    if reason == "paused endpoint":
        await stack.change_endpoint(endpoint_state.pause, endpoint)
    stack.receiver.routes["/hook"] = "/ok"
    delivery = await stack.deliver(endpoint, **options)
    await stack.until_status(delivery, "held" if reason == "paused endpoint" else "delivered")
    return delivery


async def test_a_batch_hands_records_that_fail_to_temporal(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok?key=4711")
    with patch.object(AttemptRunner, "_try_to_record", AsyncMock(return_value=None)):
        ids = await stack.deliver_together(endpoint, 100)
        await stack.until_all(ids, "delivered")
    assert sent(stack) == Counter(ids)
    names = {(await stack.row(delivery)).batch_id for delivery in ids}
    assert names != {None}
    for name in names - {None}:  # on a busy machine some take too long for a batch
        handle = stack.client.get_workflow_handle(batch_messages.workflow_id(name))
        await handle.result()
        history = await handle.fetch_history()
        recorded = b"".join(event.SerializeToString() for event in history.events)
        assert b"unrecorded" in recorded
        assert b"key=4711" not in recorded
        described = await handle.describe()
        assert described.raw_description.workflow_execution_info.history_size_bytes < 100_000


async def test_a_batch_without_a_database_returns_its_deliveries_for_another_try(
    stack: Stack,
) -> None:
    take, failures = BatchRows.take, iter(range(20))

    async def failing(self: BatchRows, delivery_id: str) -> Any:
        for _ in failures:
            raise connection_lost(OSError("the database is away"))
        return await take(self, delivery_id)

    with patch.object(BatchRows, "take", failing):
        ids = await stack.deliver_together(await stack.endpoint("/ok"), 20)
        await stack.until_all(ids, "delivered")
    assert sent(stack) == Counter(ids)


async def test_an_unexpected_error_with_one_delivery_does_not_stop_its_batch(stack: Stack) -> None:
    take, failures = BatchRows.take, iter([KeyError("a bug")])

    async def failing(self: BatchRows, delivery_id: str) -> Any:
        for error in failures:
            raise error
        return await take(self, delivery_id)

    with patch.object(BatchRows, "take", failing):
        ids = await stack.deliver_together(await stack.endpoint("/ok"), 10)
        await stack.until_all(ids, "delivered")
    assert sent(stack) == Counter(ids)
    with_workflow = [one for one in ids if await has_workflow(stack, one)]
    assert len(with_workflow) >= 1  # on a busy machine, more leave their batch


@pytest.mark.parametrize("path", ["/ok", "/slow/1"], ids=["ended", "in flight"])
async def test_start_of_a_batch_with_unknown_result_is_repeated_under_the_same_id(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    cuts = iter([True])

    async def start_and_lose_answer(*arguments: Any) -> Any:
        handle = await start_batch(*arguments)
        for _ in cuts:
            raise RPCError("cut", RPCStatusCode.UNAVAILABLE, b"")
        return handle

    monkeypatch.setattr(batches, "start_batch", start_and_lose_answer)
    ids = await stack.deliver_together(await stack.endpoint(path), 10)
    await stack.until_all(ids, "delivered")
    assert sent(stack) == Counter(ids)


async def test_a_batch_does_not_send_deliveries_that_another_batch_has_taken(stack: Stack) -> None:
    """Its worker was frozen until its leases had ended, and another batch took the deliveries."""
    endpoint = await stack.endpoint("/ok")
    until = utc_now() + timedelta(seconds=30)
    columns = {"batch_id": "btc_other", "batch_until": until, "leased_until": until}
    delivery = await stack.deliver(endpoint, **columns)
    handle = await start_batch(stack.client, new_id("btc"), [delivery])
    result = await handle.result()
    assert result.continued == {delivery: "pending"}
    assert sent(stack) == {}


@pytest.mark.parametrize("fate", ["lost", "returned"])
async def test_delivery_that_its_batch_did_not_attempt_can_be_resent(
    stack: Stack, fate: str
) -> None:
    """Its own workflow is its first, and later actions have to reach that workflow."""
    endpoint = await stack.endpoint("/hook", plan=PATIENT, max_in_flight=5)
    stack.receiver.routes["/hook"] = "/status/500"
    over = utc_now() - timedelta(seconds=1)
    later = utc_now() + timedelta(minutes=5)
    until = over if fate == "lost" else later
    delivery = await stack.deliver(
        endpoint, batch_id="btc_1", batch_until=until, leased_until=until
    )
    if fate == "returned":
        async with stack.database.write() as connection:
            await outbox.return_from_batch(connection, [delivery], batch_id="btc_1")
    stack.doorbell.ring()
    await stack.until_status(delivery, "retrying")
    await stack.until_relayed(delivery)
    assert (await stack.row(delivery)).batch_id is None
    assert await (await stack.workflow(delivery).describe()).static_details() is None
    stack.receiver.routes["/hook"] = "/ok"
    await stack.request(delivery, "resend")
    await stack.until_status(delivery, "delivered")


async def test_delivered_first_attempt_can_be_resent(stack: Stack) -> None:
    [delivery] = await stack.deliver_together(await stack.endpoint("/ok"))
    await stack.until_status(delivery, "delivered")
    await stack.request(delivery, "resend")
    await stack.receiver.wait_for(2)
    await stack.until_closed(delivery)
    attempts = await stack.attempts(delivery)
    assert [(one.number, one.trigger) for one in attempts] == [(1, "first"), (2, "resend")]


async def test_relay_crash_after_a_batch_does_not_start_a_workflow_twice(stack: Stack) -> None:
    """The relay crashes between start and mark: the second start changes nothing."""
    [delivery] = await stack.deliver_together(await stack.endpoint("/status/500", plan=PATIENT))
    await stack.until_relayed(delivery)
    before = await stack.workflow(delivery).describe()
    async with stack.database.write() as connection:
        await connection.execute(
            Delivery.__table__.update()
            .where(Delivery.__table__.c.id == delivery)
            .values(started_at=None)
        )
    stack.doorbell.ring()
    await stack.until_relayed(delivery)
    after = await stack.workflow(delivery).describe()
    assert after.run_id == before.run_id
    assert after.history_length == before.history_length
