"""The life of a delivery in a whole worker, on a real Temporal and both databases: its lanes, its
timers, and a database that fails. What is sent and recorded is tested in `step/test_life.py`."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest

from activities.attempt import AttemptRunner
from hookfast.clock import utc_now
from hookfast.storage.database.availability import connection_lost
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import QUICK

pytestmark = pytest.mark.anyio

AWAY = connection_lost(OSError("away"))


async def test_every_retry_has_the_same_message_id(stack: Stack) -> None:
    endpoint = await stack.endpoint("/fail-first/2", plan=QUICK)
    delivery = await stack.deliver(endpoint)

    row = await stack.until_status(delivery, "delivered")

    assert (row.attempts, row.retries) == (3, 2)
    assert {request.message_id for request in stack.receiver.requests} == {delivery}
    triggers = [attempt.trigger for attempt in await stack.attempts(delivery)]
    assert triggers == ["first", "retry", "retry"]


async def test_a_long_timeout_takes_the_regular_lane(stack: Stack) -> None:
    endpoint = await stack.endpoint("/slow/0.2", timeout=20)
    delivery = await stack.deliver(endpoint)

    await stack.until_status(delivery, "delivered")

    assert await _activity_queues(stack, delivery) == ["retries"]


async def test_retries_to_a_quick_endpoint_need_no_activity_of_their_own(stack: Stack) -> None:
    delivery = await stack.deliver(await stack.endpoint("/fail-first/2", plan=QUICK))

    await stack.until_status(delivery, "delivered")

    await stack.until_closed(delivery)  # the row is there before the last task's events
    assert await _activity_queues(stack, delivery) == []
    history = await stack.workflow(delivery).fetch_history()
    summaries = [
        json.loads(event.user_metadata.summary.data)
        for event in history.events
        if event.HasField("marker_recorded_event_attributes")
        and event.user_metadata.HasField("summary")
    ]
    assert summaries == ["retry 1 of 3, after 500", "retry 2 of 3, after 500"]


async def test_the_retry_of_a_slow_attempt_takes_the_regular_lane(stack: Stack) -> None:
    endpoint = await stack.endpoint("/slow/2", timeout=1, plan=QUICK | {"delays_seconds": [0.2]})
    delivery = await stack.deliver(endpoint)

    await stack.until_status(delivery, "dead")

    assert await _activity_queues(stack, delivery) == ["retries"]


async def test_scheduled_delivery_waits_and_can_be_resent_early(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    delivery = await stack.deliver(endpoint, deliver_at=utc_now() + timedelta(days=2))

    await stack.until_relayed(delivery)
    assert stack.receiver.requests == []
    row = await stack.signal(delivery, "resend", until="delivered")
    assert row.attempts == 1


async def test_scheduled_delivery_is_not_sent_before_its_time(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    due = utc_now() + timedelta(seconds=1)
    delivery = await stack.deliver(endpoint, deliver_at=due)

    await stack.until_status(delivery, "delivered")

    (request,) = stack.receiver.requests
    assert request.at >= due.timestamp() - 0.01


async def test_many_deliveries_to_one_endpoint_overflow_into_the_regular_lane(stack: Stack) -> None:
    """One endpoint may use a third of the fast lane; the regular lane sends the rest."""
    endpoint = await stack.endpoint("/slow/0.5")
    deliveries = await stack.deliver_together(endpoint, 30)

    for delivery in deliveries:
        row = await stack.until_status(delivery, "delivered")
        assert row.attempts == 1

    assert len(stack.receiver.requests) == 30


async def test_an_attempt_whose_record_fails_is_recorded_later_and_not_sent_again(
    stack: Stack,
) -> None:
    """The database becomes unavailable between the answer and the record."""
    with patch.object(AttemptRunner, "_try_to_record", AsyncMock(return_value=None)):
        delivery = await stack.deliver(await stack.endpoint("/ok?key=4711"))
        row = await stack.until_status(delivery, "delivered")

    assert row.attempts == 1
    assert len(stack.receiver.requests) == 1
    (attempt,) = await stack.attempts(delivery)
    assert (attempt.status_code, attempt.result) == (200, "success")
    # what was received and where it was sent would have to go through the workflow's history
    assert (attempt.url, attempt.request_headers, attempt.response_excerpt) == (None, None, None)
    history = await stack.workflow(delivery).fetch_history()
    recorded = b"".join(event.SerializeToString() for event in history.events)
    assert attempt.id.encode() in recorded
    assert b"key=4711" not in recorded


async def test_a_delivery_continues_when_the_database_was_unavailable_before_the_request(
    stack: Stack,
) -> None:
    load = OutgoingLoader.load
    failures = iter([AWAY, AWAY])

    async def failing_twice(*args: Any, **options: Any) -> Any:
        for error in failures:
            raise error
        return await load(*args, **options)

    with patch.object(OutgoingLoader, "load", failing_twice):
        delivery = await stack.deliver(await stack.endpoint("/ok"))
        row = await stack.until_status(delivery, "delivered")

    assert row.attempts == 1
    assert len(stack.receiver.requests) == 1


async def _activity_queues(stack: Stack, delivery: str) -> list[str]:
    """The task queue of each activity that is not a local one, in order."""
    history = await stack.workflow(delivery).fetch_history()
    return [
        event.activity_task_scheduled_event_attributes.task_queue.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
