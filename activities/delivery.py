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
from contextlib import suppress
from datetime import datetime, timedelta

import structlog
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.attempt import AttemptRunner, NoLongerDue, time_needed
from activities.heartbeat import TimeLeft, heartbeat
from activities.waiting_room import WaitingRoom, postponed
from hookfast.byte_budget import NoRoom
from hookfast.clock import Clock, utc_now
from hookfast.deliveries.actions import names
from hookfast.deliveries.facts import AttemptEnded, AttemptPlan, Trigger, Undeliverable
from hookfast.deliveries.lane import DeadLetterPolicy, Place
from hookfast.deliveries.life import Life, Phase
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
from hookfast.endpoints.gate import Admission
from hookfast.endpoints.limits import Granted
from hookfast.errors import NotFound, Unavailable
from hookfast.sender import EgressUnavailable
from hookfast.slots import Slots
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, admission, permits
from hookfast.storage.deliveries.admission import PROBE_MARGIN
from hookfast.storage.deliveries.bodies import AttemptRoom
from hookfast.storage.deliveries.life_rows import LifeChange
from hookfast.storage.deliveries.outgoing import Outgoing, OutgoingLoader
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder, Wakeup

_LEASE_MARGIN = timedelta(seconds=60)
"""If a worker dies, its permits are free again this long after the longest request: longer than the
database may take to record one."""

log = structlog.get_logger()


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

    @activity.defn(name=STEP)
    async def step(self, input: StepInput) -> StepResult:
        """Do what the delivery's row says: make the attempt that is due, or nothing."""
        if activity.info().is_local:
            self._pace.step_begins(input.delivery_id)
        # From the first line on: a worker that waits for the database is alive. A second try would
        # wait beside it and send the same when the database is back.
        async with heartbeat() as heartbeats:
            now = _clock_of(input.now)
            result = await self._step(input, TimeLeft(heartbeats, now=now))
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

    async def _step(self, input: StepInput, lease: TimeLeft) -> StepResult:
        try:
            if input.signals is not None:
                async with self._database.write() as connection:
                    changed = await actions.apply_signals(
                        connection, input.delivery_id, input.signals, now=utc_now()
                    )
                if changed.locked.lane is not None:  # the next one may have moved up
                    self._on_commit(Wakeup.OUTBOX)
            while True:
                try:
                    return await self._read_and_attempt(input, lease)
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

    async def _read_and_attempt(self, input: StepInput, lease: TimeLeft) -> StepResult:
        outgoing = await self._loader.load(input.delivery_id, plan=input.plan)
        planned, decision = outgoing.due(lease.now())
        if planned is None:
            return self._result_of(outgoing.row.life, outgoing.plan)
        if decision is not Admission.SEND:
            change = await self._decide(outgoing, planned, lease)
            if change is not None:
                return self._result_of(change.after, outgoing.plan)
        return await self._attempt(input, outgoing, planned, lease)

    async def _decide(
        self, outgoing: Outgoing, planned: AttemptPlan, lease: TimeLeft
    ) -> LifeChange | None:
        """Decide on an attempt that the gate did not let pass, with its rows locked. None if it may
        be made; otherwise how its delivery was changed."""
        endpoint = outgoing.endpoint
        async with self._database.write() as connection:
            change = await admission.decide(
                connection,
                outgoing.delivery_id,
                endpoint.endpoint_id,
                planned,
                backstop=self._held_backstop,
                probe_lease=timedelta(seconds=endpoint.timeout_seconds) + PROBE_MARGIN,
                dead_letters=self._dead_letters,
                now=lease.now(),
            )
        if change is not None and change.died:
            self._on_commit(Wakeup.OUTBOX)
        return change

    async def _attempt(
        self, input: StepInput, outgoing: Outgoing, planned: AttemptPlan, lease: TimeLeft
    ) -> StepResult:
        """Make the attempt, unless the fast lane is full or the endpoint's limits postpone it."""
        if not activity.info().is_local:
            self._note_lateness(input, planned)
            async with self._waiting_room.room(outgoing) as room:
                return await self._attempt_within_limits(outgoing, planned, room, lease)
        stored = outgoing.stored_body
        with self._fast_lane.enter(outgoing.endpoint.endpoint_id) as entered:
            # The endpoint's timeout may have been raised since the workflow chose the lane.
            fits = lease.fits(time_needed(outgoing)) and not (stored and stored.is_large)
            if entered and fits:
                with suppress(NoRoom):
                    async with self._runner.room(outgoing) as room:
                        self._note_lateness(input, planned)
                        return await self._attempt_within_limits(outgoing, planned, room, lease)
        return StepResult(lane_full=True)

    def _note_lateness(self, input: StepInput, planned: AttemptPlan) -> None:
        """Note how late a retry begins, by Temporal's clock, which fired its timer; ours may
        differ."""
        info = activity.info()
        is_first_try = info.attempt == 1  # later ones are late by design
        if planned.trigger is Trigger.RETRY and input.due is not None and is_first_try:
            # the SDK gives a local activity the time of this machine
            began = input.now if info.is_local else info.started_time
            self._pace.retry_began(began - input.due)

    async def _attempt_within_limits(
        self, outgoing: Outgoing, planned: AttemptPlan, room: AttemptRoom, lease: TimeLeft
    ) -> StepResult:
        """Make the attempt, or wait for a turn if the endpoint's limits require it."""
        endpoint = outgoing.endpoint
        if endpoint.limits is not None:
            async with self._database.write() as connection:
                turn = await admission.take_turn(
                    connection,
                    outgoing.delivery_id,
                    endpoint.endpoint_id,
                    planned,
                    limits=endpoint.limits,
                    waited=outgoing.row.life.waited,
                    lease=timedelta(seconds=endpoint.timeout_seconds) + _LEASE_MARGIN,
                    clock=lease.now,
                )
            if not isinstance(turn, Granted):
                return self._result_of(turn.after, outgoing.plan)
            await asyncio.sleep(max(0.0, (turn.at - lease.now()).total_seconds()))
        try:
            await self._runner.load(outgoing, room)
            if not lease.fits(time_needed(outgoing)):
                # The database took too long. Temporal would not wait for the record and would have
                # it sent a second time, so it is not sent now.
                raise Unavailable("There is too little time left for the request and its record.")
            made = await self._runner.send_and_record(outgoing, planned, room, lease)
        except (NoLongerDue, EgressUnavailable, NoRoom):
            await self._return_permit(outgoing)
            raise
        except MappingFailed as error:
            await self._return_permit(outgoing)
            return await self._give_up(outgoing, planned, error.error, now=lease.now())
        if made.change is None:
            return StepResult(unrecorded=made.ended)
        return self._result_of(made.change.after, outgoing.plan, after=made.ended)

    async def _give_up(
        self, outgoing: Outgoing, planned: AttemptPlan, error: str, *, now: datetime
    ) -> StepResult:
        """Make the delivery a dead letter, because its mapping makes no body."""
        async with self._database.write() as connection:
            change = await admission.give_up(
                connection,
                outgoing.delivery_id,
                outgoing.endpoint.endpoint_id,
                Undeliverable(planned, Reason.MAPPING_FAILED, error),
                dead_letters=self._dead_letters,
                now=now,
            )
        if change.died:
            self._on_commit(Wakeup.OUTBOX)
        return self._result_of(change.after, outgoing.plan)

    async def _return_permit(self, outgoing: Outgoing) -> None:
        if outgoing.endpoint.limits is None:
            return
        unused = permits.EndedRequest(
            endpoint_id=outgoing.endpoint.endpoint_id, delivery_id=outgoing.delivery_id
        )
        async with self._database.write() as connection:
            await permits.release(connection, [unused])

    def _result_of(
        self, life: Life, plan: PlanSpec, *, after: AttemptEnded | None = None
    ) -> StepResult:
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


def _clock_of(workflow_now: datetime) -> Clock:
    """A clock that is never behind the workflow's: a timer that has fired has fired, even if the
    server's clock is ahead of this machine's (or skips time, in a test)."""
    ahead = max(timedelta(0), workflow_now - utc_now())
    return lambda: utc_now() + ahead


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
