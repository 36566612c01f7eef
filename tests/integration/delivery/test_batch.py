"""First attempts that travel in batches: what is delivered is done, and anything else goes on in a
workflow of its own, as if it had always had one."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from activities import batch_member
from activities.attempt import AttemptRunner
from activities.batch import BatchActivities
from hookfast.clock import utc_now
from hookfast.deliveries import batch_messages
from hookfast.deliveries.batch_messages import BatchResult
from hookfast.deliveries.time_budget import RECORD_SHARE
from hookfast.dispatch import batches
from hookfast.dispatch.start import start_batch
from hookfast.ids import new_id
from hookfast.storage.deliveries import outbox
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import Recorder
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Delivery
from tests.integration.delivery.conftest import Stack, eventually

pytestmark = pytest.mark.anyio

QUICK = {"delays_seconds": [0.3, 0.3], "jitter": 0, "retry_on": "all"}
PATIENT = {"delays_seconds": [600], "jitter": 0, "retry_on": "all"}


@pytest.fixture
def first_attempts() -> str:
    return "batch"


async def deliver(stack: Stack, endpoint: str, count: int) -> list[str]:
    ids = [await stack.deliver(endpoint) for _ in range(count)]
    await stack.ring_doorbell()
    return ids


async def report_of(stack: Stack, delivery: str) -> BatchResult:
    """What the batch says that took a delivery."""

    async def batch_id() -> Any:
        return (await stack.row(delivery)).batch_id

    name = batch_messages.workflow_id(await eventually(batch_id))
    handle = stack.client.get_workflow_handle(name, result_type=BatchResult)
    return await handle.result()


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


async def test_what_arrives_at_once_needs_no_workflow_of_its_own(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    ids = await deliver(stack, endpoint, 40)
    for delivery in ids:
        await stack.until_status(delivery, "delivered")
    reports = {
        row.batch_id: await report_of(stack, delivery)
        for delivery in ids
        if (row := await stack.row(delivery))
    }
    told = [delivery for report in reports.values() for delivery in report.delivered]
    assert sorted(told) == sorted(ids)
    assert not any([await has_workflow(stack, delivery) for delivery in ids])
    assert sent(stack) == Counter(ids)
    for delivery in ids:
        row = await stack.row(delivery)
        assert (row.attempts, row.wakes, row.started_at is None) == (1, 0, False)


async def test_a_batch_is_found_by_a_delivery_of_it(stack: Stack) -> None:
    [delivery] = await deliver(stack, await stack.endpoint("/ok"), 1)
    await stack.until_status(delivery, "delivered")
    query = f'HookDeliveries="{batch_messages.short_name(delivery)}"'

    async def found() -> list[str]:
        return [one.id async for one in stack.client.list_workflows(query)]

    row = await stack.row(delivery)
    assert await eventually(found) == [batch_messages.workflow_id(row.batch_id)]


async def test_one_that_fails_goes_on_in_a_workflow_of_its_own(stack: Stack) -> None:
    failing = await stack.endpoint("/fail-first/1", plan=QUICK)
    [delivery] = await deliver(stack, failing, 1)
    await stack.until_status(delivery, "delivered")
    await stack.until_closed(delivery)
    report = await report_of(stack, delivery)
    assert report.summary == "1 first attempt: 0 delivered, 1 continues"
    assert report.continued == {delivery: "500"}
    made = await stack.attempts(delivery)
    assert [(one.number, one.trigger) for one in made] == [(1, "first"), (2, "retry")]
    assert (await stack.workflow(delivery).result())["attempts"] == 2
    described = await stack.workflow(delivery).describe()
    row = await stack.row(delivery)
    assert (
        await described.static_details()
        == f"Began in `{batch_messages.workflow_id(row.batch_id)}`."
    )


async def test_one_that_is_over_at_once_ends_its_own_workflow_so(stack: Stack) -> None:
    [delivery] = await deliver(stack, await stack.endpoint("/status/410"), 1)
    await stack.until_status(delivery, "gone")
    await stack.until_closed(delivery)
    described = await stack.workflow(delivery).describe()
    assert described.status is WorkflowExecutionStatus.FAILED
    assert sent(stack) == {delivery: 1}


async def test_a_slow_receiver_holds_no_batch_up(stack: Stack) -> None:
    slow, fine = await stack.endpoint("/slow/3"), await stack.endpoint("/ok")
    late = await stack.deliver(slow)
    ids = await deliver(stack, fine, 10)
    for delivery in ids:
        await stack.until_status(delivery, "delivered")
    assert (await report_of(stack, late)).continued == {late: "no answer yet"}
    row = await stack.row(late)
    assert row.status == "pending"  # its batch has ended; its request goes on
    assert row.batch_until - utc_now() > RECORD_SHARE
    await stack.until_status(late, "delivered")
    await stack.until_closed(late)
    assert sent(stack)[late] == 1
    assert len(await stack.attempts(late)) == 1


async def test_a_batch_has_so_many_requests_open_to_one_endpoint_and_no_more(stack: Stack) -> None:
    ids = await deliver(stack, await stack.endpoint("/slow/0.2"), 3 * batch_messages.PER_ENDPOINT)
    for one in ids:
        await stack.until_status(one, "delivered")
    taken_by = {(await stack.row(one)).batch_id for one in ids}  # one, unless the machine is busy
    assert 1 < stack.receiver.most_in_flight <= batch_messages.PER_ENDPOINT * len(taken_by)


async def test_requests_wait_for_no_record_of_those_before_them(stack: Stack) -> None:
    """A receiver is as busy as it may be, however slow our database is."""
    record, recorded = Recorder.record, asyncio.Event()

    async def late(*args: Any, **options: Any) -> Any:
        await recorded.wait()
        return await record(*args, **options)

    with patch.object(Recorder, "record", late):
        ids = await deliver(stack, await stack.endpoint("/ok"), 2 * batch_messages.PER_ENDPOINT)
        await stack.receiver.wait_for(2 * batch_messages.PER_ENDPOINT)
        assert {(await stack.row(one)).status for one in ids} == {"pending"}
        recorded.set()
        for one in ids:
            await stack.until_status(one, "delivered")
    assert Counter(one.message_id for one in stack.receiver.requests) == Counter(ids)


async def test_slow_receivers_leave_room_for_another_batch(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many batches as may be at work wait for them, and would for longer than this takes."""
    monkeypatch.setattr(batch_member, "SLOW", timedelta(minutes=1))
    late: list[str] = []
    for _ in range(2):
        late += await deliver(stack, await stack.endpoint("/slow/4"), 1)
        await stack.receiver.wait_for(len(late))
    [fine] = await deliver(stack, await stack.endpoint("/ok"), 1)
    await stack.until_status(fine, "delivered")
    assert [(await stack.row(delivery)).status for delivery in late] == ["pending"] * 2
    for delivery in late:
        await stack.until_status(delivery, "delivered")


async def test_a_request_that_its_batch_left_behind_is_kept_when_the_database_is_slow(
    stack: Stack,
) -> None:
    with patch.object(AttemptRunner, "_try_to_record", AsyncMock(return_value=None)):
        [late] = await deliver(stack, await stack.endpoint("/slow/2"), 1)
        await stack.until_status(late, "delivered")
    assert sent(stack) == {late: 1}
    assert len(await stack.attempts(late)) == 1


@pytest.mark.parametrize("action", ["cancel", "pause", "resend"])
async def test_a_wish_that_comes_before_the_first_attempt_counts(stack: Stack, action: Any) -> None:
    """The batch looks at the row last, right before the first byte."""
    asked, look = asyncio.Event(), BatchActivities._look

    async def slow_look(self: BatchActivities, *given: Any) -> Any:
        planned = await look(self, *given)
        await asked.wait()
        await asyncio.sleep(1)  # what was read counts for half a second
        return planned

    with patch.object(BatchActivities, "_look", slow_look):
        [delivery] = await deliver(stack, await stack.endpoint("/ok"), 1)

        async def taken() -> Any:
            return (await stack.row(delivery)).batch_until

        await eventually(taken)
        await stack.request(delivery, action)
        asked.set()
        expected = {"cancel": "cancelled", "pause": "paused", "resend": "delivered"}[action]
        await stack.until_status(delivery, expected)
        await report_of(stack, delivery)
        if action != "pause":
            await stack.until_closed(delivery)
    assert sent(stack)[delivery] == (1 if action == "resend" else 0)


async def test_a_wish_that_comes_during_the_first_attempt_waits_for_its_end(stack: Stack) -> None:
    """Two requests of one delivery are never under way at once."""
    [delivery] = await deliver(stack, await stack.endpoint("/slow/2?status=500", plan=PATIENT), 1)
    await stack.receiver.wait_for(1)
    stack.receiver.routes["/slow/2?status=500"] = "/ok"
    await stack.request(delivery, "resend")
    await stack.receiver.wait_for(2)
    first, second = stack.receiver.requests
    assert second.at - first.at > 1.5
    numbers = [one.number for one in await stack.attempts(delivery)]
    assert numbers[0] == 1


@pytest.mark.parametrize(
    "why", ["limited", "scheduled", "paused endpoint", "long timeout", "failing lately"]
)
async def test_these_have_a_workflow_of_their_own_from_the_start(stack: Stack, why: str) -> None:
    endpoint = await stack.endpoint(
        "/hook",
        plan=PATIENT,
        **{"limited": {"max_in_flight": 5}, "long timeout": {"timeout": 20}}.get(why, {}),
    )
    options: dict[str, Any] = {}
    if why == "scheduled":
        options["deliver_at"] = utc_now() + timedelta(seconds=0.5)
    if why == "paused endpoint":
        async with stack.database.write() as connection:
            await endpoint_state.pause(connection, endpoint, now=utc_now())
    if why == "failing lately":
        stack.receiver.routes["/hook"] = "/status/500"
        for failed in await deliver(stack, endpoint, 3):
            await stack.until_status(failed, "retrying")
    stack.receiver.routes["/hook"] = "/ok"
    delivery = await stack.deliver(endpoint, **options)
    await stack.ring_doorbell()
    await stack.until_status(delivery, "held" if why == "paused endpoint" else "delivered")
    assert (await stack.row(delivery)).batch_id is None
    assert await has_workflow(stack, delivery)


async def test_a_batch_whose_records_fail_hands_them_to_temporal(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    with patch.object(AttemptRunner, "_try_to_record", AsyncMock(return_value=None)):
        ids = await deliver(stack, endpoint, 100)
        for delivery in ids:
            await stack.until_status(delivery, "delivered")
    assert sent(stack) == Counter(ids)
    names = {(await stack.row(delivery)).batch_id for delivery in ids}
    assert names != {None}
    for name in names - {None}:  # on a busy machine some take too long for a batch
        handle = stack.client.get_workflow_handle(batch_messages.workflow_id(name))
        await handle.result()
        described = await handle.describe()
        assert described.raw_description.workflow_execution_info.history_size_bytes < 100_000


async def test_a_batch_that_meets_no_database_gives_everything_back(stack: Stack) -> None:
    load, failures = OutgoingLoader.load, iter(range(20))

    async def failing(self: OutgoingLoader, *given: Any, **options: Any) -> Any:
        for _ in failures:
            raise OSError("the database is away")
        return await load(self, *given, **options)

    with patch.object(OutgoingLoader, "load", failing):
        ids = await deliver(stack, await stack.endpoint("/ok"), 20)
        for delivery in ids:
            await stack.until_status(delivery, "delivered")
    assert sent(stack) == Counter(ids)


@pytest.mark.parametrize("path", ["/ok", "/slow/3"], ids=["ended", "under way"])
async def test_a_start_that_is_not_known_to_have_happened_is_repeated_under_the_same_id(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    answers = iter([True])

    async def unheard(*given: Any) -> Any:
        handle = await start_batch(*given)
        for _ in answers:
            raise RPCError("cut", RPCStatusCode.UNAVAILABLE, b"")
        return handle

    monkeypatch.setattr(batches, "start_batch", unheard)
    ids = await deliver(stack, await stack.endpoint(path), 10)
    for delivery in ids:
        await stack.until_status(delivery, "delivered")
    assert sent(stack) == Counter(ids)


async def test_a_batch_sends_nothing_that_is_not_its_own_any_more(stack: Stack) -> None:
    """Its worker was frozen until its leases had run out, and another batch has taken them."""
    endpoint = await stack.endpoint("/ok")
    until = utc_now() + timedelta(seconds=30)
    taken = {"batch_id": "btc_other", "batch_until": until, "leased_until": until}
    delivery = await stack.deliver(endpoint, **taken)
    handle = await start_batch(stack.client, new_id("btc"), [delivery])
    report = await handle.result()
    assert report.continued == {delivery: "pending"}
    assert sent(stack) == {}


@pytest.mark.parametrize("how", ["lost", "given back"])
async def test_one_that_a_batch_took_in_vain_hears_what_is_asked_of_it(
    stack: Stack, how: str
) -> None:
    """Its own workflow is its first, and what comes next has to reach that one."""
    endpoint = await stack.endpoint("/hook", plan=PATIENT, max_in_flight=5)
    stack.receiver.routes["/hook"] = "/status/500"
    over = utc_now() - timedelta(seconds=1)
    later = utc_now() + timedelta(minutes=5)
    until = over if how == "lost" else later
    delivery = await stack.deliver(
        endpoint, batch_id="btc_1", batch_until=until, leased_until=until
    )
    if how == "given back":
        async with stack.database.write() as connection:
            await outbox.return_from_batch(connection, [delivery], batch_id="btc_1")
    await stack.ring_doorbell()
    await stack.until_status(delivery, "retrying")
    await stack.until_relayed(delivery)
    assert (await stack.row(delivery)).batch_id is None
    assert await (await stack.workflow(delivery).describe()).static_details() is None
    stack.receiver.routes["/hook"] = "/ok"
    await stack.request(delivery, "resend")
    await stack.until_status(delivery, "delivered")


async def test_a_delivery_that_is_delivered_can_be_sent_again(stack: Stack) -> None:
    [delivery] = await deliver(stack, await stack.endpoint("/ok"), 1)
    await stack.until_status(delivery, "delivered")
    await stack.request(delivery, "resend")
    await stack.receiver.wait_for(2)
    await stack.until_closed(delivery)
    made = await stack.attempts(delivery)
    assert [(one.number, one.trigger) for one in made] == [(1, "first"), (2, "resend")]


async def test_a_workflow_after_a_batch_is_started_once(stack: Stack) -> None:
    """The relay dies between the start and the mark: the second start changes nothing."""
    [delivery] = await deliver(stack, await stack.endpoint("/status/500", plan=PATIENT), 1)
    await stack.until_relayed(delivery)
    before = await stack.workflow(delivery).describe()
    async with stack.database.write() as connection:
        await connection.execute(
            Delivery.__table__.update()
            .where(Delivery.__table__.c.id == delivery)
            .values(started_at=None)
        )
    await stack.ring_doorbell()
    await stack.until_relayed(delivery)
    after = await stack.workflow(delivery).describe()
    assert after.run_id == before.run_id
    assert after.history_length == before.history_length
