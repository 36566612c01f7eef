"""The step of a delivery: load its row, ask circuit and limits, make the attempt, record it.

A receiver that fails is an outcome, not an activity error. An activity error means that Hookfast
could not work (the database or the egress proxy was away, or there was no memory for the body), and
Temporal tries again until it can.

What each ordering protects against:

- A permit (one of the endpoint's requests in flight) is taken before the request and given back
  with its record, or when the request is not made after all.
- Where only the record fails, the attempt goes to the workflow, which records it: a crash after
  that repeats the record and never the request.
- Where a worker is frozen during a request, Temporal has the step repeated, and its workflow awaits
  that one. The late record wakes the workflow (`storage.deliveries.lives`), which would sleep for
  hours if the repeated step had put the delivery on hold.

`activities.attempt` makes the request itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.attempt import AttemptContext, AttemptRunner, NoLongerDue
from activities.heartbeat import TimeLeft, heartbeat
from activities.waiting_room import WaitingRoom, postponed
from hookfast.byte_budget import NoRoom
from hookfast.clock import Clock, utc_now
from hookfast.deliveries.actions import names
from hookfast.deliveries.facts import AttemptEnded, AttemptPlan, Trigger, Undeliverable
from hookfast.deliveries.lane import DeadLetterPolicy, Place
from hookfast.deliveries.life import Life, Phase, next_step
from hookfast.deliveries.mapping import MappingFailed
from hookfast.deliveries.messages import (
    CANCELLED_IN_ITS_ROW,
    RECORD,
    STEP,
    RecordInput,
    StepInput,
    StepResult,
)
from hookfast.deliveries.outcome import DeliveryStatus, Outcome, Reason
from hookfast.deliveries.retry_plan import PlanSpec, parse_plan
from hookfast.deliveries.time_budget import is_for_fast_lane
from hookfast.deliveries.wording import reason_text
from hookfast.dispatch.pace import Pace
from hookfast.endpoints.circuit import Admission, admit
from hookfast.endpoints.limits import Granted
from hookfast.errors import NotFound, Unavailable
from hookfast.sender import EgressUnavailable
from hookfast.slots import Slots
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, admission, permits
from hookfast.storage.deliveries.admission import PROBE_MARGIN
from hookfast.storage.deliveries.bodies import AttemptRoom
from hookfast.storage.deliveries.life_rows import LifeChange
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder, Wakeup

_LEASE_MARGIN = timedelta(seconds=60)
"""If a worker dies, its permits are free again this long after the longest request: longer than the
database may take to record one."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _StepDone:
    """The delivery after a step, and the attempt that it made, if any."""

    life: Life
    ended: AttemptEnded | None = None


class DeliveryActivities:
    """The activities of `DeliveryWorkflow`. One per worker process."""

    def __init__(
        self,
        *,
        client: Client,
        database: Database,
        loader: OutgoingLoader,
        runner: AttemptRunner,
        recorder: Recorder,
        fast_lane: Slots,
        fast_lane_timeout: timedelta,
        held_backstop: timedelta,
        on_commit: Callable[[Wakeup], None],
        pace: Pace,
        dead_letters: DeadLetterPolicy = DeadLetterPolicy.CONTINUE,
        clock: Clock = utc_now,
    ) -> None:
        self._client = client
        self._database = database
        self._loader = loader
        self._runner = runner
        self._recorder = recorder
        self._fast_lane = fast_lane
        self._fast_lane_timeout = fast_lane_timeout
        self._waiting_room = WaitingRoom(runner)
        self._held_backstop = held_backstop
        self._on_commit = on_commit
        self._pace = pace
        self._dead_letters = dead_letters
        self._clock = clock

    @activity.defn(name=STEP)
    async def step(self, input: StepInput) -> StepResult:
        """Do what the delivery's row says: make the attempt that is due, or nothing."""
        if activity.info().is_local:
            self._pace.step_begins(input.delivery_id)
        # From the first line on: a worker that waits for the database is alive. A second try would
        # wait beside it and send the same when the database is back.
        async with heartbeat() as heartbeats:
            result = await self._step(input, TimeLeft(heartbeats))
            if result.status is DeliveryStatus.CANCELLED and not input.cancelled:
                await self._cancel_workflow()
            return result

    @activity.defn(name=RECORD)
    async def record_attempt(self, input: RecordInput) -> StepResult:
        """Record an attempt whose record failed. Its excerpt and evidence are lost, because
        bodies, URLs and headers do not enter workflow history."""
        record = AttemptRecord(delivery_id=input.delivery_id, ended=input.ended)
        async with heartbeat():
            try:
                change = await self._recorder.record(record)
            except NotFound as error:
                return _gone(input.delivery_id, error)
            result = self._result_of(change.after, input.ended.plan, after=input.ended)
            if result.status is DeliveryStatus.CANCELLED:
                await self._cancel_workflow()
            return result

    async def _step(self, input: StepInput, left: TimeLeft) -> StepResult:
        try:
            if input.signals is not None:
                async with self._database.write() as connection:
                    changed = await actions.apply_signals(
                        connection, input.delivery_id, input.signals, now=self._clock()
                    )
                if changed.locked.lane is not None:  # the next one may have moved up
                    self._on_commit(Wakeup.OUTBOX)
            while True:
                try:
                    return await self._read_and_attempt(input, left)
                except NoLongerDue:  # nothing was sent; read the row again
                    continue
        except NotFound as error:
            return _gone(input.delivery_id, error)
        except EgressUnavailable as error:
            # Temporal tries again after a while. Benign: it is counted and logged already, and not
            # once for every delivery that waits.
            raise ApplicationError(
                error.message,
                type=error.code,
                category=ApplicationErrorCategory.BENIGN,
            ) from None
        except NoRoom:
            raise postponed(activity.info().attempt) from None

    async def _read_and_attempt(self, input: StepInput, left: TimeLeft) -> StepResult:
        outgoing = await self._loader.load(input.delivery_id, plan=input.plan)
        now = _clock_of(input.now, self._clock)
        attempt = next_step(outgoing.life, now(), probe=outgoing.gate.probes(input.delivery_id))
        step: _StepDone | StepResult = _StepDone(outgoing.life)
        if isinstance(attempt, AttemptPlan):
            is_first_try = activity.info().attempt == 1  # later ones are late by design
            if attempt.trigger is Trigger.RETRY and input.due is not None and is_first_try:
                # both by Temporal's clock, which fired the timer; ours may differ
                self._pace.retry_began(activity.info().started_time - input.due)
            step = await self._attempt(AttemptContext(outgoing, attempt, now), left)
        if isinstance(step, StepResult):
            return step
        return self._result_of(step.life, outgoing.plan, after=step.ended)

    async def _attempt(self, planned: AttemptContext, left: TimeLeft) -> _StepDone | StepResult:
        """Make the attempt, unless the circuit or the fast lane says no."""
        if (change := await self._hold_if_needed(planned)) is not None:
            return _StepDone(change.after)
        if not activity.info().is_local:
            async with self._waiting_room.room(planned) as room:
                return await self._attempt_within_limits(planned, room, left)
        stored = planned.outgoing.stored_body
        with self._fast_lane.enter(planned.endpoint_id) as entered:
            # The endpoint's timeout may have been raised since the workflow chose the lane.
            if not entered or not left.fits(planned.time_needed):
                return StepResult(lane_full=True)
            if stored is not None and stored.is_large:
                return StepResult(lane_full=True)
            try:
                async with self._runner.room(planned) as room:
                    return await self._attempt_within_limits(planned, room, left)
            except NoRoom:
                return StepResult(lane_full=True)

    async def _hold_if_needed(self, planned: AttemptContext) -> LifeChange | None:
        """None if the attempt may be made; otherwise how the delivery was changed."""
        outgoing = planned.outgoing
        decision = admit(
            outgoing.gate,
            planned.delivery_id,
            attempt=planned.attempt,
            released=outgoing.life.released,
        )
        if decision is Admission.SEND:
            return None
        async with self._database.write() as connection:
            decided = await admission.decide(
                connection,
                planned.delivery_id,
                planned.endpoint_id,
                planned.attempt,
                backstop=self._held_backstop,
                probe_lease=timedelta(seconds=outgoing.endpoint.timeout_seconds) + PROBE_MARGIN,
                dead_letters=self._dead_letters,
                now=planned.now(),
            )
        if decided.admitted:
            return None
        if decided.change.died:
            self._on_commit(Wakeup.OUTBOX)
        return decided.change

    async def _attempt_within_limits(
        self, planned: AttemptContext, room: AttemptRoom, left: TimeLeft
    ) -> _StepDone | StepResult:
        """Make the attempt, or wait for a turn if the endpoint's limits require it."""
        endpoint = planned.outgoing.endpoint
        if endpoint.limits is not None:
            async with self._database.write() as connection:
                turn = await admission.take_turn(
                    connection,
                    planned.delivery_id,
                    planned.endpoint_id,
                    planned.attempt,
                    limits=endpoint.limits,
                    waited=planned.outgoing.life.waited,
                    lease=timedelta(seconds=endpoint.timeout_seconds) + _LEASE_MARGIN,
                    clock=planned.now,
                )
            if not isinstance(turn, Granted):
                return _StepDone(turn.after)
            await asyncio.sleep(max(0.0, (turn.at - planned.now()).total_seconds()))
        try:
            await self._runner.load(planned, room)
            if not left.fits(planned.time_needed):
                # The database took too long. Temporal would not wait for the record and would have
                # it sent a second time, so it is not sent now.
                raise Unavailable("There is too little time left for the request and its record.")
            made = await self._runner.send_and_record(planned, room, left)
        except (NoLongerDue, EgressUnavailable, NoRoom):
            await self._return_permit(planned)
            raise
        except MappingFailed as error:
            await self._return_permit(planned)
            return await self._give_up(planned, error.error)
        if made.change is None:
            return StepResult(unrecorded=made.ended)
        return _StepDone(made.change.after, made.ended)

    async def _give_up(self, planned: AttemptContext, error: str) -> _StepDone:
        """Make the delivery a dead letter, because its mapping makes no body."""
        async with self._database.write() as connection:
            change = await admission.give_up(
                connection,
                planned.delivery_id,
                planned.endpoint_id,
                Undeliverable(planned.attempt, Reason.MAPPING_FAILED, error),
                dead_letters=self._dead_letters,
                now=planned.now(),
            )
        if change.died:
            self._on_commit(Wakeup.OUTBOX)
        return _StepDone(change.after)

    async def _return_permit(self, planned: AttemptContext) -> None:
        if planned.outgoing.endpoint.limits is None:
            return
        unused = permits.EndedRequest(
            endpoint_id=planned.endpoint_id, delivery_id=planned.delivery_id
        )
        async with self._database.write() as connection:
            await permits.release(connection, [unused])

    def _result_of(self, life: Life, plan: PlanSpec, *, after: AttemptEnded | None) -> StepResult:
        """The result of a step that left the delivery in this state, after this attempt."""
        return StepResult(
            status=life.status,
            reason=None if life.reason is None else life.reason.value,
            attempts=life.attempts,
            retries=life.retries,
            next_at=life.next_attempt_at,
            held_since=life.waiting_since,
            waits_for=_waits_for(life, plan, None if after is None else after.outcome),
            last_error=life.last_error,
            fast_lane=after is not None
            and is_for_fast_lane(
                after.timeout_seconds,
                after.outcome.duration_ms,
                longest=self._fast_lane_timeout,
            ),
        )

    async def _cancel_workflow(self) -> None:
        """Cancel the workflow in Temporal, so that it ends as Canceled."""
        info = activity.info()
        if info.workflow_id is None:
            return
        handle = self._client.get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
        await handle.cancel(reason=CANCELLED_IN_ITS_ROW)


def _clock_of(workflow_now: datetime, clock: Clock) -> Clock:
    """A clock that is never behind the workflow's: a timer that has fired has fired, even if the
    server's clock is ahead of this machine's (or skips time, in a test)."""
    ahead = max(timedelta(0), workflow_now - clock())
    return lambda: clock() + ahead


def _gone(delivery_id: str, error: NotFound) -> StepResult:
    """The result for a delivery without a row, as after restoring an older database: nothing can be
    sent or recorded, now or later."""
    log.error("A delivery has no row; its workflow ends.", delivery_id=delivery_id)
    return StepResult(DeliveryStatus.DEAD, "not_found", last_error=error.message)


def _waits_for(life: Life, plan: PlanSpec, after: Outcome | None) -> str:
    """What the delivery waits for, in words: "retry 3 of 78, after 503"."""
    if life.phase.ended:
        return ""
    if life.place is Place.QUEUED:
        return "its turn: an earlier delivery of its lane is not done"
    if life.phase is Phase.PAUSED:
        return f"paused; send the signal {names(DeliveryStatus.PAUSED)}"
    if life.phase is Phase.HELD:
        return f"a check ({reason_text(life.reason or '')})"
    if life.resend is not None:
        return f"attempt {life.attempts + 1}: resend"
    if life.attempts == 0:
        what = "first attempt"
    else:
        what = f"retry {life.retries + 1} of {len(parse_plan(plan).delays)}"
    if life.phase is Phase.LIMITED:
        return f"{what}, when its endpoint's limits let it"
    return what if after is None else f"{what}, after {after.status_code or after.result.value}"
