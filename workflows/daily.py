"""The daily run: notify owners of the last 24 hours' dead letters."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from hookfast.retention.daily import WORKFLOW_TYPE, DailyInput, Summarised
from hookfast.workflow_input import NO_INPUT, InvalidInput, require

_UNTIL_DONE = RetryPolicy(
    initial_interval=timedelta(seconds=10), maximum_interval=timedelta(minutes=10)
)
_TIMEOUT = timedelta(hours=6)
_HEARTBEAT_TIMEOUT = timedelta(minutes=2)


@workflow.defn(name=WORKFLOW_TYPE, failure_exception_types=[InvalidInput])
class DailyWorkflow:
    """One day's run, started by a schedule (`hookfast.dispatch.schedules`)."""

    @workflow.run
    async def run(self, input: DailyInput = NO_INPUT) -> Summarised:
        """Add the notices."""
        require(DailyInput, input)
        workflow.set_current_details("counting the dead letters of the last 24 hours")
        summarised: Summarised = await workflow.execute_activity(
            "summarise_dead_letters",
            result_type=Summarised,
            start_to_close_timeout=_TIMEOUT,
            heartbeat_timeout=_HEARTBEAT_TIMEOUT,
            retry_policy=_UNTIL_DONE,
            summary="dead letters of the last 24 hours",
        )
        workflow.set_current_details(
            f"{summarised.endpoints} endpoints with dead letters, {summarised.notices} notices"
        )
        return summarised
