"""The life of one delivery: attempt, wait, repeat; steered by signals, visible in every wait.

The workflow decides nothing about retries itself. The attempt activity applies the retry plan and
commits its decision with the attempt, so the stored row and this workflow cannot disagree; what is
left here is the waiting, which is what Temporal is for.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy, SearchAttributeKey
from temporalio.exceptions import FailureError, is_cancelled_exception

from hookfast.clock import rfc3339
from hookfast.delivery import (
    RETRIES_QUEUE,
    WORKFLOW_TYPE,
    AttemptOrder,
    AttemptReport,
    DeliveryOrder,
    DeliveryState,
    StatusNote,
    Trigger,
)
from hookfast.outcome import DeliveryStatus
from hookfast.retry_plan import Next, parse_plan

HOOK_STATE = SearchAttributeKey.for_keyword("HookState")

_ATTEMPTS_PER_RUN = 24  # then continue as new: a run's history stays small enough to read
_UNTIL_DONE = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)
)
# Local activities are tried once and then handed to the regular lane: while the database is away,
# a local retry would hold a workflow task, grow the history and keep a worker from shutting down.
_ONCE = RetryPolicy(maximum_attempts=1)
# A fast-lane attempt: 5 s for the request, the rest for the database before and after it.
_LOCAL_TIMEOUT = timedelta(seconds=30)
# Any other attempt: at most 30 s for the request. A worker that dies is noticed by its heartbeat.
_REGULAR_TIMEOUT = timedelta(seconds=75)
_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
_RECORD_TIMEOUT = timedelta(seconds=30)

_STATUS_AFTER = {
    Next.DELIVERED: DeliveryStatus.DELIVERED,
    Next.GONE: DeliveryStatus.GONE,
    Next.DEAD: DeliveryStatus.DEAD,
}


@workflow.defn(name=WORKFLOW_TYPE)
class DeliveryWorkflow:
    """One (event, subscription) pair. Signals: `pause`, `resume`, `resend`, `cancel`, in any order,
    at any time, any number of times. Query: `state`."""

    @workflow.init
    def __init__(self, order: DeliveryOrder) -> None:
        self._order = order
        self._plan = parse_plan(order.plan)
        self._now = order.progress
        self._attempts_this_run = 0
        if self._now.due_at is None and self._now.attempts == 0:
            self._now.due_at = order.deliver_at

    @workflow.run
    async def run(self, order: DeliveryOrder) -> DeliveryState:
        """Deliver, or end trying; the result is where the delivery stands."""
        try:
            return await self._deliver()
        except (asyncio.CancelledError, FailureError) as error:
            # Temporal's own cancel button means what the signal means
            if not is_cancelled_exception(error):
                raise
            return await self._cancel()

    async def _deliver(self) -> DeliveryState:
        while True:
            trigger = await self._wait_until_due()
            if trigger is None:
                return await self._cancel()
            report = await self._attempt(trigger)
            if report.next is Next.RETRY:
                self._schedule(report)
            elif report.next is not None:
                self._finish(report)
                if not self._now.resend:
                    return self.state()
                self._start_over()
            if self._attempts_this_run >= _ATTEMPTS_PER_RUN:
                workflow.continue_as_new(replace(self._order, progress=self._now))

    # -- signals and query: they only record; the loop above acts ------------------------------

    @workflow.signal
    def pause(self) -> None:
        """Make no attempts until `resume`. The paused time does not use up the retry plan."""
        self._now.paused = True

    @workflow.signal
    def resume(self) -> None:
        """Go on: at once if an attempt fell due meanwhile, else when it is due."""
        self._now.paused = False

    @workflow.signal
    def resend(self) -> None:
        """Make one attempt now, paused or not. If it fails, the plan goes on as if it were not."""
        self._now.resend = True

    @workflow.signal
    def cancel(self) -> None:
        """End the delivery without another attempt."""
        self._now.cancel = True

    @workflow.query
    def state(self) -> DeliveryState:
        """Where the delivery stands and when it goes next."""
        return DeliveryState(
            status=self._now.status,
            attempts=self._now.attempts,
            retries=self._now.retries,
            retries_planned=len(self._plan.delays),
            next_attempt_at=None if self._now.paused_at else self._now.due_at,
            last_error=self._now.last_error,
        )

    # -- waiting ------------------------------------------------------------------------------

    async def _wait_until_due(self) -> Trigger | None:
        """Wait for the next reason to attempt. None: a person cancelled."""
        while True:
            if self._now.cancel:
                return None
            if self._now.resend:
                self._now.resend = False
                return Trigger.RESEND
            if self._now.paused:
                await self._wait_paused()
                continue
            remaining = self._until_due()
            if remaining <= 0:
                return Trigger.RETRY if self._now.attempts else Trigger.FIRST
            await self._wait_for(remaining)

    async def _wait_for(self, seconds: float) -> None:
        self._show(f"next attempt {rfc3339(self._due)}")
        try:
            await workflow.wait_condition(
                lambda: self._now.cancel or self._now.resend or self._now.paused,
                timeout=seconds,
                timeout_summary=self._what_is_next(),
            )
        except TimeoutError:
            return

    async def _wait_paused(self) -> None:
        if self._now.paused_at is None:
            self._now.paused_at = workflow.now()
        if self._now.status is not DeliveryStatus.PAUSED:
            await self._note(DeliveryStatus.PAUSED, next_attempt_at=None)
        self._show("paused; send the signal `resume`, `resend` or `cancel`")
        await workflow.wait_condition(
            lambda: self._now.cancel or self._now.resend or not self._now.paused
        )
        if not self._now.paused and not self._now.cancel:
            self._now.paused_seconds += (workflow.now() - self._now.paused_at).total_seconds()
            self._now.paused_at = None
            waiting = DeliveryStatus.RETRYING if self._now.attempts else DeliveryStatus.PENDING
            await self._note(waiting, next_attempt_at=self._due)

    def _until_due(self) -> float:
        if self._now.due_at is None:
            return 0
        return (self._now.due_at - workflow.now()).total_seconds()

    @property
    def _due(self) -> datetime:
        return self._now.due_at or workflow.now()

    def _what_is_next(self) -> str:
        if self._now.attempts == 0:
            return "scheduled"
        return f"retry {self._now.retries + 1} of {len(self._plan.delays)}"

    # -- attempting ---------------------------------------------------------------------------

    async def _attempt(self, trigger: Trigger) -> AttemptReport:
        """Make one attempt and see its record committed."""
        first = self._now.first_attempt_at is None
        if first:
            self._now.first_attempt_at = workflow.now()
        # A resend before the first attempt is the first attempt; later it is outside the plan.
        in_plan = first or trigger is Trigger.RETRY
        if trigger is Trigger.RETRY and not first:
            self._now.retries += 1
        self._now.attempts += 1
        self._attempts_this_run += 1
        order = AttemptOrder(
            delivery_id=self._order.delivery_id,
            number=self._now.attempts,
            trigger=trigger,
            plan=self._order.plan,
            in_plan=in_plan,
            retries_used=self._now.retries,
            elapsed_seconds=self._elapsed(),
        )
        report = None
        if trigger is Trigger.FIRST and self._order.fast_lane:
            report = await self._attempt_in_fast_lane(order)
        if report is None:
            report = await self._attempt_in_regular_lane(order)
        if not report.recorded:
            await self._record(report)
        self._now.last_error = report.error
        return report

    async def _attempt_in_fast_lane(self, order: AttemptOrder) -> AttemptReport | None:
        """None when the fast lane is full for this endpoint, or we could not work there."""
        try:
            report: AttemptReport = await workflow.execute_local_activity(
                "attempt",
                order,
                result_type=AttemptReport,
                start_to_close_timeout=_LOCAL_TIMEOUT,
                retry_policy=_ONCE,
            )
        except FailureError as error:  # a local activity's own error comes unwrapped
            if is_cancelled_exception(error):
                raise
            return None
        return None if report.crowded else report

    async def _attempt_in_regular_lane(self, order: AttemptOrder) -> AttemptReport:
        self._show(f"attempt {order.number} under way")
        report: AttemptReport = await workflow.execute_activity(
            "attempt",
            order,
            result_type=AttemptReport,
            task_queue=RETRIES_QUEUE,
            start_to_close_timeout=_REGULAR_TIMEOUT,
            heartbeat_timeout=_HEARTBEAT_TIMEOUT,
            retry_policy=_UNTIL_DONE,
            summary=self._attempt_summary(order),
            priority=Priority(fairness_key=self._order.endpoint_id),
        )
        return report

    def _attempt_summary(self, order: AttemptOrder) -> str:
        match order.trigger:
            case Trigger.RETRY:
                return f"retry {self._now.retries} of {len(self._plan.delays)}"
            case Trigger.RESEND:
                return f"attempt {order.number}: resend"
            case _:
                return f"attempt {order.number}"

    async def _record(self, report: AttemptReport) -> None:
        # The request was made and only its record failed (the database was away). The report is in
        # history now, so from here on a crash repeats the record and never the request.
        await workflow.execute_activity(
            "record_attempt",
            report,
            task_queue=RETRIES_QUEUE,
            start_to_close_timeout=_RECORD_TIMEOUT,
            retry_policy=_UNTIL_DONE,
            summary=f"record attempt {self._now.attempts}",
        )

    def _elapsed(self) -> float:
        if self._now.first_attempt_at is None:
            return 0
        total = (workflow.now() - self._now.first_attempt_at).total_seconds()
        return total - self._now.paused_seconds

    # -- what follows -------------------------------------------------------------------------

    def _schedule(self, report: AttemptReport) -> None:
        self._now.due_at = workflow.now() + timedelta(seconds=report.delay_seconds)
        self._become(DeliveryStatus.RETRYING)

    def _finish(self, report: AttemptReport) -> None:
        assert report.next is not None  # noqa: S101 - the caller has looked
        self._now.due_at = None
        self._become(_STATUS_AFTER[report.next])
        self._show(report.reason or "")

    def _start_over(self) -> None:
        """Someone asked to send it again while it was ending: as if they had a moment later."""
        self._now.retries = 0
        self._now.first_attempt_at = None
        self._now.paused_seconds = 0.0

    async def _cancel(self) -> DeliveryState:
        self._now.due_at = None
        await self._note(DeliveryStatus.CANCELLED, next_attempt_at=None)
        self._show("")
        return self.state()

    async def _note(self, status: DeliveryStatus, *, next_attempt_at: datetime | None) -> None:
        """Write a status that no attempt writes."""
        self._become(status)
        note = StatusNote(self._order.delivery_id, status, next_attempt_at)
        try:
            await workflow.execute_local_activity(
                "note_status",
                note,
                start_to_close_timeout=_RECORD_TIMEOUT,
                retry_policy=_ONCE,
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            await workflow.execute_activity(
                "note_status",
                note,
                task_queue=RETRIES_QUEUE,
                start_to_close_timeout=_RECORD_TIMEOUT,
                retry_policy=_UNTIL_DONE,
                summary=f"note that it is {status.value}",
            )

    def _become(self, status: DeliveryStatus) -> None:
        if status is not self._now.status:
            self._now.status = status
            workflow.upsert_search_attributes([HOOK_STATE.value_set(status.value)])

    def _show(self, what_next: str) -> None:
        """The text the Temporal UI shows for this workflow."""
        lines = [
            f"**{self._now.status.value}** after {self._now.attempts} attempts"
            f" ({self._now.retries} of {len(self._plan.delays)} retries)",
            what_next,
            f"last error: {self._now.last_error}" if self._now.last_error else "",
        ]
        workflow.set_current_details("  \n".join(line for line in lines if line))
