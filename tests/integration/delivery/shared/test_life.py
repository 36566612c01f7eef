"""The life of a delivery in a whole worker, on a real Temporal and both databases."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest
from sqlalchemy import select, update
from standardwebhooks import Webhook

from activities.attempt import AttemptRunner
from hookfast.clock import utc_now
from hookfast.errors import Unavailable
from hookfast.storage.database.availability import connection_lost
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import Recorder
from hookfast.storage.tables import Endpoint, EndpointHealth
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import QUICK
from tests.support.seed import EVENT_TYPE, SECRET
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

AWAY = connection_lost(OSError("away"))


async def test_a_healthy_endpoint_gets_one_signed_request(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    delivery = await stack.deliver(endpoint, data={"total": 12.5, "note": "grüße"})

    row = await stack.until_status(delivery, "delivered")

    assert (row.attempts, row.next_attempt_at) == (1, None)
    assert row.finished_at is not None
    (request,) = stack.receiver.requests
    assert request.method == "POST"
    assert json.loads(request.body)["data"] == {"total": 12.5, "note": "grüße"}
    headers = request.headers
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("Hookfast/")
    assert headers["x-hook-id"] == headers["webhook-id"] == delivery
    assert headers["x-hook-topic"] == EVENT_TYPE
    assert headers["x-hook-attempt"] == "1"
    assert headers["traceparent"].startswith("00-")
    Webhook(SECRET).verify(request.body, dict(headers))
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = headers["x-hook-timestamp"].encode() + b"." + request.body
    expected = hmac.new(key, signed, hashlib.sha256).hexdigest()
    assert headers["x-hook-signature"] == f"sha256={expected}"


async def test_attempt_is_recorded_with_status_duration_and_response(stack: Stack) -> None:
    endpoint = await stack.endpoint("/echo")
    delivery = await stack.deliver(endpoint, data="hello")

    await stack.until_status(delivery, "delivered")

    (attempt,) = await stack.attempts(delivery)
    assert (attempt.number, attempt.trigger, attempt.result) == (1, "first", "success")
    assert attempt.status_code == 200
    assert attempt.error is None
    assert attempt.duration_ms > 0
    assert '"data":"hello"' in attempt.response_excerpt
    assert attempt.url == stack.receiver.url("/echo")
    assert f"X-Hook-Id: {delivery}\n" in attempt.request_headers
    assert "Content-Length: " in attempt.response_headers


async def test_every_retry_has_the_same_message_id(stack: Stack) -> None:
    endpoint = await stack.endpoint("/fail-first/2", plan=QUICK)
    delivery = await stack.deliver(endpoint)

    row = await stack.until_status(delivery, "delivered")

    assert (row.attempts, row.retries) == (3, 2)
    assert {request.message_id for request in stack.receiver.requests} == {delivery}
    triggers = [attempt.trigger for attempt in await stack.attempts(delivery)]
    assert triggers == ["first", "retry", "retry"]


async def test_every_retry_sends_the_same_bytes(stack: Stack) -> None:
    endpoint = await stack.endpoint("/fail-first/2", plan=QUICK)
    delivery = await stack.deliver(endpoint, data={"a": [1, 2.50, "ß"]})

    await stack.until_status(delivery, "delivered")

    assert len({request.body for request in stack.receiver.requests}) == 1


async def test_a_thin_payload_links_to_the_event(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok", payload="thin")
    delivery = await stack.deliver(endpoint, data={"secret": "not sent"})

    row = await stack.until_status(delivery, "delivered")

    (request,) = stack.receiver.requests
    data = json.loads(request.body)["data"]
    assert data["id"] == row.event_id
    assert data["url"].endswith(f"/v1/events/{row.event_id}")


async def test_gone_ends_the_delivery_and_disables_the_endpoint(stack: Stack) -> None:
    endpoint = await stack.endpoint("/status/410", plan=QUICK)
    delivery = await stack.deliver(endpoint)

    row = await stack.until_status(delivery, "gone")

    assert row.attempts == 1
    async with stack.database.read() as connection:
        table = Endpoint.__table__
        stored = (await connection.execute(select(table).where(table.c.id == endpoint))).one()
    assert stored.state == "disabled"
    assert "410" in stored.state_reason


async def test_status_that_is_not_retried_is_a_dead_letter_at_once(stack: Stack) -> None:
    endpoint = await stack.endpoint("/status/404", plan="stepped", timeout=5)
    delivery = await stack.deliver(endpoint)

    row = await stack.until_status(delivery, "dead")

    assert (row.reason, row.attempts) == ("not_retryable", 1)


async def test_exhausted_retry_plan_is_a_dead_letter(stack: Stack) -> None:
    endpoint = await stack.endpoint("/status/500", plan=QUICK)
    delivery = await stack.deliver(endpoint)

    row = await stack.until_status(delivery, "dead")

    assert (row.reason, row.attempts, row.retries) == ("retries_exhausted", 4, 3)


async def test_a_long_timeout_takes_the_regular_lane(stack: Stack) -> None:
    endpoint = await stack.endpoint("/slow/0.2", timeout=20)
    delivery = await stack.deliver(endpoint)

    await stack.until_status(delivery, "delivered")

    history = await stack.workflow(delivery).fetch_history()
    scheduled = [
        event.activity_task_scheduled_event_attributes
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert [one.task_queue.name for one in scheduled] == ["retries"]


async def test_retry_after_moves_the_next_attempt(stack: Stack) -> None:
    endpoint = await stack.endpoint("/retry-after/3600", plan=QUICK)
    delivery = await stack.deliver(endpoint)

    row = await stack.until_status(delivery, "retrying")

    wait = (row.next_attempt_at - utc_now()).total_seconds()
    assert 3500 < wait <= 3600


async def test_failures_count_on_the_endpoint_and_a_success_resets_them(stack: Stack) -> None:
    endpoint = await stack.endpoint("/fail-first/2", plan=QUICK)
    delivery = await stack.deliver(endpoint)

    async def health() -> object:
        table = EndpointHealth.__table__
        async with stack.database.read() as connection:
            return (
                await connection.execute(select(table).where(table.c.endpoint_id == endpoint))
            ).first()

    row = await eventually(health)
    assert row.consecutive_failures >= 1
    assert "500" in row.last_error
    await stack.until_status(delivery, "delivered")
    row = await health()
    assert row.consecutive_failures == 0
    assert row.first_failure_at is None
    assert row.last_success_at is not None


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


async def test_nothing_is_sent_to_a_disabled_endpoint(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok")
    async with stack.database.write() as connection:
        table = Endpoint.__table__
        await connection.execute(
            update(table).where(table.c.id == endpoint).values(state="disabled")
        )
    delivery = await stack.deliver(endpoint)

    row = await stack.until_status(delivery, "dead")

    assert (row.reason, row.attempts) == ("endpoint_disabled", 0)
    assert stack.receiver.requests == []


async def test_many_deliveries_to_one_endpoint_overflow_into_the_regular_lane(stack: Stack) -> None:
    """One endpoint may use a third of the fast lane; the regular lane sends the rest."""
    endpoint = await stack.endpoint("/slow/0.5")
    deliveries = [await stack.deliver(endpoint) for _ in range(30)]

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


async def test_a_record_that_fails_briefly_is_tried_again_at_once(stack: Stack) -> None:
    record = Recorder.record
    failures = iter([AWAY, AWAY, Unavailable("busy")])

    async def failing_at_first(*args: Any, **options: Any) -> Any:
        for error in failures:
            raise error
        return await record(*args, **options)

    with patch.object(Recorder, "record", failing_at_first):
        delivery = await stack.deliver_until("delivered", "/ok")

    assert len(stack.receiver.requests) == 1
    assert len(await stack.attempts(delivery)) == 1


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
