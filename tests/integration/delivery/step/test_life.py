"""The life of a delivery: what is sent, recorded and counted."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import select, update
from standardwebhooks import Webhook

from hookfast.clock import utc_now
from hookfast.errors import Unavailable
from hookfast.storage.database.availability import connection_lost
from hookfast.storage.deliveries.recorder import Recorder
from hookfast.storage.tables import Endpoint, EndpointHealth
from tests.integration.delivery.plans import QUICK
from tests.integration.delivery.steps import Steps
from tests.support.seed import EVENT_TYPE, SECRET

pytestmark = pytest.mark.anyio

AWAY = connection_lost(OSError("away"))


async def test_a_healthy_endpoint_gets_one_signed_request(steps: Steps) -> None:
    endpoint = await steps.endpoint("/ok")
    delivery = await steps.deliver(endpoint, data={"total": 12.5, "note": "grüße"})

    row = await steps.run(delivery)

    assert (row.status, row.attempts, row.next_attempt_at) == ("delivered", 1, None)
    assert row.finished_at is not None
    (request,) = steps.receiver.requests
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


async def test_attempt_is_recorded_with_status_duration_and_response(steps: Steps) -> None:
    delivery = await steps.deliver(await steps.endpoint("/echo"), data="hello")

    assert (await steps.step(delivery)).status == "delivered"

    (attempt,) = await steps.attempts(delivery)
    assert (attempt.number, attempt.trigger, attempt.result) == (1, "first", "success")
    assert attempt.status_code == 200
    assert attempt.error is None
    assert attempt.duration_ms > 0
    assert '"data":"hello"' in attempt.response_excerpt
    assert attempt.url == steps.receiver.url("/echo")
    assert f"X-Hook-Id: {delivery}\n" in attempt.request_headers
    assert "Content-Length: " in attempt.response_headers


async def test_every_retry_sends_the_same_bytes(steps: Steps) -> None:
    endpoint = await steps.endpoint("/fail-first/2", plan=QUICK)
    delivery = await steps.deliver(endpoint, data={"a": [1, 2.50, "ß"]})

    assert (await steps.run(delivery)).status == "delivered"

    assert len({request.body for request in steps.receiver.requests}) == 1


async def test_a_thin_payload_links_to_the_event(steps: Steps) -> None:
    endpoint = await steps.endpoint("/ok", payload="thin")
    delivery = await steps.deliver(endpoint, data={"secret": "not sent"})

    row = await steps.run(delivery)

    (request,) = steps.receiver.requests
    data = json.loads(request.body)["data"]
    assert data["id"] == row.event_id
    assert data["url"].endswith(f"/v1/events/{row.event_id}")


async def test_gone_ends_the_delivery_and_disables_the_endpoint(steps: Steps) -> None:
    endpoint = await steps.endpoint("/status/410", plan=QUICK)

    row = await steps.run(await steps.deliver(endpoint))

    assert (row.status, row.attempts) == ("gone", 1)
    async with steps.database.read() as connection:
        table = Endpoint.__table__
        stored = (await connection.execute(select(table).where(table.c.id == endpoint))).one()
    assert stored.state == "disabled"
    assert "410" in stored.state_reason


async def test_status_that_is_not_retried_is_a_dead_letter_at_once(steps: Steps) -> None:
    delivery = await steps.deliver(await steps.endpoint("/status/404", plan="stepped", timeout=5))

    row = await steps.run(delivery)

    assert (row.status, row.reason, row.attempts) == ("dead", "not_retryable", 1)


async def test_exhausted_retry_plan_is_a_dead_letter(steps: Steps) -> None:
    delivery = await steps.deliver(await steps.endpoint("/status/500", plan=QUICK))

    row = await steps.run(delivery)

    assert (row.status, row.reason, row.attempts, row.retries) == (
        "dead",
        "retries_exhausted",
        4,
        3,
    )


async def test_retry_after_moves_the_next_attempt(steps: Steps) -> None:
    row = await steps.row(await steps.deliver_to("/retry-after/3600", plan=QUICK))

    assert row.status == "retrying"
    wait = (row.next_attempt_at - utc_now()).total_seconds()
    assert 3500 < wait <= 3600


async def test_failures_count_on_the_endpoint_and_a_success_resets_them(steps: Steps) -> None:
    endpoint = await steps.endpoint("/fail-first/2", plan=QUICK)
    delivery = await steps.deliver(endpoint)

    async def health() -> Any:
        table = EndpointHealth.__table__
        async with steps.database.read() as connection:
            rows = await connection.execute(select(table).where(table.c.endpoint_id == endpoint))
            return rows.one()

    await steps.step(delivery)
    row = await health()
    assert row.consecutive_failures == 1
    assert "500" in row.last_error
    assert (await steps.run(delivery)).status == "delivered"
    row = await health()
    assert row.consecutive_failures == 0
    assert row.first_failure_at is None
    assert row.last_success_at is not None


async def test_nothing_is_sent_to_a_disabled_endpoint(steps: Steps) -> None:
    endpoint = await steps.endpoint("/ok")
    async with steps.database.write() as connection:
        table = Endpoint.__table__
        await connection.execute(
            update(table).where(table.c.id == endpoint).values(state="disabled")
        )
    delivery = await steps.deliver(endpoint)

    result = await steps.step(delivery)

    assert (result.status, result.reason, result.attempts) == ("dead", "endpoint_disabled", 0)
    assert steps.receiver.requests == []


async def test_a_record_that_fails_briefly_is_tried_again_at_once(steps: Steps) -> None:
    record = Recorder.record
    failures = iter([AWAY, AWAY, Unavailable("busy")])

    async def failing_at_first(*args: Any, **options: Any) -> Any:
        for error in failures:
            raise error
        return await record(*args, **options)

    with patch.object(Recorder, "record", failing_at_first):
        delivery = await steps.deliver_to("/ok")

    assert len(steps.receiver.requests) == 1
    assert len(await steps.attempts(delivery)) == 1
