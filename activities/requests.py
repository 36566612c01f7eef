"""An attempt as it is made: look once more, sign, POST, record.

What each order of things protects against:

- Life and gate are read before the request, and once more where that was a while ago: a worker that
  was frozen in between does not send what was cancelled, held or sent by another meanwhile.
- The attempt is recorded after the request. A crash in between repeats the request, with the same
  message id and number; nothing but the receiver knows of the first.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from typing import Protocol

import structlog
from sqlalchemy.exc import SQLAlchemyError

from activities.observed_attempt import observed_attempt
from hookfast.clock import Clock, utc_now
from hookfast.deliveries.headers import JSON
from hookfast.deliveries.life import Attempt, AttemptEnded, Life, next_step
from hookfast.deliveries.outcome import Outcome
from hookfast.deliveries.time_budget import RECORD_SHARE
from hookfast.dispatch.request import outgoing_request
from hookfast.endpoints.circuit import Admission, admit
from hookfast.errors import Unavailable
from hookfast.events.envelope import thin_body
from hookfast.ids import new_id
from hookfast.sender import Sender
from hookfast.storage.deliveries.lives import Change
from hookfast.storage.deliveries.outgoing import Outgoing, OutgoingLoader
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.telemetry import spans

log = structlog.get_logger()


class NoLongerDue(Exception):
    """The delivery or its endpoint has changed: the request that was about to begin does not."""


class Time(Protocol):
    """What is left of the time in which an attempt is nobody else's to make."""

    def fits(self, seconds: float) -> bool:
        """Whether what takes so long is done before that."""


class Hold(Time, Protocol):
    """A delivery in a batch's hands."""

    def covers(self, life: Life) -> bool:
        """Whether a delivery with this life still is."""

    def answered(self) -> None:
        """The request is over."""


@dataclass(frozen=True, slots=True)
class Planned:
    """An attempt that is about to be made. `now` tells the time as the workflow sees it. `hold`:
    a batch makes it."""

    outgoing: Outgoing
    attempt: Attempt
    now: Clock
    hold: Hold | None = None

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
class MadeAttempt:
    """An attempt that was made. `change` is what it made of its delivery; None: that could not be
    committed in time and is yet to be recorded."""

    ended: AttemptEnded
    outcome: Outcome
    change: Change | None


class Requests:
    """One per worker process."""

    def __init__(
        self,
        *,
        loader: OutgoingLoader,
        sender: Sender,
        recorder: Recorder,
        public_url: str,
        clock: Clock = utc_now,
    ) -> None:
        self._loader = loader
        self._sender = sender
        self._recorder = recorder
        self._public_url = public_url
        self._clock = clock

    async def send_and_record(self, planned: Planned, left: Time) -> MadeAttempt:
        """Make the attempt. Raises NotWanted and Unavailable where nothing was sent."""
        started_at = planned.now()
        with observed_attempt(planned.attempt, planned.outgoing, started_at=started_at) as observed:
            outcome = await self._post(planned, left)
            if planned.hold is not None:
                planned.hold.answered()
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
                in_batch=planned.hold is not None,
                first_try=True,
            )
            change = await self._try_to_record(record)
            observed.ended(outcome, change)
        return MadeAttempt(ended, outcome, change)

    async def _post(self, planned: Planned, left: Time) -> Outcome:
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

    async def _confirm(self, planned: Planned, left: Time) -> None:
        """Called when the connection is open and nothing was sent. Raises NotWanted where the
        attempt is not what the delivery does next any more, or may not be made, and Unavailable
        where Temporal has given this step up: another worker may be making the same attempt."""
        if planned.outgoing.fresh:
            return
        if not left.fits(RECORD_SHARE.total_seconds()):
            raise Unavailable("The step was given up before its request began.")
        seen = await self._loader.refresh(planned.outgoing)
        probe = seen.gate.probes(planned.delivery_id)
        if planned.hold is not None and not planned.hold.covers(seen.life):
            raise NoLongerDue
        in_batch = planned.hold is not None
        if next_step(seen.life, planned.now(), probe=probe, in_batch=in_batch) != planned.attempt:
            raise NoLongerDue
        verdict = admit(
            seen.gate, planned.delivery_id, attempt=planned.attempt, released=seen.life.released
        )
        claimed = verdict is Admission.CLAIM and probe
        if verdict is not Admission.SEND and not claimed:
            raise NoLongerDue

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
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + RECORD_SHARE.total_seconds()
        pause = 0.05
        while True:
            try:
                # when the worker stops, the request was made, so the record must be too
                return await self._recorder.record(record, within=give_up_at - loop.time())
            except (SQLAlchemyError, OSError, Unavailable) as error:
                # It may be committed late all the same: the workflow records the same attempt, and
                # the later of the two changes nothing.
                if loop.time() + pause > give_up_at:
                    log.warning(
                        "An attempt could not be recorded; its workflow will retry the record.",
                        delivery_id=record.delivery_id,
                        attempt=record.ended.attempt.number,
                        error=type(error).__name__,
                    )
                    return None
                record = replace(record, first_try=False)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 1.0)
