"""How a batch of first attempts is started."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.client import Client, WorkflowHandle
from temporalio.common import (
    Priority,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError

from hookfast.deliveries.batch_messages import (
    WORKFLOW_TYPE,
    BatchInput,
    BatchResult,
    short_name,
    workflow_id,
)
from hookfast.deliveries.messages import DELIVERIES_QUEUE, Urgency
from hookfast.dispatch.start import START_TIMEOUT
from hookfast.temporal import connection


async def start_batch(
    client: Client, batch_id: str, delivery_ids: Sequence[str]
) -> WorkflowHandle[object, BatchResult]:
    """Start a batch, eagerly; where it was started already, nothing happens. Raises RPCError."""
    names = [short_name(delivery_id) for delivery_id in delivery_ids]
    try:
        return await client.start_workflow(
            WORKFLOW_TYPE,
            BatchInput(batch_id, tuple(delivery_ids)),
            id=workflow_id(batch_id),
            task_queue=DELIVERIES_QUEUE,
            result_type=BatchResult,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            request_eager_start=True,
            search_attributes=TypedSearchAttributes(
                [SearchAttributePair(connection.HOOK_DELIVERIES, names)] if names else []
            ),
            static_summary="First attempts",  # more may be added
            priority=Priority(priority_key=Urgency.FIRST),
            rpc_timeout=START_TIMEOUT,
        )
    except WorkflowAlreadyStartedError:  # and has ended
        return client.get_workflow_handle(workflow_id(batch_id), result_type=BatchResult)
