"""What is seen of an attempt from outside: its span, its log lines' trace, and its measures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from hookfast.delivery import AttemptOrder, Trigger
from hookfast.outcome import DeliveryStatus, Outcome
from hookfast.retry_plan import Decision, Next
from hookfast.storage.outgoing import Outgoing
from hookfast.telemetry import instruments, spans

_ENDED = {
    Next.DELIVERED: DeliveryStatus.DELIVERED,
    Next.DEAD: DeliveryStatus.DEAD,
    Next.GONE: DeliveryStatus.GONE,
}


class ObservedAttempt:
    """An attempt under way."""

    __slots__ = ("_order", "_outgoing", "_span", "_started_at")

    def __init__(
        self,
        order: AttemptOrder,
        outgoing: Outgoing,
        span: spans.AttemptSpan,
        *,
        started_at: datetime,
    ) -> None:
        self._order = order
        self._outgoing = outgoing
        self._span = span
        self._started_at = started_at

    def decided(self, outcome: Outcome, decision: Decision | None) -> None:
        """The request was made, and this follows; None: nothing does."""
        result = outcome.result.value
        following = None if decision is None else decision.next
        tenant = self._outgoing.target.tenant_id
        instruments.ATTEMPTS.add(
            result=result,
            status_class=_class_of(outcome.status_code),
            trigger=self._order.trigger.value,
            tenant=tenant,
        )
        instruments.ATTEMPT_DURATION.record(outcome.duration_ms / 1000, result=result)
        waited = (self._started_at - self._outgoing.wanted_at).total_seconds()
        if self._order.number == 1:
            instruments.FIRST_ATTEMPT_DELAY.record(waited)
        if following is not None and (status := _ENDED.get(following)) is not None:
            instruments.DELIVERIES.add(outcome=status.value, tenant=tenant)
        # one that somebody sent again after days says nothing about how fast we deliver
        if following is Next.DELIVERED and self._order.trigger is not Trigger.RESEND:
            instruments.DELIVERY_DURATION.record(waited + outcome.duration_ms / 1000)
        self._span.ended(result, following=None if following is None else following.value)


@contextmanager
def observed_attempt(
    order: AttemptOrder, outgoing: Outgoing, *, started_at: datetime
) -> Iterator[ObservedAttempt]:
    """An attempt, for as long as the block lasts."""
    ids = {
        "event": outgoing.event.event_id,
        "delivery": order.delivery_id,
        "endpoint": outgoing.target.endpoint_id,
        "tenant": outgoing.target.tenant_id,
    }
    instruments.IN_FLIGHT.add(1)
    try:
        with spans.attempt(
            outgoing.event.traceparent,
            event_type=outgoing.event_type,
            number=order.number,
            trigger=order.trigger.value,
            ids=ids,
        ) as span:
            yield ObservedAttempt(order, outgoing, span, started_at=started_at)
    finally:
        instruments.IN_FLIGHT.add(-1)


def _class_of(status_code: int | None) -> str:
    return "none" if status_code is None else f"{status_code // 100}xx"
