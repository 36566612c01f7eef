"""The first attempts of up to a hundred deliveries, in one workflow.

Under load, one workflow per delivery is the largest cost. A batch makes first attempts only: a
delivery that does not succeed at once gets its own `DeliveryWorkflow`, which the relay starts from
its row. So a batch has no signals and no timers.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError

from hookfast.deliveries import search_attributes
from hookfast.deliveries.batch_messages import (
    ATTEMPT,
    RECORD,
    WORKFLOW_TYPE,
    BatchInput,
    BatchResult,
    RecordBatchInput,
    short_name,
    summary,
)
from hookfast.deliveries.messages import RETRIES_QUEUE
from hookfast.deliveries.time_budget import HEARTBEAT, LOCAL_STEP, RECORD_ACTIVITY
from hookfast.workflow_input import NO_INPUT, InvalidInput, require

_ONCE = RetryPolicy(maximum_attempts=1)
_UNTIL_DONE = RetryPolicy(maximum_interval=timedelta(seconds=30))


@workflow.defn(name=WORKFLOW_TYPE, failure_exception_types=[InvalidInput])
class BatchWorkflow:
    """Makes the first attempts of its deliveries and of those that are added meanwhile. The result
    lists each delivery as delivered, continued or returned."""

    @workflow.run
    async def run(self, input: BatchInput = NO_INPUT) -> BatchResult:
        """Make the attempts, and record those that could not be recorded at once."""
        require(BatchInput, input)
        result = BatchResult(unrecorded=input.unrecorded)
        if not input.unrecorded:
            result = await self._attempt(input)
        if result.unrecorded:
            # These requests were made and only their records failed. They are in history now, so a
            # crash repeats the records and never the requests.
            await workflow.execute_activity(
                RECORD,
                RecordBatchInput(tuple(result.unrecorded)),
                task_queue=RETRIES_QUEUE,
                start_to_close_timeout=RECORD_ACTIVITY,
                heartbeat_timeout=HEARTBEAT,
                retry_policy=_UNTIL_DONE,
                summary=f"record {len(result.unrecorded)}",
            )
        workflow.set_current_details(result.summary)
        ids = [*result.delivered, *result.continued, *result.returned]
        if len(ids) > len(input.delivery_ids):  # some were added meanwhile
            names = [short_name(delivery_id) for delivery_id in ids]
            workflow.upsert_search_attributes([search_attributes.DELIVERIES.value_set(names)])
        return replace(result, unrecorded=())

    async def _attempt(self, input: BatchInput) -> BatchResult:
        try:
            result: BatchResult = await workflow.execute_local_activity(
                ATTEMPT,
                input,
                result_type=BatchResult,
                schedule_to_close_timeout=LOCAL_STEP,
                retry_policy=_ONCE,
            )
            return result
        except FailureError:
            # The activity failed. The rows belong to the batch until their leases end; then a relay
            # takes those that were not recorded.
            ids = input.delivery_ids
            line = summary(len(ids), delivered=0, continued=0, returned=len(ids))
            return BatchResult(line, returned=ids)
