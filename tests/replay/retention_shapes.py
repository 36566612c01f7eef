"""The shapes of the histories of retention."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from unittest.mock import patch

import activities.retention
from hookfast.clock import utc_now
from hookfast.ids import new_id
from hookfast.retention.ages import WORKFLOW_TYPE, RetentionInput
from hookfast.workflow_request import CONTROL_QUEUE
from tests.integration.delivery.conftest import Stack
from tests.integration.storage.retention.old_rows import add_attempt, add_event


async def retention_of_one_night(stack: Stack) -> str:
    return await _run(stack, RetentionInput())


async def retention_tried_out(stack: Stack) -> str:
    return await _run(stack, RetentionInput(dry_run=True, run_id=new_id("ret")))


async def retention_in_several_parts(stack: Stack) -> str:
    """Many rows: a sweep takes several activities, and the run continues as new."""
    long_ago = utc_now() - timedelta(days=60)
    for _ in range(4):
        await add_attempt(stack.database, "dlv_1", long_ago)
        await add_event(stack.database, long_ago, deliveries=0)
    with (
        patch.object(activities.retention, "_ROWS_AT_ONCE", 1),
        patch.object(activities.retention, "_BATCHES_AT_ONCE", 2),
    ):
        workflow_id = await _run(stack, RetentionInput(activities=3))
        await stack.client.get_workflow_handle(workflow_id).result()
    return workflow_id


async def _run(stack: Stack, input: RetentionInput) -> str:
    handle = await stack.client.start_workflow(
        WORKFLOW_TYPE, input, id=f"retention/{new_id('ret')}", task_queue=CONTROL_QUEUE
    )
    return handle.id


RETENTION_SHAPES: tuple[Callable[[Stack], Awaitable[str]], ...] = (
    retention_of_one_night,
    retention_tried_out,
    retention_in_several_parts,
)
