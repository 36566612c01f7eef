"""One job: run its activity again and again until the job has ended. Each run works for half a
minute from where the job's row says it is; this workflow shows the progress and restarts it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError, is_cancelled_exception

from hookfast.deliveries.job import JOB_WORKFLOW, JobInput, JobProgress
from hookfast.workflow_input import NO_INPUT, InvalidInput, require

# A run takes half a minute, and a little longer while Temporal or the database is away.
_WORK_TIMEOUT = timedelta(minutes=3)
_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
_RECORD_TIMEOUT = timedelta(seconds=30)
_UNTIL_DONE = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)
)


@workflow.defn(name=JOB_WORKFLOW, failure_exception_types=[InvalidInput])
class JobWorkflow:
    """One action on many deliveries. Signals: `cancel`, and `wake`, which needs no reaction because
    the running activity reads the row itself. Query: `state`."""

    @workflow.init
    def __init__(self, input: JobInput = NO_INPUT) -> None:
        if input is NO_INPUT:
            return  # `run` fails
        self._input = input
        self._now = input.progress
        self._cancel = False
        self._cancel_requested = False

    @workflow.run
    async def run(self, input: JobInput = NO_INPUT) -> JobProgress:
        """Work until the job has ended, and return its final progress."""
        require(JobInput, input)
        while True:
            self._show()
            self._now = await self._work()
            if self._now.status.finished:
                self._show()
                return self._now
            if workflow.info().is_continue_as_new_suggested() and not self._must_cancel():
                workflow.continue_as_new(replace(self._input, progress=self._now))

    # -- signals and query: they only record; the work below acts ------------------------------

    @workflow.signal
    def cancel(self) -> None:
        """Stop after the deliveries under way. What has been done stays done."""
        self._cancel = True

    @workflow.signal
    def wake(self) -> None:
        """Do nothing: the running activity reads the row itself."""

    @workflow.query
    def state(self) -> JobProgress:
        """The progress after the last run of the activity; the row is ahead of it."""
        return self._now

    # -- working ------------------------------------------------------------------------------

    async def _work(self) -> JobProgress:
        """Run the activity once. A request to cancel is written to the row, where it is found."""
        working = workflow.start_activity(
            "work_on_job",
            self._input,
            result_type=JobProgress,
            start_to_close_timeout=_WORK_TIMEOUT,
            heartbeat_timeout=_HEARTBEAT_TIMEOUT,
            retry_policy=_UNTIL_DONE,
            summary=f"{self._now.handled:,} of {self._now.total:,}",
        )
        while not working.done():
            try:
                await workflow.wait_condition(lambda: working.done() or self._must_cancel())
                if self._must_cancel():
                    await self._request_cancel()
            except (asyncio.CancelledError, FailureError) as error:
                # Temporal's own cancel button is treated as the signal
                if not is_cancelled_exception(error):
                    raise
                self._cancel = True
        progress: JobProgress = await working
        return progress

    def _must_cancel(self) -> bool:
        return self._cancel and not self._cancel_requested

    async def _request_cancel(self) -> None:
        await workflow.execute_activity(
            "cancel_job",
            self._input,
            start_to_close_timeout=_RECORD_TIMEOUT,
            retry_policy=_UNTIL_DONE,
            summary="cancel",
        )
        self._cancel_requested = True

    def _show(self) -> None:
        """Set the text that the Temporal UI shows for this workflow."""
        now = self._now
        workflow.set_current_details(
            f"**{now.status.value}**: {self._input.action} {now.handled:,} of {now.total:,}  \n"
            f"{now.done:,} done, {now.skipped:,} skipped, {now.failed:,} failed"
        )
