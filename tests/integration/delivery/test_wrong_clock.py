"""Temporal's clock and the one that Hookfast uses are apart: deliveries are made all the same."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from hookfast import clock
from hookfast.clock import machine_now
from hookfast.dispatch.pace import RETRY_LATE, Pace
from hookfast.storage.database import server_clock
from tests.integration.delivery.conftest import Stack

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


@pytest.fixture(params=[-3600, 3])
def ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many seconds our clock is ahead of Temporal's. Nobody sets it right meanwhile."""
    monkeypatch.setattr(server_clock, "set_clock", lambda *_, **__: timedelta(0))
    ours = machine_now() + timedelta(seconds=request.param)
    monkeypatch.setattr(clock, "_was_set", (ours, time.monotonic()))
    return int(request.param)


async def test_retry_follows_and_does_not_look_like_an_overload(
    ahead: int, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[timedelta] = []
    monkeypatch.setattr(Pace, "retry_began", lambda _, late: noted.append(late))
    plan = {"delays_seconds": [1], "jitter": 0.0, "retry_on": "all"}
    endpoint = await stack.endpoint("/fail-first/1", plan=plan)
    delivery = await stack.deliver(endpoint)
    await stack.until_status(delivery, "delivered")
    first, second = await stack.attempts(delivery)
    assert second.started_at - first.started_at > timedelta(seconds=0.9)
    assert len(stack.receiver.requests_for(delivery)) == 2
    assert [late < RETRY_LATE for late in noted] == [True]
