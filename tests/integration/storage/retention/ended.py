"""Ended attempts, as a worker records them."""

from __future__ import annotations

from datetime import datetime

from hookfast.deliveries.facts import AttemptEnded, AttemptPlan, Trigger
from hookfast.deliveries.life import Life
from hookfast.deliveries.outcome import Outcome, Result
from hookfast.deliveries.retry_plan import PlanSpec
from hookfast.ids import new_id

MINUTES: PlanSpec = {"delays_seconds": [60, 600], "jitter": 0}
NO_RETRIES: PlanSpec = {"delays_seconds": []}
TOOK_MS = 5.0


def answer(status_code: int) -> Outcome:
    """Return the outcome of a request with this response status."""
    succeeded = 200 <= status_code < 300
    return Outcome(
        result=Result.SUCCESS if succeeded else Result.STATUS,
        duration_ms=TOOK_MS,
        status_code=status_code,
        error=None if succeeded else f"The receiver answered {status_code}.",
    )


def ended(
    attempt: AttemptPlan, status_code: int, started_at: datetime, *, plan: PlanSpec = MINUTES
) -> AttemptEnded:
    """Return an attempt that ended with this response status. Two calls return two attempts, with
    the same number."""
    return AttemptEnded(
        attempt_id=new_id("att", started_at),
        attempt=attempt,
        started_at=started_at,
        outcome=answer(status_code),
        plan=plan,
        timeout_seconds=10,
        jitter=0.5,
    )


def success(life: Life, started_at: datetime) -> AttemptEnded:
    """Return the plan's next attempt, which succeeded."""
    trigger = Trigger.RETRY if life.attempts else Trigger.FIRST
    attempt = AttemptPlan(
        number=life.attempts + 1,
        trigger=trigger,
        round=life.round,
        in_plan=True,
        position=life.position,
    )
    return ended(attempt, 200, started_at)
