"""Pausing and resuming a delivery: between attempts, before the first, and around a resend."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookfast.clock import utc_now
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT, QUICK

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def test_pause_stops_the_retries_and_resume_continues_them(stack: Stack) -> None:
    delivery = await stack.deliver_until("retrying", "/fail-first/1", plan=QUICK)

    row = await stack.signal(delivery, "pause", until="paused")
    assert row.next_attempt_at is None
    sent = len(stack.receiver.requests)
    await asyncio.sleep(0.6)
    assert len(stack.receiver.requests) == sent

    await stack.signal(delivery, "resume", until="delivered")


async def test_pausing_twice_and_resuming_a_running_delivery_are_harmless(stack: Stack) -> None:
    delivery = await stack.deliver_until("retrying", "/status/500", plan=PATIENT)
    handle = stack.workflow(delivery)

    for name in ("resume", "pause", "pause"):
        await handle.signal(name)
    await stack.until_status(delivery, "paused")
    for name in ("resume", "resume"):
        await handle.signal(name)

    row = await stack.until_status(delivery, "retrying")
    assert row.next_attempt_at is not None


async def test_a_paused_delivery_can_be_resent_and_stays_paused_when_that_fails(
    stack: Stack,
) -> None:
    delivery = await stack.deliver_until("retrying", "/status/500", plan=PATIENT)
    await stack.signal(delivery, "pause", until="paused")

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

    await stack.until_relayed(delivery)
    await stack.signal(delivery, "pause", until="paused")
    await stack.workflow(delivery).signal("resend")
    await stack.receiver.wait_for(1)

    await stack.until(delivery, lambda row: row.attempts == 1 and row.status == "paused")
    assert (await stack.row(delivery)).next_attempt_at is None


async def test_resume_during_a_resend_takes_effect_when_the_resend_fails(stack: Stack) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    delivery = await stack.deliver(await stack.endpoint("/hook", plan=PATIENT, timeout=20))
    planned = (await stack.until_status(delivery, "retrying")).next_attempt_at
    await stack.signal(delivery, "pause", until="paused")
    stack.receiver.routes["/hook"] = "/slow/1?status=500"
    await stack.workflow(delivery).signal("resend")
    await stack.receiver.wait_for(2)

    row = await stack.signal(delivery, "resume", until="retrying")
    assert row.attempts == 2
    assert abs((row.next_attempt_at - planned).total_seconds()) < 2
