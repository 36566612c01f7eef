"""What is measured and traced of an attempt."""

from __future__ import annotations

from types import TracebackType

from hookfast.deliveries.facts import AttemptPlan, Trigger
from hookfast.storage.deliveries.outgoing import Outgoing
from hookfast.storage.deliveries.recorder import AttemptRecord
from hookfast.telemetry import instruments, spans


class ObservedAttempt:
    """The span and the metrics of an attempt, which the block makes."""

    __slots__ = ("_outgoing", "_span", "_tracing")

    def __init__(self, outgoing: Outgoing, planned: AttemptPlan) -> None:
        self._outgoing = outgoing
        self._tracing = spans.attempt(
            outgoing.event.traceparent,
            event_type=outgoing.row.event_type,
            number=planned.number,
            trigger=planned.trigger.value,
            ids={
                "event": outgoing.event.event_id,
                "delivery": outgoing.delivery_id,
                "endpoint": outgoing.endpoint.endpoint_id,
                "tenant": outgoing.endpoint.tenant_id,
            },
        )

    def __enter__(self) -> ObservedAttempt:
        self._span = self._tracing.__enter__()
        instruments.IN_FLIGHT.add(1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        instruments.IN_FLIGHT.add(-1)
        self._tracing.__exit__(kind, error, traceback)

    def ended(self, record: AttemptRecord) -> None:
        """Measure the result."""
        outgoing, ended = self._outgoing, record.ended
        outcome, trigger, began = ended.outcome, ended.attempt.trigger, ended.started_at
        result = outcome.result.value
        instruments.ATTEMPTS.add(
            result=result,
            status_class=instruments.status_class(outcome.status_code),
            trigger=trigger.value,
            tenant=outgoing.endpoint.tenant_id,
        )
        instruments.ATTEMPT_DURATION.record(outcome.duration_ms / 1000, result=result)
        if ended.attempt.number == 1:
            late = (began - outgoing.row.due_from).total_seconds()
            instruments.FIRST_ATTEMPT_DELAY.record(late)
        # a resend after days says nothing about how fast we deliver
        if outcome.succeeded and trigger is not Trigger.RESEND:
            waited = (began - outgoing.row.emitted_at).total_seconds()
            instruments.DELIVERY_DURATION.record(waited + outcome.duration_ms / 1000)
        following = None
        if record.change is not None:
            after = record.change.after
            following = after.status.value if after.phase.ended else "retry"
        self._span.ended(result, following=following)
