"""The attempt: load, sign, POST, decide, record. The one place where a delivery meets the network.

Customers' failures are outcomes, not activity errors: an activity error here means that *we* could
not work (no database), and Temporal tries again until we can.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError
from temporalio import activity

from activities.attempt_report import decided, record_of, recorded, reported, reported_earlier
from activities.fast_lane import FastLane
from activities.heartbeat import heartbeat
from activities.observed_attempt import observed_attempt
from activities.time_left import TimeLeft
from hookfast.circuit import Admission, admit
from hookfast.clock import Clock, utc_now
from hookfast.delivery import AttemptOrder, AttemptReport, StatusNote, Trigger, Unheard
from hookfast.envelope import thin_body
from hookfast.errors import NotFound, Unavailable
from hookfast.outcome import DeliveryStatus, Outcome
from hookfast.outgoing_request import outgoing_request
from hookfast.pace import Wait
from hookfast.request_headers import JSON
from hookfast.retry_plan import Next
from hookfast.sender import Sender
from hookfast.storage import pace
from hookfast.storage.announcements import deliveries_dead
from hookfast.storage.circuits import PROBE_MARGIN, count_let_go, gates, hold_or_send
from hookfast.storage.delivery_status import note_limited, note_refused, note_status
from hookfast.storage.engine import Database
from hookfast.storage.outgoing import Outgoing, OutgoingLoader
from hookfast.storage.recorder import News, Recorder
from hookfast.storage.targets import Target
from hookfast.telemetry import instruments, spans

_LEASE_MARGIN = timedelta(seconds=60)
"""A place among an endpoint's requests in flight is free again this long after the longest request,
should its worker die: longer than the database may take to record it."""
_RECORD_PATIENCE = 8.0
"""Seconds to keep trying to record before handing the record to the workflow: with the longest
fast-lane request this stays well below the time that Temporal gives a local activity."""

log = structlog.get_logger()


class AttemptActivities:
    """The activities of a delivery. One per worker process."""

    def __init__(
        self,
        *,
        database: Database,
        loader: OutgoingLoader,
        sender: Sender,
        recorder: Recorder,
        public_url: str,
        fast_lane_per_endpoint: int,
        held_backstop: timedelta,
        on_news: Callable[[News], None],
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._loader = loader
        self._sender = sender
        self._recorder = recorder
        self._public_url = public_url
        self._fast_lane = FastLane(fast_lane_per_endpoint)
        self._held_backstop = held_backstop
        self._on_news = on_news
        self._clock = clock

    @activity.defn(name="attempt")
    async def attempt(self, order: AttemptOrder) -> AttemptReport:
        """Make one attempt, unless it has been made already or there is a reason not to."""
        left = TimeLeft()
        if activity.info().is_local:
            return await self._attempt(order, left)
        # From the first line on: whoever waits for the database lives, and another try would wait
        # beside it, to send the same when the database goes on.
        async with heartbeat():
            return await self._attempt(order, left)

    async def _attempt(self, order: AttemptOrder, left: TimeLeft) -> AttemptReport:
        try:
            outgoing = await self._loader.load(order.delivery_id, order.number, fresh=order.fresh)
        except NotFound as error:
            # Its rows are gone (a database restored from before the event): nothing can be sent
            # and nothing recorded, now or later.
            log.error("A delivery has no row; its workflow ends.", delivery_id=order.delivery_id)
            return AttemptReport(next=Next.DEAD, reason="not_found", error=error.message)
        if outgoing.earlier is not None:
            # This attempt was committed by a worker that died before it could report: do not
            # send it twice.
            return reported_earlier(outgoing.earlier, order, self._clock())
        match await self._admit(order, outgoing):
            case Admission.REFUSE:
                return await self._refuse(order, outgoing)
            case Admission.HOLD:
                seconds = self._held_backstop.total_seconds()
                return AttemptReport(put_off_seconds=seconds, held=True)
        if not activity.info().is_local:
            return await self._attempt_within_limits(order, outgoing, left)
        with self._fast_lane.enter(outgoing.target.endpoint_id) as entered:
            # The endpoint's timeout may have been raised since the workflow chose the lane.
            if not entered or not left.fits(_time_for(outgoing.target)):
                return AttemptReport(crowded=True)
            return await self._attempt_within_limits(order, outgoing, left)

    @activity.defn(name="record_attempt")
    async def record_attempt(self, report: AttemptReport) -> None:
        """Record an attempt whose record failed. The excerpt of the answer is lost then: bodies do
        not enter workflow history."""
        await self._recorder.record(record_of(report))

    @activity.defn(name="note_status")
    async def note_status(self, note: StatusNote) -> Unheard | None:
        """Write a status that no attempt writes, unless one has ended the delivery unheard."""
        async with self._database.write() as connection:
            unheard = await note_status(connection, note, now=self._clock())
        if unheard is None and note.status is DeliveryStatus.CANCELLED:
            instruments.DELIVERIES.add(outcome=note.status.value)
        return unheard

    async def _admit(self, order: AttemptOrder, outgoing: Outgoing) -> Admission:
        """Whether it may be sent now. One that may not is recorded as held."""
        verdict = admit(
            outgoing.gate,
            order.delivery_id,
            by_hand=order.trigger is Trigger.RESEND and not order.gently,
            released=order.released,
        )
        if verdict in (Admission.SEND, Admission.REFUSE):
            return verdict
        async with self._database.write() as connection:
            return await hold_or_send(
                connection,
                order.delivery_id,
                outgoing.target.endpoint_id,
                released=order.released,
                backstop=self._held_backstop,
                probe_lease=timedelta(seconds=outgoing.target.timeout_seconds) + PROBE_MARGIN,
                now=self._clock(),
            )

    async def _attempt_within_limits(
        self, order: AttemptOrder, outgoing: Outgoing, left: TimeLeft
    ) -> AttemptReport:
        """Send it, unless the endpoint's limits say later: then no attempt is spent."""
        target = outgoing.target
        if target.limits is not None:
            async with self._database.write() as connection:
                turn = await pace.take(
                    connection,
                    endpoint_id=target.endpoint_id,
                    delivery_id=order.delivery_id,
                    limits=target.limits,
                    lease=timedelta(seconds=target.timeout_seconds) + _LEASE_MARGIN,
                    clock=self._clock,
                    waited=order.waited,
                )
                if isinstance(turn, Wait) and order.in_plan:  # else the plan's next attempt stays
                    now = self._clock()
                    limited = note_limited(connection, order.delivery_id, until=turn.until, now=now)
                    if await limited:
                        await count_let_go(connection, target.endpoint_id)
            if isinstance(turn, Wait):
                wait = max(0.0, (turn.until - self._clock()).total_seconds())
                return AttemptReport(put_off_seconds=wait)
            await asyncio.sleep(max(0.0, (turn.at - self._clock()).total_seconds()))
        if not left.fits(_time_for(target)):
            # The database took too long. Temporal would not wait for the record, and have it sent
            # once more; so it is not sent now.
            raise Unavailable("There is too little time left for the request and its record.")
        return await self._send_and_record(order, outgoing)

    async def _send_and_record(self, order: AttemptOrder, outgoing: Outgoing) -> AttemptReport:
        started_at = self._clock()
        with observed_attempt(order, outgoing, started_at=started_at) as observed:
            outcome = await self._post(order, outgoing)
            decision = decided(order, outgoing.target, outcome)
            observed.decided(outcome, decision)
            report = reported(
                order, outgoing.target.endpoint_id, outcome, decision, started_at=started_at
            )
            limited = outgoing.target.limits is not None
            if await self._try_to_record(report, outcome, limited=limited):
                return recorded(report)
            return report

    async def _post(self, order: AttemptOrder, outgoing: Outgoing) -> Outcome:
        target, raw = outgoing.target, outgoing.raw
        trace = outgoing.event.traceparent
        with spans.request(target.url, trace, resend_count=order.number - 1) as span:
            headers, body = await outgoing_request(
                self._body(outgoing),
                target=target,
                message_id=outgoing.delivery_id,
                event_type=outgoing.event_type,
                attempt=order.number,
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
            )
            span.answered(outcome.result, outcome.status_code, succeeded=outcome.succeeded)
            return outcome

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

    async def _try_to_record(
        self, report: AttemptReport, outcome: Outcome, *, limited: bool
    ) -> bool:
        record = record_of(report, excerpt=outcome.response_excerpt, limited=limited)
        give_up_at = asyncio.get_running_loop().time() + _RECORD_PATIENCE
        pause = 0.05
        while True:
            recording = asyncio.ensure_future(self._recorder.record(record))
            try:
                async with asyncio.timeout_at(give_up_at):
                    # shielded: when the worker stops, the request was made, so the record must be
                    # too
                    await asyncio.shield(recording)
            except (SQLAlchemyError, OSError, Unavailable) as error:  # TimeoutError: an OSError
                # What has not begun is not done any more. What has may be committed late: the
                # workflow records the same attempt, and the later of the two changes nothing.
                recording.cancel()
                if asyncio.get_running_loop().time() + pause > give_up_at:
                    log.warning(
                        "An attempt could not be recorded; its workflow will retry the record.",
                        delivery_id=record.facts.delivery_id,
                        attempt=record.facts.number,
                        error=type(error).__name__,
                    )
                    return False
                await asyncio.sleep(pause)
                pause = min(pause * 2, 1.0)
            else:
                return True

    async def _refuse(self, order: AttemptOrder, outgoing: Outgoing) -> AttemptReport:
        """The endpoint was disabled or deleted since: nothing is sent and no attempt counted."""
        async with self._database.read() as connection:  # what was primed may be older
            seen = await gates(connection, [outgoing.target.endpoint_id])
        state = seen[outgoing.target.endpoint_id].gate.endpoint_state
        if state not in ("disabled", "deleted"):  # enabled again this very moment
            return AttemptReport(put_off_seconds=0.0)
        reason = f"endpoint_{state}"
        error = f"Nothing was sent: the endpoint is {state}."
        if not order.in_plan:
            return AttemptReport(refused=True, error=error, reason=reason)
        now = self._clock()
        async with self._database.write() as connection:
            if not await note_refused(connection, order.delivery_id, reason=reason, now=now):
                # a resend of what had arrived, asked for just before
                return AttemptReport(next=Next.DELIVERED, refused=True, reason=reason, error=error)
            told = await deliveries_dead(connection, [order.delivery_id], now=now)
        outcome, tenant = DeliveryStatus.DEAD.value, outgoing.target.tenant_id
        instruments.DELIVERIES.add(outcome=outcome, tenant=tenant)
        if told:
            self._on_news(News.EVENTS)
        return AttemptReport(next=Next.DEAD, refused=True, reason=reason, error=error)


def _time_for(target: Target) -> float:
    """Seconds that the request and its record take at most."""
    return target.timeout_seconds + _RECORD_PATIENCE
