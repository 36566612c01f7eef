"""The sentence at the top of a delivery's page: its state and the reason for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from api.routes.deliveries import AttemptView, DeliveryDetail
from api.site.formatting import millis, number, span
from hookfast.deliveries.answer import status_text
from hookfast.deliveries.lane import Place
from hookfast.deliveries.outcome import DeliveryStatus, Reason, Result
from hookfast.deliveries.wording import Tone, is_queued, next_step, state

_MAX_EXCERPT: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The sentence, and the start of the last answer's body, which is quoted after it. Without a
    full stop: a quotation or the next attempt follows. `next` is a sentence on what happens
    next, or empty."""

    text: str
    excerpt: str | None = None
    next: str = ""


def summary_of(delivery: DeliveryDetail) -> Summary:
    """Return the summary of a delivery."""
    last = delivery.attempts[-1] if delivery.attempts else None
    parts = _state(delivery)
    if last is not None:
        parts.append(_answer(last, only=delivery.attempt_count == 1))
    elif delivery.status.finished and not delivery.attempt_count:
        parts.append("no attempt was made")
    excerpt = None if last is None or last.result is Result.SUCCESS else last.response_excerpt
    return Summary(
        text="; ".join(parts),
        excerpt=_shortened(excerpt),
        next=""
        if delivery.status.finished  # its buttons say what can be done
        else next_step(delivery.status, delivery.reason, tone=Tone.OPERATOR, place=delivery.place),
    )


def _state(delivery: DeliveryDetail) -> list[str]:
    """Return the parts of the sentence before the last answer."""
    status = delivery.status
    if status is DeliveryStatus.DELIVERED:
        return [_delivered(delivery)]
    parts = [state(status, delivery.reason, tone=Tone.OPERATOR, place=delivery.place)]
    if status is DeliveryStatus.RETRYING and not is_queued(status, delivery.place):
        parts.append(f"{_attempts(delivery)} so far")
    elif delivery.reason == Reason.RETRIES_EXHAUSTED:
        parts.append(_attempts(delivery))
    if status is DeliveryStatus.DEAD and delivery.place is Place.HEAD:
        waiting = _counted(delivery.waiting_behind, "delivery waits", "deliveries wait")
        parts.append(f"{waiting} behind it until it is resent or cancelled")
    return parts


def _delivered(delivery: DeliveryDetail) -> str:
    """Return which attempt delivered it: a later resend may have failed."""
    succeeded = [each.number for each in delivery.attempts if each.result is Result.SUCCESS]
    return f"Delivered by attempt {number(succeeded[0])}" if succeeded else "Delivered"


def _attempts(delivery: DeliveryDetail) -> str:
    """Return how many attempts or retries were made over which time."""
    counted = (
        _counted(delivery.retry_count, "retry", "retries")
        if delivery.retry_count
        else _counted(delivery.attempt_count, "attempt", "attempts")
    )
    if len(delivery.attempts) < 2:
        return counted
    # the first attempts of a long life may not be kept
    whole = delivery.attempts[0].number == 1
    began = delivery.attempts[0].started_at if whole else delivery.created_at
    return f"{counted} over {span(delivery.attempts[-1].started_at - began)}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{number(count)} {one if count == 1 else many}"


def _answer(attempt: AttemptView, *, only: bool) -> str:
    """Return what the last attempt resulted in."""
    took = millis(attempt.duration_ms)
    if attempt.status_code is not None:
        which = "the answer was" if only else "the last answer was"
        return f"{which} {status_text(attempt.status_code)} after {took}"
    which = "the attempt" if only else "the last attempt"
    return f"{which} failed after {took}: {(attempt.error or attempt.result.value).rstrip('.')}"


def _shortened(text: str | None) -> str | None:
    """Return the start of a text in one line; None for a blank one."""
    line = " ".join((text or "").split())
    return (line if len(line) <= _MAX_EXCERPT else f"{line[:_MAX_EXCERPT]}…") or None
