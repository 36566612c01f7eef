"""What a step tells its workflow: how the row stands, and when to look again."""

from __future__ import annotations

from hookfast.deliveries.life import Life, Phase
from hookfast.deliveries.messages import StepResult
from hookfast.deliveries.outcome import Outcome, Reason
from hookfast.deliveries.retry_plan import PlanSpec, parse_plan


def report_of(life: Life, plan: PlanSpec, *, after: Outcome | None = None) -> StepResult:
    """The report of a step that left this life; `after` is what its attempt brought back."""
    return StepResult(
        status=life.status,
        reason=None if life.reason is None else life.reason.value,
        attempts=life.attempts,
        retries=life.retries,
        next_at=life.next_attempt_at,
        waits_for=_waits_for(life, plan, after),
        last_error=life.last_error,
    )


def _waits_for(life: Life, plan: PlanSpec, after: Outcome | None) -> str:
    """What it waits for, in words: "retry 3 of 78, after 503"."""
    if life.phase.ended:
        return ""
    if life.phase is Phase.PAUSED:
        return "paused; send the signal `resume`, `resend` or `cancel`"
    if life.phase is Phase.HELD:
        paused = life.reason is Reason.ENDPOINT_PAUSED
        return "held: its endpoint is paused" if paused else "held: its endpoint's circuit is open"
    if life.resend is not None:
        return f"attempt {life.attempts + 1}: resend"
    if life.attempts == 0:
        what = "first attempt"
    else:
        what = f"retry {life.retries + 1} of {len(parse_plan(plan).delays)}"
    if life.phase is Phase.LIMITED:
        return f"{what}, when its endpoint's limits let it"
    return what if after is None else f"{what}, after {after.status_code or after.result.value}"
