"""An endpoint's outage: probe it on schedule, then release held deliveries on a ramp, or disable
it.

The circuit itself is a row. Attempts open, close and reopen it in the transactions that record
them. This workflow decides on times: when to probe, how fast to drain, when it has lasted too long.
It runs only while the circuit is not closed, so each run in the Temporal UI is one outage. The row
wins over this workflow: every activity returns the circuit's status.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any, assert_never

from temporalio import workflow
from temporalio.common import RetryPolicy

from hookfast.clock import format_duration
from hookfast.endpoints.circuit import RAMP_STEP, EndpointState, State, ramp_rate
from hookfast.endpoints.outage import (
    WORKFLOW_TYPE,
    CircuitInput,
    CircuitStatus,
    DrainInput,
    OutageProgress,
    OutageState,
)
from hookfast.plural import pluralize
from hookfast.workflow_input import NO_INPUT, InvalidInput, require

_UNTIL_DONE = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)
)
_QUICK = timedelta(seconds=30)
# A probe takes as long as its delivery's attempt: 30 s, and as long again for a worker's death.
_PROBE_TIMEOUT = timedelta(minutes=5)
_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
_STEP_MARGIN = timedelta(seconds=60)
# Resuming a paused endpoint wakes the workflow. In case that is lost, it checks by itself.
_PAUSED_CHECK = timedelta(hours=1)
_FLUSH_RATE = 200.0
"""Deliveries per second that a disabled endpoint releases: they become dead letters, unsent."""
_NOTIFY_AFTER = timedelta(minutes=5)
"""After draining this long without a failure, the owners are told that the endpoint recovered."""


@workflow.defn(name=WORKFLOW_TYPE, failure_exception_types=[InvalidInput])
class CircuitBreakerWorkflow:
    """One outage of one endpoint. Signal: `wake` (the row changed). Query: `state`."""

    @workflow.init
    def __init__(self, input: CircuitInput = NO_INPUT) -> None:
        if input is NO_INPUT:
            return  # `run` fails
        self._endpoint_id = input.endpoint_id
        self._woken = False
        self._status = CircuitStatus(State.OPEN, EndpointState.ENABLED)
        self._warned = self._notified = self._probed_late = False
        self._failing_since = input.progress.failing_since
        self._failing_from = workflow.now() - timedelta(seconds=input.progress.failing_seconds)
        self._drain_step = input.progress.drain_step
        self._drained_for = timedelta(seconds=input.progress.drain_seconds)

    @workflow.run
    async def run(self, input: CircuitInput = NO_INPUT) -> OutageState:
        """Probe and drain until the outage is over."""
        require(CircuitInput, input)
        await self._run("read_circuit", summary="read the circuit")
        while not await self._is_over():
            if self._status.endpoint_state is EndpointState.PAUSED:
                await self._wait(_PAUSED_CHECK, "paused by request; checks again by itself")
                await self._run("read_circuit", summary="read the circuit")
                continue
            match self._status.state:
                case State.OPEN | State.HALF_OPEN:
                    await self._wait_and_probe()
                case State.DRAINING:
                    await self._drain()
                case State.CLOSED:
                    pass
                case _:
                    assert_never(self._status.state)
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(CircuitInput(self._endpoint_id, self._progress()))
        return self.state()

    @workflow.signal
    def wake(self) -> None:
        """Read the circuit's row: it changed, or a probe was requested."""
        self._woken = True

    @workflow.query
    def state(self) -> OutageState:
        """The progress of the outage."""
        now = self._status
        return OutageState(
            now.state, now.episode, now.probes, now.held, now.drained, now.last_error
        )

    async def _is_over(self) -> bool:
        """Whether the circuit is closed, with no signal that it may have changed since."""
        while self._status.state is State.CLOSED:
            if not self._woken:
                return True
            await self._run("read_circuit", summary="read the circuit")
        return False

    # -- open ----------------------------------------------------------------------------------

    async def _wait_and_probe(self) -> None:
        self._drain_step, self._drained_for = 0, timedelta(0)
        limit = timedelta(seconds=self._status.disable_after_seconds)
        failing = workflow.now() - self._failing_from
        # Only after a failed probe: the time may have passed while the endpoint was paused, or
        # while Temporal was away.
        if failing >= limit and self._probed_late and not self._status.armed:
            await self._run(
                "disable_endpoint",
                summary=f"disable: {format_duration(limit)} without a success",
            )
            return
        if failing >= limit / 2 and not self._warned:
            self._warned = True
            await self._run("warn_owners", summary="mail: still failing")
        wait = timedelta(seconds=self._status.wait_seconds)
        if not self._status.armed:
            wait = min(wait, limit - failing)  # one last probe when the time is up
        number = self._status.probes + 1
        next_one = ": the next delivery" if self._status.armed else ""
        summary = f"probe {number}{next_one}"
        if await self._wait(wait, summary):
            await self._run("read_circuit", summary="read the circuit")
            return
        await self._run(
            "probe_endpoint",
            summary=f"probe {number}",
            timeout=_PROBE_TIMEOUT,
            heartbeat=_HEARTBEAT_TIMEOUT,
        )
        if workflow.now() - self._failing_from >= limit and self._status.probes >= number:
            self._probed_late = True

    # -- draining ------------------------------------------------------------------------------

    async def _drain(self) -> None:
        if self._status.endpoint_state is EndpointState.ENABLED:
            rate = ramp_rate(self._drain_step, self._status.rate_limit_per_second)
            summary = f"release {rate:g}/s"
        else:
            rate = _FLUSH_RATE
            summary = f"{self._status.endpoint_state}: held deliveries become dead letters"
        begun = workflow.now()
        self._drain_step += 1
        await self._run(
            "drain_step",
            DrainInput(self._endpoint_id, rate, RAMP_STEP.total_seconds()),
            summary=summary,
            timeout=RAMP_STEP + _STEP_MARGIN,
            heartbeat=_HEARTBEAT_TIMEOUT,
        )
        self._drained_for += workflow.now() - begun
        if self._drained_for >= _NOTIFY_AFTER and not self._notified:
            self._notified = True
            await self._run("notify_recovered", summary="mail: recovered")

    # -- common --------------------------------------------------------------------------------

    async def _wait(self, wait: timedelta, summary: str) -> bool:
        """Wait this long, or until the row changes. Return whether it did."""
        now = f"{workflow.now():%Y-%m-%d %H:%M:%S} UTC"
        self._show(f"next: {summary}, {format_duration(wait)} after {now}")
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._woken, timeout=max(wait, timedelta(0)), timeout_summary=summary
            )
        return self._woken

    async def _run(
        self,
        activity: str,
        argument: Any = None,
        *,
        summary: str,
        timeout: timedelta = _QUICK,
        heartbeat: timedelta | None = None,
    ) -> None:
        """Run an activity, and keep the circuit status that it returns."""
        # A change after this is seen by the activity, or sends another signal.
        self._woken = False
        self._show(f"now: {summary}")
        before = self._status.endpoint_state
        self._status = await workflow.execute_activity(
            activity,
            self._endpoint_id if argument is None else argument,
            result_type=CircuitStatus,
            start_to_close_timeout=timeout,
            heartbeat_timeout=heartbeat,
            retry_policy=_UNTIL_DONE,
            summary=summary,
        )
        if self._status.failing_since != self._failing_since:
            self._failing_since = self._status.failing_since
            self._failing_from = workflow.now() - timedelta(seconds=self._status.failing_seconds)
            self._warned = self._probed_late = False
        if self._status.endpoint_state != before:
            self._drain_step = 0
        self._show("")

    def _progress(self) -> OutageProgress:
        return OutageProgress(
            failing_since=self._failing_since,
            failing_seconds=(workflow.now() - self._failing_from).total_seconds(),
            drain_step=self._drain_step,
            drain_seconds=self._drained_for.total_seconds(),
        )

    def _show(self, what_next: str) -> None:
        """Set the text that the Temporal UI shows for this workflow."""
        now = self._status
        lines = [
            f"**{now.state.value}**, endpoint {now.endpoint_state}; "
            f"{pluralize(now.probes, 'failed probe')}, "
            f"{now.held} held, {now.drained} released",
            what_next,
            f"last error: {now.last_error}" if now.last_error else "",
        ]
        workflow.set_current_details("  \n".join(line for line in lines if line))
