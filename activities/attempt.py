"""The step of a delivery: load, admit, limit, send, record. Here it meets the network.

Customers' failures are outcomes, not activity errors: an activity error here means that *we* could
not work (no database), and Temporal tries again until we can.

What each order of things protects against:

- Life and gate are read before the request, and once more where that was a while ago: a worker that
  was frozen in between does not send what was cancelled, held or sent by another meanwhile.
- The attempt is recorded after the request. A crash in between repeats the request, with the same
  message id and number; nothing but the receiver knows of the first.
- Where only the record fails, the attempt goes to the workflow, which records it: a crash after
  that repeats the record and never the request.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError
from temporalio import activity
from temporalio.client import Client

from activities.fast_lane import FastLane
from activities.heartbeat import heartbeat
from activities.observed_attempt import observed_attempt
from activities.step_report import report_of
from activities.time_left import TimeLeft
from hookfast.circuit import Admission, admit
from hookfast.clock import Clock, utc_now
from hookfast.deliveries.life import Attempt, AttemptEnded, Life, Trigger, next_step
from hookfast.delivery import (
    CANCELLED_IN_ITS_ROW,
    RECORD,
    STEP,
    RecordOrder,
    StepOrder,
    StepReport,
)
from hookfast.envelope import thin_body
from hookfast.errors import NotFound, Unavailable
from hookfast.ids import new_id
from hookfast.lateness import Lateness
from hookfast.outcome import DeliveryStatus, Outcome
from hookfast.outgoing_request import outgoing_request
from hookfast.pace import Go
from hookfast.request_headers import JSON
from hookfast.sender import Sender
from hookfast.storage import admission, lives, pace, wishes
from hookfast.storage.admission import PROBE_MARGIN
from hookfast.storage.engine import Database
from hookfast.storage.lives import Change
from hookfast.storage.outgoing import Outgoing, OutgoingLoader
from hookfast.storage.recorder import AttemptRecord, News, Recorder
from hookfast.telemetry import spans
from hookfast.time_budget import RECORD_SHARE

_LEASE_MARGIN = timedelta(seconds=60)
"""A place among an endpoint's requests in flight is free again this long after the longest request,
should its worker die: longer than the database may take to record it."""

log = structlog.get_logger()


class _NotWanted(Exception):
    """The delivery or its endpoint has changed: the request that was about to begin does not."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """An attempt that is about to be made. `now` tells the time as the workflow sees it."""

    outgoing: Outgoing
    attempt: Attempt
    now: Clock

    @property
    def delivery_id(self) -> str:
        return self.outgoing.delivery_id

    @property
    def endpoint_id(self) -> str:
        return self.outgoing.target.endpoint_id

    @property
    def time_needed(self) -> float:
        """Seconds that the request and its record take at most."""
        return self.outgoing.target.timeout_seconds + RECORD_SHARE.total_seconds()


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
        sender: Sender,
        recorder: Recorder,
        public_url: str,
        fast_lane_per_endpoint: int,
        held_backstop: timedelta,
        on_news: Callable[[News], None],
        lateness: Lateness,
        clock: Clock = utc_now,
    ) -> None:
        self._client = client
        self._database = database
        self._loader = loader
        self._sender = sender
        self._recorder = recorder
        self._public_url = public_url
        self._fast_lane = FastLane(fast_lane_per_endpoint)
        self._held_backstop = held_backstop
        self._on_news = on_news
        self._lateness = lateness
        self._clock = clock

    @activity.defn(name=STEP)
    async def step(self, order: StepOrder) -> StepReport:
        """Do what the delivery's row says: make the attempt that is due, or nothing."""
        # From the first line on: whoever waits for the database lives, and another try would wait
        # beside it, to send the same when the database goes on.
        async with heartbeat() as pulse:
            report = await self._step(order, TimeLeft(pulse))
            if report.status is DeliveryStatus.CANCELLED and not order.cancelled:
                await self._cancel_workflow()
            return report

    @activity.defn(name=RECORD)
    async def record_attempt(self, order: RecordOrder) -> StepReport:
        """Record an attempt whose record failed. The excerpt of the answer is lost then: bodies do
        not enter workflow history."""
        record = AttemptRecord(delivery_id=order.delivery_id, ended=order.ended)
        async with heartbeat():
            try:
                change = await self._recorder.record(record)
            except NotFound as error:
                return _gone(order.delivery_id, error)
            report = report_of(change.after, order.ended.plan, after=order.ended.outcome)
            if report.status is DeliveryStatus.CANCELLED:
                await self._cancel_workflow()
            return report

    async def _step(self, order: StepOrder, left: TimeLeft) -> StepReport:
        try:
            if order.heard is not None:
                async with self._database.write() as connection:
                    heard = await wishes.hear(
                        connection, order.delivery_id, order.heard, now=self._clock()
                    )
                lives.count_ended([heard])
            while True:
                try:
                    return await self._look_and_attempt(order, left)
                except _NotWanted:  # look again; nothing was sent
                    continue
        except NotFound as error:
            return _gone(order.delivery_id, error)

    async def _look_and_attempt(self, order: StepOrder, left: TimeLeft) -> StepReport:
        outgoing = await self._loader.load(order.delivery_id, plan=order.plan, fresh=order.fresh)
        now = _clock_of(order.now, self._clock)
        attempt = next_step(outgoing.life, now(), probe=outgoing.gate.probes(order.delivery_id))
        step: _Stands | StepReport = _Stands(outgoing.life)
        if isinstance(attempt, Attempt):
            if attempt.trigger is Trigger.RETRY and order.due is not None:
                self._lateness.note(now() - order.due)
            step = await self._attempt(_Planned(outgoing, attempt, now), left)
        if isinstance(step, StepReport):
            return step
        return report_of(step.life, outgoing.plan, after=step.outcome)

    async def _attempt(self, planned: _Planned, left: TimeLeft) -> _Stands | StepReport:
        """Make the attempt, unless there is a reason not to."""
        if (change := await self._admit(planned)) is not None:
            return _Stands(change.after)
        if not activity.info().is_local:
            return await self._attempt_within_limits(planned, left)
        with self._fast_lane.enter(planned.endpoint_id) as entered:
            # The endpoint's timeout may have been raised since the workflow chose the lane.
            if not entered or not left.fits(planned.time_needed):
                return StepReport(crowded=True)
            return await self._attempt_within_limits(planned, left)

    async def _admit(self, planned: _Planned) -> Change | None:
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
        self, planned: _Planned, left: TimeLeft
    ) -> _Stands | StepReport:
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
            return await self._send_and_record(planned, left)
        except _NotWanted:
            await self._give_turn_back(planned)
            raise

    async def _send_and_record(self, planned: _Planned, left: TimeLeft) -> _Stands | StepReport:
        started_at = planned.now()
        with observed_attempt(planned.attempt, planned.outgoing, started_at=started_at) as observed:
            outcome = await self._post(planned, left)
            ended = AttemptEnded(
                attempt_id=new_id("att", started_at),
                attempt=planned.attempt,
                started_at=started_at,
                outcome=replace(outcome, response_excerpt=None),
                plan=planned.outgoing.plan,
                timeout_seconds=planned.outgoing.target.timeout_seconds,
                jitter=random.random(),  # noqa: S311 - jitter, not a secret
            )
            record = AttemptRecord(
                delivery_id=planned.delivery_id,
                ended=ended,
                excerpt=outcome.response_excerpt,
                limited=planned.outgoing.target.limits is not None,
            )
            change = await self._try_to_record(record)
            observed.ended(outcome, change)
        if change is None:
            return StepReport(unrecorded=ended)
        return _Stands(change.after, outcome)

    async def _post(self, planned: _Planned, left: TimeLeft) -> Outcome:
        outgoing, number = planned.outgoing, planned.attempt.number
        target, raw = outgoing.target, outgoing.raw
        trace = outgoing.event.traceparent
        with spans.request(target.url, trace, resend_count=number - 1) as span:
            headers, body = await outgoing_request(
                self._body(outgoing),
                target=target,
                message_id=outgoing.delivery_id,
                event_type=outgoing.event_type,
                attempt=number,
                timestamp=int(self._clock().timestamp()),
                traceparent=span.traceparent,
                content_type=JSON if raw is None else raw.content_type,
                original=() if raw is None else raw.headers,
            )
            outcome = await self._sender.post(
                target.url,
                headers=headers,
                body=body,
                timeout=target.timeout_seconds,
                allowed_networks=target.allowed_networks,
                confirm=lambda: self._confirm(planned, left),
            )
            span.answered(outcome.result, outcome.status_code, succeeded=outcome.succeeded)
            return outcome

    async def _confirm(self, planned: _Planned, left: TimeLeft) -> None:
        """Called when the connection is open and nothing was sent. Raises _NotWanted where the
        attempt is not what the delivery does next any more, or may not be made, and Unavailable
        where Temporal has given this step up: another worker may be making the same attempt."""
        if planned.outgoing.fresh:
            return
        if not left.fits(RECORD_SHARE.total_seconds()):
            raise Unavailable("The step was given up before its request began.")
        seen = await self._loader.refresh(planned.outgoing)
        probe = seen.gate.probes(planned.delivery_id)
        if next_step(seen.life, planned.now(), probe=probe) != planned.attempt:
            raise _NotWanted
        verdict = admit(
            seen.gate, planned.delivery_id, attempt=planned.attempt, released=seen.life.released
        )
        claimed = verdict is Admission.CLAIM and probe
        if verdict is not Admission.SEND and not claimed:
            raise _NotWanted

    def _body(self, outgoing: Outgoing) -> bytes:
        event = outgoing.event
        if outgoing.raw is not None:
            return outgoing.raw.body
        if outgoing.payload != "thin":
            # `raw` too: an event that came in through no source, or whose request is not kept any
            # more, has nothing else to send
            return event.body
        return thin_body(
            event_id=event.event_id,
            event_type=outgoing.event_type,
            created_at=event.created_at,
            tenant_id=event.tenant_id,
            url=f"{self._public_url}/v1/events/{event.event_id}",
        )

    async def _try_to_record(self, record: AttemptRecord) -> Change | None:
        """What the attempt made of its delivery; None where that could not be committed in time."""
        give_up_at = asyncio.get_running_loop().time() + RECORD_SHARE.total_seconds()
        pause = 0.05
        while True:
            recording = asyncio.ensure_future(self._recorder.record(record))
            try:
                async with asyncio.timeout_at(give_up_at):
                    # shielded: when the worker stops, the request was made, so the record must be
                    # too
                    return await asyncio.shield(recording)
            except (SQLAlchemyError, OSError, Unavailable) as error:  # TimeoutError: an OSError
                # What has not begun is not done any more. What has may be committed late: the
                # workflow records the same attempt, and the later of the two changes nothing.
                recording.cancel()
                if asyncio.get_running_loop().time() + pause > give_up_at:
                    log.warning(
                        "An attempt could not be recorded; its workflow will retry the record.",
                        delivery_id=record.delivery_id,
                        attempt=record.ended.attempt.number,
                        error=type(error).__name__,
                    )
                    return None
                await asyncio.sleep(pause)
                pause = min(pause * 2, 1.0)

    async def _give_turn_back(self, planned: _Planned) -> None:
        if planned.outgoing.target.limits is None:
            return
        unused = pace.Ended(endpoint_id=planned.endpoint_id, delivery_id=planned.delivery_id)
        async with self._database.write() as connection:
            await pace.give_back(connection, [unused])

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


def _gone(delivery_id: str, error: NotFound) -> StepReport:
    """Its rows are gone (a database restored from before the event): nothing can be sent and
    nothing recorded, now or later."""
    log.error("A delivery has no row; its workflow ends.", delivery_id=delivery_id)
    return StepReport(DeliveryStatus.DEAD, "not_found", last_error=error.message)
