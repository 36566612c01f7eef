"""One attempt: check the delivery again, sign, POST, record.

What each ordering protects against:

- The delivery and its endpoint are read before the request, and again if that was a while ago: a
  worker that was frozen in between does not send what was cancelled, held or sent meanwhile.
- Room for the body is claimed before anything else is taken, such as a permit of the endpoint's
  limits: without room, the attempt is made later and nothing has to be given back.
- The attempt is recorded after the request. A crash in between repeats the request with the same
  message id and attempt number; only the receiver knows of the first one.
- An error of our own while the request is made is the attempt's outcome, as a receiver's failure
  is. Raised, it would have the attempt repeated for ever without using one up.
- A record that cannot be committed in time goes to the workflow, and this process tries on as well:
  if Temporal is away too, as when both use one server, it loses the result and has the step
  repeated, which then finds the record.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import structlog

from activities.batch_member import BatchMember
from activities.body_maker import BodyMaker
from activities.heartbeat import TimeLeft
from activities.observed_attempt import ObservedAttempt
from hookfast.byte_budget import NoRoom
from hookfast.clock import utc_now
from hookfast.deliveries.facts import AttemptEnded, AttemptPlan
from hookfast.deliveries.headers import JSON
from hookfast.deliveries.mapping import MappingFailed
from hookfast.deliveries.outcome import Outcome
from hookfast.deliveries.time_budget import RECORD_SHARE
from hookfast.dispatch.request import outgoing_request
from hookfast.endpoints.gate import Admission
from hookfast.errors import NotFound, Unavailable
from hookfast.ids import new_id
from hookfast.outage_log import DATABASE
from hookfast.sender import Sender
from hookfast.sender.failure import not_made
from hookfast.storage.database.availability import is_transient
from hookfast.storage.deliveries.bodies import AttemptBodies, AttemptRoom, BodyGone
from hookfast.storage.deliveries.outgoing import Outgoing, OutgoingLoader
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.telemetry import spans
from hookfast.telemetry.traceparent import trace_id

_PAUSE_FIRST, _PAUSE_LONGEST = 0.05, 1.0  # seconds between two tries to record an attempt

log = structlog.get_logger()


class NoLongerDue(Exception):
    """The delivery or its endpoint has changed, so the request does not begin. Read the row
    again."""


Lease: TypeAlias = TimeLeft | BatchMember
"""The time in which nobody else makes the attempt: an activity's, or that of a delivery in a batch.
Its `now` is the clock, never behind the workflow's."""


def time_needed(outgoing: Outgoing) -> float:
    """Return how many seconds the request and its record take at most."""
    return outgoing.endpoint.timeout_seconds + RECORD_SHARE.total_seconds()


class AttemptRunner:
    """Makes and records attempts. One per worker process."""

    def __init__(
        self,
        *,
        loader: OutgoingLoader,
        bodies: AttemptBodies,
        sender: Sender,
        recorder: Recorder,
        public_url: str,
    ) -> None:
        self._loader = loader
        self._maker = BodyMaker(bodies, public_url=public_url)
        self._sender = sender
        self._recorder = recorder
        self._late: set[asyncio.Task[None]] = set()

    def room(
        self, outgoing: Outgoing, *, within: float = 0
    ) -> AbstractAsyncContextManager[AttemptRoom]:
        """Room for the body of an attempt, while the block lasts. Entering raises NoRoom if there
        is none within so many seconds."""
        return self._maker.room(outgoing, within=within)

    async def load(self, outgoing: Outgoing, room: AttemptRoom) -> None:
        """Load the body of an attempt if it is not in memory. Raises NoLongerDue if it was deleted,
        and SQLAlchemy's errors."""
        try:
            await room.load()
        except BodyGone:
            self._loader.forget_event(outgoing)
            raise NoLongerDue from None

    async def send_and_record(
        self, outgoing: Outgoing, planned: AttemptPlan, room: AttemptRoom, lease: Lease
    ) -> AttemptRecord:
        """Make the planned attempt with the body that was loaded. If it could not be recorded in
        time, the result has no change, and the workflow has to record it. Raises MappingFailed,
        NoLongerDue or Unavailable (NoRoom, for instance) if nothing was sent."""
        failed = await self._make(outgoing, room)
        started_at = lease.now()
        with ObservedAttempt(outgoing, planned) as observed:
            outcome = failed or await self._post(outgoing, planned, room, lease)
            lease.answered()
            ended = AttemptEnded(
                attempt_id=new_id("att", started_at),
                attempt=planned,
                started_at=started_at,
                outcome=outcome.for_history(),
                plan=outgoing.plan,
                timeout_seconds=outgoing.endpoint.timeout_seconds,
                jitter=random.random(),  # noqa: S311 - jitter, not a secret
            )
            record = AttemptRecord(
                delivery_id=outgoing.delivery_id,
                ended=ended,
                excerpt=outcome.response_excerpt,
                evidence=outcome.evidence,
                limited=outgoing.endpoint.limits is not None,
                in_batch=lease.in_batch,
                first_try=True,
                trace_id=trace_id(outgoing.event.traceparent),
            )
            await self._try_to_record(record)
            observed.ended(record)
        return record

    async def close(self) -> None:
        """Give up late records. Their workflows have the attempts, unless Temporal is away too."""
        late = list(self._late)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _post(
        self, outgoing: Outgoing, planned: AttemptPlan, room: AttemptRoom, lease: Lease
    ) -> Outcome:
        endpoint, raw = outgoing.endpoint, outgoing.raw
        trace = outgoing.event.traceparent
        with spans.request(endpoint.url, trace, resend_count=planned.number - 1) as span:
            try:
                async with self._maker.alone_if_large(room.body):
                    headers, body = await outgoing_request(
                        room.body,
                        endpoint=endpoint,
                        message_id=outgoing.delivery_id,
                        event_type=outgoing.row.event_type,
                        attempt=planned.number,
                        timestamp=int(utc_now().timestamp()),
                        traceparent=span.traceparent,
                        content_type=JSON if raw is None else raw.content_type,
                        original=() if raw is None else raw.headers,
                        hops=outgoing.event.hops,
                    )
                if body is not room.body:
                    await room.replace(body)
            except NoRoom:
                raise
            except Exception as error:
                outcome = not_made(error)
            else:
                outcome = await self._sender.post(
                    endpoint.url,
                    headers=headers,
                    body=body,
                    timeout=endpoint.timeout_seconds,
                    access=endpoint.access,
                    allowed_networks=endpoint.allowed_networks,
                    confirm=lambda: self._confirm(outgoing, planned, lease),
                    public_headers=_public_headers(outgoing),
                )
            span.answered(outcome.result, outcome.status_code, succeeded=outcome.succeeded)
            return outcome

    async def _confirm(self, outgoing: Outgoing, planned: AttemptPlan, lease: Lease) -> None:
        """Check again that the attempt is due. The sender calls this when the connection is open
        and nothing was sent. Raises NoLongerDue if the delivery does something else next or may not
        be sent, and Unavailable if Temporal has given this step up: another worker may be making
        the same attempt."""
        if outgoing.is_recent:
            return
        if not lease.fits(RECORD_SHARE.total_seconds()):
            raise Unavailable("The step was given up before its request began.")
        seen = await self._loader.refresh(outgoing)
        due, admission = seen.due(lease.now(), in_batch=lease.in_batch)
        if due != planned or not lease.still_owns(seen.row.life):
            raise NoLongerDue
        if admission not in (Admission.SEND, Admission.PROBE):  # a probe was claimed before
            raise NoLongerDue

    async def _make(self, outgoing: Outgoing, room: AttemptRoom) -> Outcome | None:
        """Make the body. Return the outcome of an attempt whose body cannot be made. Raises
        MappingFailed if the mapping is the reason, and NoRoom."""
        try:
            await self._maker.make(outgoing, room)
        except (MappingFailed, NoRoom):
            raise
        except Exception as error:
            return not_made(error)
        return None

    async def _try_to_record(self, record: AttemptRecord) -> None:
        """Record the attempt, unless that cannot be committed in time."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + RECORD_SHARE.total_seconds()
        pause = _PAUSE_FIRST
        while True:
            try:
                # also while the worker stops: the request was made, so record it
                await self._recorder.record(record, within=give_up_at - loop.time())
                return
            except NotFound:
                raise
            except Exception as error:  # whatever it is, the request must not be repeated
                record.first_try = False
                if loop.time() + pause > give_up_at:
                    DATABASE.failed(
                        "An attempt could not be recorded; its workflow will retry the record.",
                        delivery_id=record.delivery_id,
                        attempt=record.ended.attempt.number,
                        error=type(error).__name__,
                    )
                    late = asyncio.create_task(self._record_late(record, pause))
                    self._late.add(late)
                    late.add_done_callback(self._late.discard)
                    return
                await asyncio.sleep(pause)
                pause = min(pause * 2, _PAUSE_LONGEST)

    async def _record_late(self, record: AttemptRecord, pause: float) -> None:
        """Record the attempt as soon as the database is back. The workflow records it as well, and
        the later of the two changes nothing."""
        while True:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_LONGEST)
            try:
                await self._recorder.record(record)
            except NotFound:  # the workflow logs it
                pass
            except Exception as error:
                if isinstance(error, Unavailable) or is_transient(error):
                    continue
                log.error("A late record failed.", delivery_id=record.delivery_id, exc_info=error)
            return


def _public_headers(outgoing: Outgoing) -> Collection[str]:
    """Return the names of headers that are sent on unchanged from a received request, in lower
    case. Credentials are not sent on (`hookfast.inbox.kept_headers`)."""
    if outgoing.raw is None:
        return ()
    sent_on = {name.lower() for name, _ in outgoing.raw.headers}
    return sent_on - {name.lower() for name in outgoing.endpoint.headers}
