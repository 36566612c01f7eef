"""The life of one delivery: attempt, wait, repeat; steered by signals, visible in every wait.

The workflow decides nothing about retries itself. The attempt activity applies the retry plan and
commits its decision with the attempt, so the stored row and this workflow cannot disagree; what is
left here is the waiting, which is what Temporal is for.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from temporalio import workflow
from temporalio.common import Priority
from temporalio.exceptions import FailureError, is_cancelled_exception

from hookfast.delivery import (
    RETRIES_QUEUE,
    WORKFLOW_TYPE,
    AttemptOrder,
    AttemptReport,
    DeliveryOrder,
    DeliveryState,
    ResendOrder,
    Trigger,
)
from hookfast.outcome import DeliveryStatus
from hookfast.retry_plan import Next, parse_plan
from workflows.delivery_standing import ONCE, RECORD_TIMEOUT, UNTIL_DONE, Standing
from workflows.delivery_waiting import Waiting
from workflows.undisturbed import undisturbed

_ATTEMPTS_PER_RUN = 24  # then continue as new: a run's history stays small enough to read
# A fast-lane attempt: 5 s for the request, the rest for the database before and after it.
_LOCAL_TIMEOUT = timedelta(seconds=30)
# Any other attempt: at most 30 s for the request. A worker that dies is noticed by its heartbeat.
_REGULAR_TIMEOUT = timedelta(seconds=75)
_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
# The start, its task, and the task's start. It is longer where a person started it by a signal, or
# where it begins anew, and what the fast lane did may be lost to it.
_HISTORY_OF_A_START = 3

_LAST_WORD = "the-last-word-wins"
"""Patch: before, `cancel` won over a `resend` that came after it."""

_STATUS_AFTER = {
    Next.DELIVERED: DeliveryStatus.DELIVERED,
    Next.GONE: DeliveryStatus.GONE,
    Next.DEAD: DeliveryStatus.DEAD,
}


@workflow.defn(name=WORKFLOW_TYPE)
class DeliveryWorkflow:
    """One (event, subscription) pair. Signals: `pause`, `resume`, `resend`, `cancel`, and `release`
    from the endpoint's circuit, in any order, at any time, any number of times. Query: `state`."""

    @workflow.init
    def __init__(self, order: DeliveryOrder) -> None:
        self._order = order
        self._now = order.progress
        self._attempts_this_run = 0
        if self._now.due_at is None and self._now.attempts == 0:
            self._now.due_at = order.deliver_at
        self._standing = Standing(
            order.delivery_id,
            self._now,
            retries_planned=len(parse_plan(order.plan).delays),
            cancel=self.cancel,
        )
        self._waiting = Waiting(self._now, self._standing)

    @workflow.run
    async def run(self, order: DeliveryOrder) -> DeliveryState:
        """Deliver, or end trying; the result is where the delivery stands."""
        while True:
            try:
                return await self._deliver()
            except (asyncio.CancelledError, FailureError) as error:
                # Temporal's own cancel button means what the signal means
                if not is_cancelled_exception(error):
                    raise
                self.cancel()

    async def _deliver(self) -> DeliveryState:
        while True:
            trigger = await self._waiting.until_due()
            if trigger is None:
                await self._end_cancelled()
                if not (self._now.resend and workflow.patched(_LAST_WORD)):
                    return self.state()
                self._now.begin_again()
                continue
            report = await self._attempt(trigger)
            if report.put_off_seconds is not None:
                until = workflow.now() + timedelta(seconds=report.put_off_seconds)
                self._waiting.put_off(trigger, until, held=report.held)
            elif report.next is Next.RETRY:
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
    def resend(self, order: ResendOrder | None = None) -> None:
        """Make one attempt now, paused or not, or as soon as the endpoint's limits let it. If it
        fails, the plan goes on as if it were not. After `cancel`: begin the plan anew."""
        self._now.resend = True
        self._now.resend_after = None
        self._now.gently = order is not None and order.gently

    @workflow.signal
    def release(self, probe: bool = False) -> None:
        """From the circuit: go if you are held. With `probe`, find out whether the endpoint is
        back; if it is not, stay held."""
        if probe:
            self._now.probe = True
        else:
            self._now.released = True

    @workflow.signal
    def ask_again(self) -> None:
        """From the API: your endpoint's limits were raised; ask them anew if you wait for them."""
        self._waiting.ask_again()

    @workflow.signal
    def cancel(self) -> None:
        """End the delivery without another attempt. One that is under way is made, and counts."""
        self._now.cancel = True
        self._now.paused = False
        self._now.resend_after = None
        if self._now.resend and workflow.patched(_LAST_WORD):
            self._now.resend = False

    @workflow.query
    def state(self) -> DeliveryState:
        """Where the delivery stands and when it goes next."""
        return self._standing.state()

    # -- attempting ---------------------------------------------------------------------------

    async def _attempt(self, trigger: Trigger) -> AttemptReport:
        """Make one attempt and see its record committed."""
        before = replace(self._now)
        first = self._now.first_attempt_at is None
        # A resend before the first attempt is the first attempt; later it is outside the plan, and
        # so it is while the plan's own attempt is put off, which a failure must leave as it was. A
        # probe always is: it asks about the endpoint, at whatever cost to this delivery's chances.
        meanwhile = trigger is Trigger.RESEND and self._now.put_off is not None
        outside = trigger is Trigger.PROBE or meanwhile
        if first and not outside:
            self._now.first_attempt_at = workflow.now()
        in_plan = not outside and (first or trigger is Trigger.RETRY)
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
            elapsed_seconds=self._now.elapsed(workflow.now()),
            released=self._now.released,
            waited=self._now.waited,
            gently=self._now.gently,
            fresh=workflow.info().get_current_history_length() <= _HISTORY_OF_A_START,
        )
        # Spent with this attempt; one that comes while it is under way counts for the next.
        self._now.released = self._now.waited = self._now.gently = False
        report = None
        if trigger is Trigger.FIRST and self._order.fast_lane:
            report = await self._attempt_in_fast_lane(order)
        if report is None:
            report = await self._attempt_in_regular_lane(order)
        if report.put_off_seconds is not None or report.refused:  # no request was made
            self._now.attempts = before.attempts
            self._now.retries = before.retries
            self._now.first_attempt_at = before.first_attempt_at
        if report.put_off_seconds is not None:
            # What let it go still does, once its turn comes.
            self._now.released |= before.released and not report.held
            if not self._now.resend:  # one that came meanwhile says itself how gently
                self._now.gently = before.gently
            return report
        if not report.recorded:
            await self._record(report)
        self._now.last_error = report.error
        return report

    async def _attempt_in_fast_lane(self, order: AttemptOrder) -> AttemptReport | None:
        """None when the fast lane is full for this endpoint, or we could not work there."""
        try:
            attempting = workflow.start_local_activity(
                "attempt",
                order,
                result_type=AttemptReport,
                start_to_close_timeout=_LOCAL_TIMEOUT,
                retry_policy=ONCE,
            )
            report: AttemptReport = await undisturbed(attempting, self.cancel)
        except FailureError as error:  # a local activity's own error comes unwrapped
            if is_cancelled_exception(error):
                raise
            return None
        return None if report.crowded else report

    async def _attempt_in_regular_lane(self, order: AttemptOrder) -> AttemptReport:
        self._standing.show(f"attempt {order.number} under way")
        attempting = workflow.start_activity(
            "attempt",
            order,
            result_type=AttemptReport,
            task_queue=RETRIES_QUEUE,
            start_to_close_timeout=_REGULAR_TIMEOUT,
            heartbeat_timeout=_HEARTBEAT_TIMEOUT,
            retry_policy=UNTIL_DONE,
            summary=self._attempt_summary(order),
            priority=Priority(fairness_key=self._order.endpoint_id),
        )
        report: AttemptReport = await undisturbed(attempting, self.cancel)
        return report

    def _attempt_summary(self, order: AttemptOrder) -> str:
        match order.trigger:
            case Trigger.RETRY:
                return self._standing.this_retry
            case Trigger.RESEND:
                return f"attempt {order.number}: resend"
            case Trigger.PROBE:
                return f"attempt {order.number}: probe"
            case _:
                return f"attempt {order.number}"

    async def _record(self, report: AttemptReport) -> None:
        # The request was made and only its record failed (the database was away). The report is in
        # history now, so from here on a crash repeats the record and never the request.
        recording = workflow.start_activity(
            "record_attempt",
            report,
            task_queue=RETRIES_QUEUE,
            start_to_close_timeout=RECORD_TIMEOUT,
            retry_policy=UNTIL_DONE,
            summary=f"record attempt {self._now.attempts}",
        )
        await undisturbed(recording, self.cancel)

    # -- what follows -------------------------------------------------------------------------

    def _schedule(self, report: AttemptReport) -> None:
        self._now.due_at = workflow.now() + timedelta(seconds=report.delay_seconds)
        self._standing.become(DeliveryStatus.RETRYING)

    def _finish(self, report: AttemptReport) -> None:
        assert report.next is not None  # noqa: S101 - the caller has looked
        if self._now.resend_after is not None and report.next is not Next.DEAD:
            self._now.resend = False  # another attempt did what it was asked for
        self._now.due_at = self._now.put_off = self._now.resend_after = None
        self._standing.become(_STATUS_AFTER[report.next])
        self._standing.show(report.reason or "")

    def _start_over(self) -> None:
        """Someone asked to send it again while it was ending: as if they had a moment later."""
        if self._now.cancel and workflow.patched(_LAST_WORD):  # that was before
            self._now.begin_again()
            return
        self._now.retries = 0
        self._now.first_attempt_at = None
        self._now.paused_seconds = 0.0

    async def _end_cancelled(self) -> None:
        self._now.due_at = self._now.put_off = None
        unheard = await self._standing.note(DeliveryStatus.CANCELLED, next_attempt_at=None)
        if unheard is not None:
            self._now.attempts = unheard.attempts
        self._standing.show("")
