"""A signal during a first attempt in the fast lane makes Temporal discard and repeat the workflow
task. The row already has the attempt, so that it is not made twice."""

from __future__ import annotations

import pytest
from temporalio.api.enums.v1 import EventType

from tests.integration.delivery.conftest import Stack

pytestmark = pytest.mark.anyio

NO_RETRIES = {"delays_seconds": [], "jitter": 0, "retry_on": "all"}


async def task_was_discarded(stack: Stack, delivery: str) -> bool:
    """Return whether Temporal discarded a task of the delivery's workflow."""
    history = await stack.workflow(delivery).fetch_history()
    failed = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    return any(event.event_type == failed for event in history.events)


async def signalled_in_the_first_attempt(stack: Stack, signal: str, *, path: str) -> str:
    """Create a delivery and signal it while its first request is in flight; return its id."""
    delivery = await stack.deliver(await stack.endpoint(path))
    await stack.receiver.wait_for(1)
    await stack.workflow(delivery).signal(signal)
    return delivery


@pytest.mark.parametrize("signal", ["pause", "cancel"])
async def test_successful_attempt_stays_delivered(stack: Stack, signal: str) -> None:
    delivery = await signalled_in_the_first_attempt(stack, signal, path="/slow/1")
    result = await stack.final_state(delivery)
    row = await stack.row(delivery)
    assert (row.status, row.attempts, row.next_attempt_at) == ("delivered", 1, None)
    assert (result.status, result.attempts) == ("delivered", 1)
    assert await task_was_discarded(stack, delivery)
    assert len(stack.receiver.requests) == 1


async def test_failed_attempt_without_retries_stays_a_dead_letter(stack: Stack) -> None:
    endpoint = await stack.endpoint("/slow/1?status=500", plan=NO_RETRIES)
    delivery = await stack.deliver(endpoint)
    await stack.receiver.wait_for(1)
    await stack.workflow(delivery).signal("pause")
    await stack.until_closed(delivery)
    row = await stack.row(delivery)
    assert (row.status, row.reason, row.attempts) == ("dead", "retries_exhausted", 1)
    assert await task_was_discarded(stack, delivery)


async def test_resend_during_the_first_attempt_is_not_lost(stack: Stack) -> None:
    delivery = await signalled_in_the_first_attempt(stack, "pause", path="/slow/1")
    await stack.workflow(delivery).signal("resend")
    await stack.until_closed(delivery)
    assert (await stack.row(delivery)).status == "delivered"


async def test_repeated_first_step_reads_the_row_again_and_sends_nothing(stack: Stack) -> None:
    delivery = await signalled_in_the_first_attempt(stack, "wake", path="/slow/1")
    await stack.until_closed(delivery)
    assert await task_was_discarded(stack, delivery)
    assert len(stack.receiver.requests) == 1


async def test_failed_attempt_with_retries_left_is_cancelled(stack: Stack) -> None:
    delivery = await signalled_in_the_first_attempt(stack, "cancel", path="/slow/1?status=500")
    await stack.until_closed(delivery)
    row = await stack.row(delivery)
    assert (row.status, row.attempts, row.next_attempt_at) == ("cancelled", 1, None)
    assert len(stack.receiver.requests) == 1
