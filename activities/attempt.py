"""The attempt: load, sign, POST, decide, record. The one place where a delivery meets the network.

Customers' failures are outcomes, not activity errors: an activity error here means that *we* could
not work (no database), and Temporal tries again until we can.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError
from temporalio import activity

from hookfast import traceparent
from hookfast.clock import Clock, utc_now
from hookfast.delivery import AttemptFacts, AttemptOrder, AttemptReport, StatusNote
from hookfast.envelope import thin_body
from hookfast.errors import NotFound
from hookfast.ids import new_id
from hookfast.outcome import DeliveryStatus, Outcome, Result
from hookfast.request_headers import request_headers
from hookfast.retry_plan import Decision, Next, decide, parse_plan
from hookfast.sender import Sender
from hookfast.storage.delivery_status import note_status
from hookfast.storage.engine import Database
from hookfast.storage.outgoing import EarlierAttempt, Outgoing, OutgoingLoader, Target
from hookfast.storage.recorder import AttemptRecord, Recorder

_HEARTBEAT_SECONDS = 4.0
_RECORD_PATIENCE = 8.0
"""Seconds to keep trying to record before handing the record to the workflow: with the longest
fast-lane request this stays below the workflow task's own heartbeat."""

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
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._loader = loader
        self._sender = sender
        self._recorder = recorder
        self._public_url = public_url
        self._fast_lane = FastLane(fast_lane_per_endpoint)
        self._clock = clock

    @activity.defn(name="attempt")
    async def attempt(self, order: AttemptOrder) -> AttemptReport:
        """Make one attempt, unless it has been made already or there is a reason not to."""
        try:
            outgoing = await self._loader.load(order.delivery_id, order.number)
        except NotFound as error:
            # Its rows are gone (a database restored from before the event): nothing can be sent
            # and nothing recorded, now or later.
            log.error("A delivery has no row; its workflow ends.", delivery_id=order.delivery_id)
            return AttemptReport(next=Next.DEAD, reason="not_found", error=error.message)
        if outgoing.earlier is not None:
            # This attempt was committed by a worker that died before it could report: do not
            # send it twice.
            return _report_earlier(outgoing.earlier, order, self._clock())
        if outgoing.target.state != "enabled":
            return await self._refuse(order, outgoing)
        if not activity.info().is_local:
            async with _heartbeat():
                return await self._send_and_record(order, outgoing)
        with self._fast_lane.enter(outgoing.target.endpoint_id) as entered:
            if not entered:
                return AttemptReport(crowded=True)
            return await self._send_and_record(order, outgoing)

    @activity.defn(name="record_attempt")
    async def record_attempt(self, report: AttemptReport) -> None:
        """Record an attempt whose record failed. The excerpt of the answer is lost then: bodies do
        not enter workflow history."""
        await self._recorder.record(_record_of(report))

    @activity.defn(name="note_status")
    async def note_status(self, note: StatusNote) -> None:
        """Write a status that no attempt writes."""
        async with self._database.write() as connection:
            await note_status(connection, note, now=self._clock())

    async def _send_and_record(self, order: AttemptOrder, outgoing: Outgoing) -> AttemptReport:
        started_at = self._clock()
        outcome = await self._post(order, outgoing)
        decision = _decide(order, outgoing.target, outcome)
        report = _report(
            order, outgoing.target.endpoint_id, outcome, decision, started_at=started_at
        )
        if await self._try_to_record(report, outcome):
            return _slim(report)
        return report

    async def _post(self, order: AttemptOrder, outgoing: Outgoing) -> Outcome:
        body = self._body(outgoing)
        target = outgoing.target
        headers = request_headers(
            body,
            message_id=outgoing.delivery_id,
            event_type=outgoing.event_type,
            attempt=order.number,
            timestamp=int(self._clock().timestamp()),
            profiles=target.profiles,
            keys=target.keys,
            hash_name=target.hash_name,
            custom=target.headers,
            traceparent=traceparent.child(outgoing.event.traceparent),
        )
        return await self._sender.post(
            target.url,
            headers=headers,
            body=body,
            timeout=target.timeout_seconds,
            allowed_networks=target.allowed_networks,
        )

    def _body(self, outgoing: Outgoing) -> bytes:
        event = outgoing.event
        if outgoing.payload == "full":
            return event.body
        return thin_body(
            event_id=event.event_id,
            event_type=outgoing.event_type,
            created_at=event.created_at,
            tenant_id=event.tenant_id,
            url=f"{self._public_url}/v1/events/{event.event_id}",
        )

    async def _try_to_record(self, report: AttemptReport, outcome: Outcome) -> bool:
        record = _record_of(report, excerpt=outcome.response_excerpt)
        give_up_at = asyncio.get_running_loop().time() + _RECORD_PATIENCE
        pause = 0.05
        while True:
            try:
                # shielded: when the worker stops, the request was made, so the record must be too
                await asyncio.shield(self._recorder.record(record))
            except (SQLAlchemyError, OSError) as error:
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
        reason = f"endpoint_{outgoing.target.state}"
        error = f"Nothing was sent: the endpoint is {outgoing.target.state}."
        if not order.in_plan:
            return AttemptReport(error=error, reason=reason)
        async with self._database.write() as connection:
            note = StatusNote(order.delivery_id, DeliveryStatus.DEAD)
            await note_status(connection, note, now=self._clock(), reason=reason)
        return AttemptReport(next=Next.DEAD, reason=reason, error=error)


class FastLane:
    """Caps how many first attempts to one endpoint a worker has open as local activities, so that
    a receiver that never answers cannot occupy the lane; the rest go to the regular queue."""

    def __init__(self, per_endpoint: int) -> None:
        self._per_endpoint = per_endpoint
        self._open: Counter[str] = Counter()

    @contextmanager
    def enter(self, endpoint_id: str) -> Iterator[bool]:
        """Whether there is room, which is then taken for as long as the block lasts."""
        if self._open[endpoint_id] >= self._per_endpoint:
            yield False
            return
        self._open[endpoint_id] += 1
        try:
            yield True
        finally:
            self._open[endpoint_id] -= 1
            if not self._open[endpoint_id]:
                del self._open[endpoint_id]


@asynccontextmanager
async def _heartbeat() -> AsyncIterator[None]:
    """Tell Temporal that this worker lives, so that its death is noticed within seconds."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            activity.heartbeat()

    task = asyncio.create_task(beat(), name="attempt-heartbeat")
    try:
        yield
    finally:
        task.cancel()


def _decide(order: AttemptOrder, target: Target, outcome: Outcome) -> Decision | None:
    """What follows, or None when the plan goes on as if this attempt had not been made."""
    # The plan's length counts every attempt's deadline, which is the endpoint's.
    plan = replace(parse_plan(order.plan), timeout=target.timeout_seconds)
    decision = decide(
        plan,
        outcome,
        retries_used=order.retries_used,
        elapsed=order.elapsed_seconds,
        random=random.random(),  # noqa: S311 - jitter, not a secret
    )
    if order.in_plan or decision.next in (Next.DELIVERED, Next.GONE):
        return decision
    return None


def _report(
    order: AttemptOrder,
    endpoint_id: str,
    outcome: Outcome,
    decision: Decision | None,
    *,
    started_at: datetime,
) -> AttemptReport:
    next_attempt_at = None
    if decision is not None and decision.next is Next.RETRY:
        next_attempt_at = started_at + timedelta(
            milliseconds=outcome.duration_ms, seconds=decision.delay
        )
    return AttemptReport(
        next=None if decision is None else decision.next,
        delay_seconds=0.0 if decision is None else decision.delay,
        reason=None if decision is None else decision.reason,
        error=outcome.error,
        status_code=outcome.status_code,
        recorded=False,
        attempt=AttemptFacts(
            attempt_id=new_id("att", started_at),
            delivery_id=order.delivery_id,
            endpoint_id=endpoint_id,
            number=order.number,
            retries=order.retries_used,
            trigger=order.trigger,
            started_at=started_at,
            duration_ms=outcome.duration_ms,
            result=outcome.result,
            next_attempt_at=next_attempt_at,
        ),
    )


def _slim(report: AttemptReport) -> AttemptReport:
    """The report of a recorded attempt: its facts are in the database, not in history too."""
    return replace(report, recorded=True, attempt=None)


def _record_of(report: AttemptReport, *, excerpt: str | None = None) -> AttemptRecord:
    assert report.attempt is not None  # noqa: S101 - only unrecorded reports come here
    return AttemptRecord(
        facts=report.attempt,
        next=report.next,
        reason=report.reason,
        status_code=report.status_code,
        error=report.error,
        response_excerpt=excerpt,
    )


_NEXT_OF = {
    DeliveryStatus.DELIVERED: Next.DELIVERED,
    DeliveryStatus.GONE: Next.GONE,
    DeliveryStatus.DEAD: Next.DEAD,
}


def _report_earlier(earlier: EarlierAttempt, order: AttemptOrder, now: datetime) -> AttemptReport:
    """What the worker that made this attempt would have reported."""
    status = earlier.status
    if earlier.result == Result.SUCCESS:
        following: Next | None = Next.DELIVERED
    elif not order.in_plan and status is not DeliveryStatus.GONE:
        following = None
    else:
        following = _NEXT_OF.get(status, Next.RETRY)
    due_at = earlier.next_attempt_at or now
    return AttemptReport(
        next=following,
        delay_seconds=max(0.0, (due_at - now).total_seconds()),
        reason=earlier.reason,
        error=earlier.error,
        status_code=earlier.status_code,
    )
