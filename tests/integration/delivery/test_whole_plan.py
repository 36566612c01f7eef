"""The whole hourly retry plan, on a Temporal server that skips time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle

from hookfast.deliveries.messages import workflow_id
from hookfast.deliveries.retry_plan import PRESETS
from tests.integration.delivery.conftest import Stack

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def timer_seconds(stack: Stack, delivery_id: str) -> list[float]:
    """Return the duration of each timer of the delivery, in skipped seconds, over all runs."""
    seconds: list[float] = []
    run_id: str | None = None
    handle = stack.workflow(delivery_id)
    first = (await handle.describe()).raw_description.workflow_execution_info.first_run_id
    run_id = first
    while run_id:
        started: dict[int, timedelta] = {}
        following = None
        one_run: WorkflowHandle = stack.client.get_workflow_handle(
            workflow_id(delivery_id), run_id=run_id
        )
        async for event in one_run.fetch_history_events():
            at = event.event_time.ToDatetime()
            if event.event_type == EventType.EVENT_TYPE_TIMER_STARTED:
                started[event.event_id] = at
            elif event.event_type == EventType.EVENT_TYPE_TIMER_FIRED:
                begun = started[event.timer_fired_event_attributes.started_event_id]
                seconds.append((at - begun).total_seconds())
            elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
                attributes = event.workflow_execution_continued_as_new_event_attributes
                following = attributes.new_execution_run_id
        run_id = following
    return seconds


async def test_a_failing_endpoint_gets_79_requests_in_three_days_and_then_a_dead_letter(
    skipping_stack: Stack,
) -> None:
    stack = skipping_stack
    # With the default threshold, the circuit would open and hold the delivery.
    endpoint = await stack.endpoint("/status/500", circuit={"failure_threshold": 1_000})
    delivery = await stack.deliver(endpoint, data={"invoice": 1})

    state = await stack.final_state(delivery)

    assert state.status == "dead"
    row = await stack.row(delivery)
    assert (row.status, row.reason, row.attempts) == ("dead", "retries_exhausted", 79)
    assert len(stack.receiver.requests) == 79
    ids = {request.headers["webhook-id"] for request in stack.receiver.requests}
    assert ids == {delivery}
    numbers = [request.headers["x-hook-attempt"] for request in stack.receiver.requests]
    assert numbers == [str(number) for number in range(1, 80)]
    row = await stack.row(delivery)
    assert (row.status, row.reason, row.attempts) == ("dead", "retries_exhausted", 79)
    attempts = await stack.attempts(delivery)
    assert [attempt.number for attempt in attempts] == list(range(1, 80))

    plan = PRESETS["hourly"]
    waited = await timer_seconds(stack, delivery)
    assert len(waited) == 78
    for seconds, delay in zip(waited, plan.delays, strict=True):
        # ±10 %, and a little for the server's own timer resolution
        assert delay * 0.9 - 0.1 <= seconds <= delay * 1.1 + 2, (seconds, delay)
