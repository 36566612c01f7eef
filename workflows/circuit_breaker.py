"""An endpoint's outage: probe it on schedule, then let what was held go on a ramp, or give it up.

The circuit itself is a row. Attempts open it, close it and reopen it in the transactions that
record them; this workflow supplies the time: when to probe, how fast to drain, when it has lasted
too long. It lives only while the circuit is not closed, so each run in the Temporal UI is one
outage. Where the row and this workflow could disagree, the row wins: every activity answers with
how things stand.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any, assert_never

from temporalio import workflow
from temporalio.common import RetryPolicy

from hookfast.duration import format_duration
from hookfast.endpoints.circuit import RAMP_STEP, EndpointState, State, ramp_rate
from hookfast.endpoints.outage import (
    WORKFLOW_TYPE,
    CircuitInput,
    CircuitStatus,
    DrainInput,
    OutageProgress,
    OutageState,
)

_UNTIL_DONE = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)
)
_QUICK = timedelta(seconds=30)
# A probe takes as long as its delivery's attempt: 30 s, and as long again for a worker's death.
_PROBE_TIMEOUT = timedelta(minutes=5)
_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
_STEP_MARGIN = timedelta(seconds=60)
# A paused endpoint's resuming wakes the workflow; should that be lost, it looks by itself.
_PAUSED_LOOK = timedelta(hours=1)
_FLUSH_RATE = 200.0
"""Deliveries a second that are let go of a disabled endpoint: none of them is sent."""
_TELL_AFTER = timedelta(minutes=5)
"""A drain that has lasted this long without failing is told of as a recovery before it ends."""


@workflow.defn(name=WORKFLOW_TYPE)
class CircuitBreakerWorkflow:
    """One outage of one endpoint. Signal: `wake` (the row changed). Query: `state`."""

    @workflow.init
    def __init__(self, input: CircuitInput) -> None:
        self._endpoint_id = input.endpoint_id
        self._look = False
        self._now = CircuitStatus(State.OPEN, EndpointState.ENABLED)
        self._warned = self._told = self._probed_late = False
        self._failing_since = input.progress.failing_since
        self._failing_from = workflow.now() - timedelta(seconds=input.progress.failing_seconds)
        self._drain_step = input.progress.drain_step
        self._drained_for = timedelta(seconds=input.progress.drain_seconds)

    @workflow.run
    async def run(self, input: CircuitInput) -> OutageState:
        """Conduct the episode to its end."""
        await self._do("look_at_circuit", summary="how the circuit stands")
        while not await self._is_over():
            if self._now.endpoint_state is EndpointState.PAUSED:
                await self._wait(_PAUSED_LOOK, "paused by request; looks again by itself")
                await self._do("look_at_circuit", summary="how the circuit stands")
                continue
            match self._now.state:
                case State.OPEN | State.HALF_OPEN:
                    await self._wait_and_probe()
                case State.DRAINING:
                    await self._drain()
                case State.CLOSED:
                    pass
                case _:
                    assert_never(self._now.state)
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(CircuitInput(self._endpoint_id, self._progress()))
        return self.state()

    @workflow.signal
    def wake(self) -> None:
        """The circuit's row changed, or somebody wants it probed now."""
        self._look = True

    @workflow.query
    def state(self) -> OutageState:
        """How the episode stands."""
        now = self._now
        return OutageState(
            now.state, now.episode, now.probes, now.held, now.drained, now.last_error
        )

    async def _is_over(self) -> bool:
        """Whether the circuit is closed, and nothing was said to the contrary since."""
        while self._now.state is State.CLOSED:
            if not self._look:
                return True
            await self._do("look_at_circuit", summary="how the circuit stands")
        return False

    # -- open ----------------------------------------------------------------------------------

    async def _wait_and_probe(self) -> None:
        self._drain_step, self._drained_for = 0, timedelta(0)
        limit = timedelta(seconds=self._now.disable_after_seconds)
        failing = workflow.now() - self._failing_from
        # Not before a probe has failed since: the time may have passed while the endpoint was
        # paused, or while Temporal was away.
        if failing >= limit and self._probed_late and not self._now.armed:
            await self._do(
                "give_up", summary=f"disable after {format_duration(limit)} without a success"
            )
            return
        if failing >= limit / 2 and not self._warned:
            self._warned = True
            await self._do("warn_owners", summary="mail: still failing")
        wait = timedelta(seconds=self._now.wait_seconds)
        if not self._now.armed:
            wait = min(wait, limit - failing)  # one last probe when its time is up
        number = self._now.probes + 1
        if self._now.armed:
            summary = f"probe {number}: the next delivery that comes"
        else:
            summary = f"probe {number}"
        if await self._wait(wait, summary):
            await self._do("look_at_circuit", summary="how the circuit stands")
            return
        await self._do(
            "probe_endpoint",
            summary=f"probe {number}",
            timeout=_PROBE_TIMEOUT,
            heartbeat=_HEARTBEAT_TIMEOUT,
        )
        if workflow.now() - self._failing_from >= limit and self._now.probes >= number:
            self._probed_late = True

    # -- draining ------------------------------------------------------------------------------

    async def _drain(self) -> None:
        if self._now.endpoint_state is EndpointState.ENABLED:
            rate = ramp_rate(self._drain_step, self._now.rate_limit_per_second)
            summary = f"let {rate:g}/s go"
        else:
            rate = _FLUSH_RATE
            summary = f"{self._now.endpoint_state}: what was held becomes dead letters"
        begun = workflow.now()
        self._drain_step += 1
        await self._do(
            "drain_step",
            DrainInput(self._endpoint_id, rate, RAMP_STEP.total_seconds()),
            summary=summary,
            timeout=RAMP_STEP + _STEP_MARGIN,
            heartbeat=_HEARTBEAT_TIMEOUT,
        )
        self._drained_for += workflow.now() - begun
        if self._drained_for >= _TELL_AFTER and not self._told:
            self._told = True
            await self._do("tell_recovered", summary="mail: recovered")

    # -- common --------------------------------------------------------------------------------

    async def _wait(self, wait: timedelta, summary: str) -> bool:
        """Wait, unless the row changes; whether it did."""
        now = f"{workflow.now():%Y-%m-%d %H:%M:%S} UTC"
        self._show(f"next: {summary}, {format_duration(wait)} after {now}")
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._look, timeout=max(wait, timedelta(0)), timeout_summary=summary
            )
        return self._look

    async def _do(
        self,
        activity: str,
        argument: Any = None,
        *,
        summary: str,
        timeout: timedelta = _QUICK,
        heartbeat: timedelta | None = None,
    ) -> None:
        """Run an activity; how things stand after it."""
        # What changes from here on is seen by the activity, or asks again.
        self._look = False
        before = self._now.endpoint_state
        self._now = await workflow.execute_activity(
            activity,
            self._endpoint_id if argument is None else argument,
            result_type=CircuitStatus,
            start_to_close_timeout=timeout,
            heartbeat_timeout=heartbeat,
            retry_policy=_UNTIL_DONE,
            summary=summary,
        )
        if self._now.failing_since != self._failing_since:
            self._failing_since = self._now.failing_since
            self._failing_from = workflow.now() - timedelta(seconds=self._now.failing_seconds)
            self._warned = self._probed_late = False
        if self._now.endpoint_state != before:
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
        """The text the Temporal UI shows for this workflow."""
        now = self._now
        lines = [
            f"**{now.state.value}**, endpoint {now.endpoint_state}; {now.probes} failed probes, "
            f"{now.held} held, {now.drained} let go",
            what_next,
            f"last error: {now.last_error}" if now.last_error else "",
        ]
        workflow.set_current_details("  \n".join(line for line in lines if line))
