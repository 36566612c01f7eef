"""What is measured and traced of an attempt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from hookfast.deliveries.facts import AttemptPlan, Trigger
from hookfast.deliveries.outcome import Outcome
from hookfast.storage.deliveries.life_rows import LifeChange
from hookfast.storage.deliveries.outgoing import Outgoing
from hookfast.telemetry import instruments, spans


@dataclass(frozen=True, slots=True)
class _ObservedAttempt:
    """The span and the metrics of an attempt under way."""

    attempt: AttemptPlan
    outgoing: Outgoing
    span: spans.AttemptSpan
    started_at: datetime

    def ended(self, outcome: Outcome, change: LifeChange | None) -> None:
        """Measure the result. `change` is what the attempt changed; None: not recorded yet."""
        result = outcome.result.value
        trigger = self.attempt.trigger
        tenant = self.outgoing.endpoint.tenant_id
        instruments.ATTEMPTS.add(
            result=result,
            status_class=instruments.status_class(outcome.status_code),
            trigger=trigger.value,
            tenant=tenant,
        )
        instruments.ATTEMPT_DURATION.record(outcome.duration_ms / 1000, result=result)
        outgoing, began = self.outgoing, self.started_at
        if self.attempt.number == 1:
            late = (began - outgoing.due_from).total_seconds()
            instruments.FIRST_ATTEMPT_DELAY.record(late)
        # a resend after days says nothing about how fast we deliver
        if outcome.succeeded and trigger is not Trigger.RESEND:
            waited = (began - outgoing.emitted_at).total_seconds()
            instruments.DELIVERY_DURATION.record(waited + outcome.duration_ms / 1000)
        following = None
        if change is not None:
            following = change.after.status.value if change.after.phase.ended else "retry"
        self.span.ended(result, following=following)


@contextmanager
def observed_attempt(
    attempt: AttemptPlan, outgoing: Outgoing, *, started_at: datetime
) -> Iterator[_ObservedAttempt]:
    """Observe an attempt while the block makes it."""
    ids = {
        "event": outgoing.event.event_id,
        "delivery": outgoing.delivery_id,
        "endpoint": outgoing.endpoint.endpoint_id,
        "tenant": outgoing.endpoint.tenant_id,
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
            yield _ObservedAttempt(attempt, outgoing, span, started_at)
    finally:
        instruments.IN_FLIGHT.add(-1)
