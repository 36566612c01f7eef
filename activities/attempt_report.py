"""What an attempt tells its workflow, and what is stored of it."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta

from hookfast.delivery import AttemptFacts, AttemptOrder, AttemptReport
from hookfast.ids import new_id
from hookfast.outcome import DeliveryStatus, Outcome, Result
from hookfast.retry_plan import Decision, Next, decide, parse_plan
from hookfast.storage.outgoing import EarlierAttempt
from hookfast.storage.recorder import AttemptRecord
from hookfast.storage.targets import Target

_NEXT_OF = {
    DeliveryStatus.DELIVERED: Next.DELIVERED,
    DeliveryStatus.GONE: Next.GONE,
    DeliveryStatus.DEAD: Next.DEAD,
}


def decided(order: AttemptOrder, target: Target, outcome: Outcome) -> Decision | None:
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


def reported(
    order: AttemptOrder,
    endpoint_id: str,
    outcome: Outcome,
    decision: Decision | None,
    *,
    started_at: datetime,
) -> AttemptReport:
    """What an attempt reports that is not recorded yet."""
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


def recorded(report: AttemptReport) -> AttemptReport:
    """The report of a recorded attempt: its facts are in the database, not in history too."""
    return replace(report, recorded=True, attempt=None)


def record_of(
    report: AttemptReport, *, excerpt: str | None = None, limited: bool = True
) -> AttemptRecord:
    """What is stored of an attempt that is not recorded yet."""
    # A record that is made later does not know whether there were limits; giving back a place that
    # was not taken does nothing.
    assert report.attempt is not None  # noqa: S101 - only unrecorded reports come here
    return AttemptRecord(
        facts=report.attempt,
        next=report.next,
        reason=report.reason,
        status_code=report.status_code,
        error=report.error,
        response_excerpt=excerpt,
        limited=limited,
    )


def reported_earlier(earlier: EarlierAttempt, order: AttemptOrder, now: datetime) -> AttemptReport:
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
