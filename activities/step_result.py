"""The result of a delivery's step, as its workflow and Temporal's UI get it."""

from __future__ import annotations

import structlog

from hookfast.deliveries.actions import names
from hookfast.deliveries.lane import Place
from hookfast.deliveries.life import Life, Phase
from hookfast.deliveries.messages import StepResult
from hookfast.deliveries.outcome import DeliveryStatus, Outcome
from hookfast.deliveries.retry_plan import PlanSpec, parse_plan
from hookfast.deliveries.wording import reason_text
from hookfast.errors import NotFound

log = structlog.get_logger()


def gone(delivery_id: str, error: NotFound) -> StepResult:
    """The result for a delivery without a row, as after restoring an older database: nothing can be
    sent or recorded, now or later."""
    log.error("A delivery has no row; its workflow ends.", delivery_id=delivery_id)
    return StepResult(DeliveryStatus.DEAD, "not_found", last_error=error.message)


def result_of(life: Life, plan: PlanSpec, *, after: Outcome | None = None) -> StepResult:
    """The result of a step that left the delivery in this state; `after` is its attempt's
    outcome."""
    return StepResult(
        status=life.status,
        reason=None if life.reason is None else life.reason.value,
        attempts=life.attempts,
        retries=life.retries,
        next_at=life.next_attempt_at,
        held_since=life.waiting_since,
        waits_for=_waits_for(life, plan, after),
        last_error=life.last_error,
    )


def _waits_for(life: Life, plan: PlanSpec, after: Outcome | None) -> str:
    """What the delivery waits for, in words: "retry 3 of 78, after 503"."""
    if life.phase.ended:
        return ""
    if life.place is Place.QUEUED:
        return "its turn: an earlier delivery of its lane is not done"
    if life.phase is Phase.PAUSED:
        return f"paused; send the signal {names(DeliveryStatus.PAUSED)}"
    if life.phase is Phase.HELD:
        return f"a check ({reason_text(life.reason or '')})"
    if life.resend is not None:
        return f"attempt {life.attempts + 1}: resend"
    if life.attempts == 0:
        what = "first attempt"
    else:
        what = f"retry {life.retries + 1} of {len(parse_plan(plan).delays)}"
    if life.phase is Phase.LIMITED:
        return f"{what}, when its endpoint's limits let it"
    return what if after is None else f"{what}, after {after.status_code or after.result.value}"
