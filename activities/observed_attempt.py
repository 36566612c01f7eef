"""What is seen of an attempt from outside: its span, its log lines' trace, and its measures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from hookfast.deliveries.life import Attempt, Trigger
from hookfast.deliveries.outcome import Outcome
from hookfast.storage.deliveries.lives import Change
from hookfast.storage.deliveries.outgoing import Outgoing
from hookfast.telemetry import instruments, spans


class ObservedAttempt:
    """An attempt under way."""

    __slots__ = ("_attempt", "_outgoing", "_span", "_started_at")

    def __init__(
        self,
        attempt: Attempt,
        outgoing: Outgoing,
        span: spans.AttemptSpan,
        *,
        started_at: datetime,
    ) -> None:
        self._attempt = attempt
        self._outgoing = outgoing
        self._span = span
        self._started_at = started_at

    def ended(self, outcome: Outcome, change: Change | None) -> None:
        """The request was made, and this came of it; None: that is yet to be recorded."""
        result = outcome.result.value
        trigger = self._attempt.trigger
        tenant = self._outgoing.target.tenant_id
        instruments.ATTEMPTS.add(
            result=result,
            status_class=_class_of(outcome.status_code),
            trigger=trigger.value,
            tenant=tenant,
        )
        instruments.ATTEMPT_DURATION.record(outcome.duration_ms / 1000, result=result)
        waited = (self._started_at - self._outgoing.wanted_at).total_seconds()
        if self._attempt.number == 1:
            instruments.FIRST_ATTEMPT_DELAY.record(waited)
        # one that somebody sent again after days says nothing about how fast we deliver
        if outcome.succeeded and trigger is not Trigger.RESEND:
            instruments.DELIVERY_DURATION.record(waited + outcome.duration_ms / 1000)
        following = None
        if change is not None:
            following = change.after.status.value if change.after.phase.ended else "retry"
        self._span.ended(result, following=following)


@contextmanager
def observed_attempt(
    attempt: Attempt, outgoing: Outgoing, *, started_at: datetime
) -> Iterator[ObservedAttempt]:
    """An attempt, for as long as the block lasts."""
    ids = {
        "event": outgoing.event.event_id,
        "delivery": outgoing.delivery_id,
        "endpoint": outgoing.target.endpoint_id,
        "tenant": outgoing.target.tenant_id,
    }
    instruments.IN_FLIGHT.add(1)
    try:
        with spans.attempt(
            outgoing.event.traceparent,
            event_type=outgoing.event_type,
            number=attempt.number,
            trigger=attempt.trigger.value,
            ids=ids,
        ) as span:
            yield ObservedAttempt(attempt, outgoing, span, started_at=started_at)
    finally:
        instruments.IN_FLIGHT.add(-1)


def _class_of(status_code: int | None) -> str:
    return "none" if status_code is None else f"{status_code // 100}xx"
