"""Hostile receivers and endpoint URLs, in a whole worker: every attempt is recorded with the right
result, and deliveries to other endpoints continue."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.delivery.conftest import Stack

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

ONCE = {"delays_seconds": [], "jitter": 0, "retry_on": "all"}
TWICE = {"delays_seconds": [0.3], "jitter": 0, "retry_on": "all"}
HOSTILE = {
    "/slow/30": "timeout",
    "/endless-interim/0": "protocol",
    "/garbage": "protocol",
    "/close": "reset",
    "/redirect-loop": "status",
    # after a 2xx status line
    "/drip-headers/0.05": "success",
    "/drip-body/0.05": "success",
    "/huge-header": "success",
    "/conflicting-lengths": "success",
    "/close-mid-headers": "success",
    "/reset-mid-body": "success",
    "/declared-body/10737418240": "success",
    "/endless-chunks": "success",
}
ENDLESS = ("/slow/30", "/drip-headers/0.05", "/drip-body/0.05")


async def test_every_hostile_answer_is_a_recorded_attempt_and_others_are_delivered(
    stack: Stack,
) -> None:
    # answers that must end by themselves get more time, for a busy machine
    hostile = {
        path: await stack.endpoint(path, plan=ONCE, timeout=1.0 if path in ENDLESS else 10.0)
        for path in HOSTILE
    }
    good = await stack.endpoint("/ok")
    sent = {path: await stack.deliver(endpoint) for path, endpoint in hostile.items()}
    others = await stack.deliver_together(good, 10)
    await asyncio.gather(*(stack.until_status(delivery, "delivered") for delivery in others))
    await asyncio.gather(
        *(stack.until_status(delivery, "delivered", "dead") for delivery in sent.values())
    )
    for path, delivery in sent.items():
        [attempt] = await stack.attempts(delivery)
        assert (path, attempt.result) == (path, HOSTILE[path])
        assert attempt.result == "success" or attempt.error is not None
        assert len(attempt.response_excerpt or "") <= 2048
