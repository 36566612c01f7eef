"""The step of a delivery: load, admit, limit, send, record. Here it meets the network.

Customers' failures are outcomes, not activity errors: an activity error here means that *we* could
not work (no database), and Temporal tries again until we can.

What each order of things protects against:

- A place among the endpoint's requests in flight is taken before the request and given back with
  its record, or when it is not made after all.
- Where only the record fails, the attempt goes to the workflow, which records it: a crash after
  that repeats the record and never the request.

How the request itself is made is told in `requests`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from temporalio import activity
from temporalio.client import Client

from activities.fast_lane import FastLane
from activities.heartbeat import heartbeat
from activities.requests import NoLongerDue, Planned, Requests
from activities.step_report import report_of
from activities.time_left import TimeLeft
from hookfast.clock import Clock, utc_now
from hookfast.deliveries.life import Attempt, Life, Trigger, next_step
from hookfast.deliveries.messages import (
    CANCELLED_IN_ITS_ROW,
    RECORD,
    STEP,
    RecordInput,
    StepInput,
    StepResult,
)
from hookfast.deliveries.outcome import DeliveryStatus, Outcome
from hookfast.dispatch.lateness import Lateness
from hookfast.endpoints.circuit import Admission, admit
from hookfast.endpoints.limits import Go
from hookfast.errors import NotFound, Unavailable
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, admission, lives, permits
from hookfast.storage.deliveries.admission import PROBE_MARGIN
from hookfast.storage.deliveries.lives import Change
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import AttemptRecord, News, Recorder

_LEASE_MARGIN = timedelta(seconds=60)
"""A place among an endpoint's requests in flight is free again this long after the longest request,
should its worker die: longer than the database may take to record it."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Stands:
    """How the delivery stands after a step; `outcome` is that of the attempt it made."""

    life: Life
    outcome: Outcome | None = None


class AttemptActivities:
    """The activities of a delivery. One per worker process."""

    def __init__(
        self,
        *,
        client: Client,
        database: Database,
        loader: OutgoingLoader,
        requests: Requests,
        recorder: Recorder,
        fast_lane: FastLane,
        held_backstop: timedelta,
        on_news: Callable[[News], None],
        lateness: Lateness,
        clock: Clock = utc_now,
    ) -> None:
        self._client = client
        self._database = database
        self._loader = loader
        self._requests = requests
        self._recorder = recorder
        self._fast_lane = fast_lane
        self._held_backstop = held_backstop
        self._on_news = on_news
        self._lateness = lateness
        self._clock = clock

    @activity.defn(name=STEP)
    async def step(self, input: StepInput) -> StepResult:
        """Do what the delivery's row says: make the attempt that is due, or nothing."""
        # From the first line on: whoever waits for the database lives, and another try would wait
        # beside it, to send the same when the database goes on.
        async with heartbeat() as pulse:
            report = await self._step(input, TimeLeft(pulse))
            if report.status is DeliveryStatus.CANCELLED and not input.cancelled:
                await self._cancel_workflow()
            return report

    @activity.defn(name=RECORD)
    async def record_attempt(self, input: RecordInput) -> StepResult:
        """Record an attempt whose record failed. The excerpt of the answer is lost then: bodies do
        not enter workflow history."""
        record = AttemptRecord(delivery_id=input.delivery_id, ended=input.ended)
        async with heartbeat():
            try:
                change = await self._recorder.record(record)
            except NotFound as error:
                return _gone(input.delivery_id, error)
            report = report_of(change.after, input.ended.plan, after=input.ended.outcome)
            if report.status is DeliveryStatus.CANCELLED:
                await self._cancel_workflow()
            return report

    async def _step(self, input: StepInput, left: TimeLeft) -> StepResult:
        try:
            if input.signals is not None:
                async with self._database.write() as connection:
                    change = await actions.apply_signals(
                        connection, input.delivery_id, input.signals, now=self._clock()
                    )
                lives.count_ended([change])
            while True:
                try:
                    return await self._look_and_attempt(input, left)
                except NoLongerDue:  # look again; nothing was sent
                    continue
        except NotFound as error:
            return _gone(input.delivery_id, error)

    async def _look_and_attempt(self, input: StepInput, left: TimeLeft) -> StepResult:
        outgoing = await self._loader.load(input.delivery_id, plan=input.plan, fresh=input.fresh)
        now = _clock_of(input.now, self._clock)
        attempt = next_step(outgoing.life, now(), probe=outgoing.gate.probes(input.delivery_id))
        step: _Stands | StepResult = _Stands(outgoing.life)
        if isinstance(attempt, Attempt):
            if attempt.trigger is Trigger.RETRY and input.due is not None:
                self._lateness.note(now() - input.due)
            step = await self._attempt(Planned(outgoing, attempt, now), left)
        if isinstance(step, StepResult):
            return step
        return report_of(step.life, outgoing.plan, after=step.outcome)

    async def _attempt(self, planned: Planned, left: TimeLeft) -> _Stands | StepResult:
        """Make the attempt, unless there is a reason not to."""
        if (change := await self._admit(planned)) is not None:
            return _Stands(change.after)
        if not activity.info().is_local:
            return await self._attempt_within_limits(planned, left)
        with self._fast_lane.enter(planned.endpoint_id) as entered:
            # The endpoint's timeout may have been raised since the workflow chose the lane.
            if not entered or not left.fits(planned.time_needed):
                return StepResult(lane_full=True)
            return await self._attempt_within_limits(planned, left)

    async def _admit(self, planned: Planned) -> Change | None:
        """None where the attempt may be made; else what became of its delivery."""
        outgoing = planned.outgoing
        verdict = admit(
            outgoing.gate,
            planned.delivery_id,
            attempt=planned.attempt,
            released=outgoing.life.released,
        )
        if verdict is Admission.SEND:
            return None
        async with self._database.write() as connection:
            judged = await admission.judge(
                connection,
                planned.delivery_id,
                planned.endpoint_id,
                planned.attempt,
                backstop=self._held_backstop,
                probe_lease=timedelta(seconds=outgoing.target.timeout_seconds) + PROBE_MARGIN,
                now=planned.now(),
            )
        if judged.goes:
            return None
        lives.count_ended([judged.change])
        if judged.change.died:
            self._on_news(News.EVENTS)
        return judged.change

    async def _attempt_within_limits(
        self, planned: Planned, left: TimeLeft
    ) -> _Stands | StepResult:
        """Send it, unless the endpoint's limits say later: then no attempt is spent."""
        target = planned.outgoing.target
        if target.limits is not None:
            async with self._database.write() as connection:
                turn = await admission.take_turn(
                    connection,
                    planned.delivery_id,
                    planned.endpoint_id,
                    planned.attempt,
                    limits=target.limits,
                    waited=planned.outgoing.life.waited,
                    lease=timedelta(seconds=target.timeout_seconds) + _LEASE_MARGIN,
                    clock=planned.now,
                )
            if not isinstance(turn, Go):
                return _Stands(turn.after)
            await asyncio.sleep(max(0.0, (turn.at - planned.now()).total_seconds()))
        if not left.fits(planned.time_needed):
            # The database took too long. Temporal would not wait for the record, and have it sent
            # once more; so it is not sent now.
            raise Unavailable("There is too little time left for the request and its record.")
        try:
            made = await self._requests.send_and_record(planned, left)
        except NoLongerDue:
            await self._give_turn_back(planned)
            raise
        if made.change is None:
            return StepResult(unrecorded=made.ended)
        return _Stands(made.change.after, made.outcome)

    async def _give_turn_back(self, planned: Planned) -> None:
        if planned.outgoing.target.limits is None:
            return
        unused = permits.Ended(endpoint_id=planned.endpoint_id, delivery_id=planned.delivery_id)
        async with self._database.write() as connection:
            await permits.release(connection, [unused])

    async def _cancel_workflow(self) -> None:
        """Have Temporal know that the workflow is cancelled, so that it can end so."""
        info = activity.info()
        if info.workflow_id is None:
            return
        handle = self._client.get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
        await handle.cancel(reason=CANCELLED_IN_ITS_ROW)


def _clock_of(workflow_now: datetime, clock: Clock) -> Clock:
    """The time, not before the workflow's: a timer that has fired has fired, even where the
    server's clock is ahead of this machine's (or skips time, in a test)."""
    ahead = max(timedelta(0), workflow_now - clock())
    return lambda: clock() + ahead


def _gone(delivery_id: str, error: NotFound) -> StepResult:
    """Its rows are gone (a database restored from before the event): nothing can be sent and
    nothing recorded, now or later."""
    log.error("A delivery has no row; its workflow ends.", delivery_id=delivery_id)
    return StepResult(DeliveryStatus.DEAD, "not_found", last_error=error.message)
