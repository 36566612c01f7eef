"""The clock and the trace of one delivery: step, wait, step again, until its row has ended.

The row is the record. The step activity decides everything under the row's lock, so this workflow
holds no state that the row does not have, and its code rarely changes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import cast

from temporalio import workflow
from temporalio.common import (
    Priority,
    RetryPolicy,
    SearchAttributeUpdate,
)
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, FailureError

from hookfast.deliveries import search_attributes
from hookfast.deliveries.actions import ACTIONS, ActionSpec
from hookfast.deliveries.facts import Action
from hookfast.deliveries.messages import (
    CANCELLED_IN_ITS_ROW,
    RECORD,
    RETRIES_QUEUE,
    STEP,
    WORKFLOW_TYPE,
    DeliveryInput,
    DeliveryState,
    ReceivedSignals,
    RecordInput,
    StepInput,
    StepResult,
    Urgency,
)
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.deliveries.retry_plan import parse_plan
from hookfast.deliveries.time_budget import HEARTBEAT, LOCAL_STEP, RECORD_ACTIVITY, REGULAR_STEP
from hookfast.workflow_input import NO_INPUT, InvalidInput, require

_STEPS_PER_RUN = 24  # then continue as new: a run's history stays small enough to read
_UNTIL_DONE = RetryPolicy(maximum_interval=timedelta(seconds=30))
# A local step is tried once, then handed to the regular queue: while the database is away, retries
# in place would occupy a workflow task, grow the history and delay the worker's shutdown.
_ONCE = RetryPolicy(maximum_attempts=1)


def _signal_of(action: ActionSpec) -> Callable[..., None]:
    def receive(self: object) -> None:
        cast(DeliveryWorkflow, self)._signals.append(action.fact)

    return workflow.signal(name=action.name, description=action.effect)(receive)


def _with_action_signals(workflow_class: type[DeliveryWorkflow]) -> type[DeliveryWorkflow]:
    """Add a signal for each action, to be sent by hand from the Temporal UI or CLI."""
    for action in ACTIONS.values():
        setattr(workflow_class, action.name, _signal_of(action))
    return workflow_class


@workflow.defn(name=WORKFLOW_TYPE, failure_exception_types=[InvalidInput])
@_with_action_signals
class DeliveryWorkflow:
    """One (event, subscription) pair. Signals: the actions, `release` and `wake`, in any order, at
    any time, any number of times. Query: `state`."""

    @workflow.init
    def __init__(self, input: DeliveryInput = NO_INPUT) -> None:
        if input is NO_INPUT:
            return  # `run` fails
        self._input = input
        self._now = input.now
        self._shown = None if input.labels else input.now.status
        self._labels = input.labels
        self._retries_planned = len(parse_plan(input.plan).delays)
        self._woken = input.now.next_at is None
        self._urgency: int | None = None
        self._signals: list[Action] = []
        self._signals_passed = 0

    @workflow.run
    async def run(self, input: DeliveryInput = NO_INPUT) -> DeliveryState:
        """Step when the row or a signal says so, until the delivery has ended."""
        require(DeliveryInput, input)
        steps = 0
        while True:
            await self._wait()
            if self._is_due():
                await self._step()
                steps += 1
            if self._is_woken():
                continue
            if self._has_ended():
                return self._end()
            self._show()
            if steps >= _STEPS_PER_RUN:
                input = replace(input, now=self._now, labels=None)
                workflow.continue_as_new(input)

    # -- signals and query: they only record; the loop above acts ------------------------------

    @workflow.signal
    def wake(self, urgency: int = Urgency.RETRY) -> None:
        """Read the row: it has changed."""
        self._woken = True
        self._urgency = min(urgency, self._urgency or urgency)

    @workflow.signal
    def release(self, probe: bool = False) -> None:
        """Stop holding the delivery. With `probe`: check whether it is the circuit's probe."""
        self._woken = True
        if not probe:
            self._signals.append(Action.RELEASE)

    @workflow.query
    def state(self) -> DeliveryState:
        """The delivery after its last step."""
        return self._now.state(self._retries_planned)

    # -- waiting and stepping ------------------------------------------------------------------

    def _is_woken(self) -> bool:
        """Whether a signal has come that no step has processed."""
        return self._woken or self._signals_passed < len(self._signals)

    def _is_due(self) -> bool:
        next_at = self._now.next_at
        return self._is_woken() or (next_at is not None and next_at <= workflow.now())

    async def _wait(self) -> None:
        """Wait for the time that the row names, or for a signal."""
        next_at = self._now.next_at
        timeout = None if next_at is None else next_at - workflow.now()
        with contextlib.suppress(TimeoutError):
            try:
                if not self._is_due():
                    await workflow.wait_condition(
                        self._is_woken, timeout=timeout, timeout_summary=self._now.waits_for
                    )
            except asyncio.CancelledError:
                self._cancelled()

    def _cancelled(self) -> None:
        """Treat Temporal's cancellation as the signal `cancel`, unless our own step sent it."""
        if workflow.cancellation_reason() != CANCELLED_IN_ITS_ROW:
            self._signals.append(Action.CANCEL)

    async def _step(self) -> None:
        """Do what the row says now, and keep the result in `_now`."""
        signals = None
        if actions := tuple(self._signals[self._signals_passed :]):
            signals = ReceivedSignals(workflow.info().run_id, len(self._signals), actions)
        input = StepInput(
            self._input.delivery_id,
            self._input.plan,
            workflow.now(),
            due=None if self._is_woken() else self._now.next_at,
            cancelled=workflow.cancellation_reason() is not None,
            signals=signals,
        )
        urgency = self._urgency or (Urgency.RETRY if self._now.attempts else Urgency.FIRST)
        self._woken, self._urgency, self._signals_passed = False, None, len(self._signals)
        result = await self._local_step(input) if self._now.fast_lane else None
        if result is None or result.lane_full:
            result = await self._regular_step(
                STEP, input, REGULAR_STEP, urgency, self._now.waits_for
            )
        if (ended := result.unrecorded) is not None:
            # The request was made and only its record failed (the database was away). The attempt
            # is in history now, so a crash repeats the record and never the request.
            record = RecordInput(self._input.delivery_id, ended)
            summary = f"record attempt {ended.attempt.number}"
            result = await self._regular_step(
                RECORD, record, RECORD_ACTIVITY, Urgency.PERSON, summary
            )
        self._now = result

    async def _local_step(self, input: StepInput) -> StepResult | None:
        """Step in the fast lane. None if that failed."""
        stepping = workflow.start_local_activity(
            STEP,
            input,
            result_type=StepResult,
            schedule_to_close_timeout=LOCAL_STEP,
            retry_policy=_ONCE,
            summary=self._now.waits_for or None,
        )
        try:
            return await self._shielded(stepping)
        except FailureError:
            return None

    async def _regular_step(
        self,
        name: str,
        input: StepInput | RecordInput,
        timeout: timedelta,
        urgency: int,
        summary: str,
    ) -> StepResult:
        working = workflow.start_activity(
            name,
            input,
            result_type=StepResult,
            task_queue=RETRIES_QUEUE,
            start_to_close_timeout=timeout,
            heartbeat_timeout=HEARTBEAT,
            retry_policy=_UNTIL_DONE,
            summary=summary or None,
            priority=Priority(priority_key=urgency, fairness_key=self._input.endpoint_id),
        )
        return await self._shielded(working)

    async def _shielded(self, working: asyncio.Task[StepResult]) -> StepResult:
        """Wait for an activity even if the workflow is cancelled: its request cannot be undone, so
        its result must be kept."""
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            self._cancelled()
        return await working

    # -- what Temporal shows -------------------------------------------------------------------

    def _has_ended(self) -> bool:
        """Whether this run can end. A cancelled delivery first waits for Temporal's cancellation,
        which the step has requested, so that it ends as Canceled."""
        if self._now.status is DeliveryStatus.CANCELLED:
            return workflow.cancellation_reason() is not None
        return self._now.status.finished

    def _end(self) -> DeliveryState:
        now = self._now
        if now.status is DeliveryStatus.DELIVERED:
            return self.state()
        self._label(None)
        if now.status is DeliveryStatus.CANCELLED:
            raise asyncio.CancelledError
        raise ApplicationError(
            now.failure,
            type=now.status.value,
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,  # not the worker's fault
        )

    def _show(self) -> None:
        """Update the search attributes, and the text that the Temporal UI shows."""
        now = self._now
        self._label(None if now.status.finished else now.status)
        workflow.set_current_details(now.text(self._retries_planned))

    def _label(self, open_as: DeliveryStatus | None) -> None:
        """Set the search attributes that changed. A delivery that succeeds at once has none: it is
        found by its id only."""
        updates: list[SearchAttributeUpdate[str]] = []
        if labels := self._labels:
            self._labels = None
            updates += [
                search_attributes.TENANT.value_set(labels.tenant_id),
                search_attributes.ENDPOINT.value_set(self._input.endpoint_id),
                search_attributes.EVENT_TYPE.value_set(labels.event_type),
            ]
        if open_as is not None and open_as is not self._shown:
            self._shown = open_as
            updates.append(search_attributes.STATE.value_set(open_as.value))
        if updates:
            workflow.upsert_search_attributes(updates)
