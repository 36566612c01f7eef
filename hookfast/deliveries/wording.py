"""The words for a delivery's state, for why it waits or ended, and for what Hookfast does next.

Temporal's texts, the API's descriptions, the commands and both sites take them from here. There are
two tones: operators know circuits and dead letters, and the customers who own the endpoints need
not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from hookfast.deliveries.lane import Place
from hookfast.deliveries.outcome import DeliveryStatus, Reason


class Tone(Enum):
    """Whom a text is for."""

    OPERATOR = auto()
    CUSTOMER = auto()


@dataclass(frozen=True, slots=True)
class _Words:
    """A text for operators, and one for customers where that differs."""

    operator: str
    customer: str | None = None

    def to(self, tone: Tone) -> str:
        if tone is Tone.OPERATOR or self.customer is None:
            return self.operator
        return self.customer


_REASONS: Final[Mapping[str, _Words]] = {
    Reason.ENDPOINT_LIMIT: _Words(
        "the endpoint's limits gave it a later turn", "the endpoint's rate limit is reached"
    ),
    Reason.ENDPOINT_PAUSED: _Words("the endpoint is paused"),
    Reason.CIRCUIT_OPEN: _Words(
        "the endpoint's circuit is open", "the endpoint failed too often and is on hold"
    ),
    Reason.CIRCUIT_HALF_OPEN: _Words(
        "the endpoint's circuit is half-open",
        "the endpoint failed too often and is being tested",
    ),
    Reason.CIRCUIT_DRAINING: _Words(
        "the endpoint's circuit is draining",
        "the endpoint works again and is catching up",
    ),
    Reason.RETRIES_EXHAUSTED: _Words("all retries are used up", "every attempt failed"),
    Reason.PLAN_EXPIRED: _Words("the retry plan expired", "it could not be delivered in time"),
    Reason.NOT_RETRYABLE: _Words(
        "the retry plan does not retry this answer", "this answer is not tried again"
    ),
    Reason.LOOP_DETECTED: _Words("the receiver answered 508: the event goes round in a loop"),
    Reason.GONE: _Words("the receiver answered 410 Gone"),
    Reason.ENDPOINT_DISABLED: _Words("the endpoint is disabled", "the endpoint was off"),
    Reason.ENDPOINT_DELETED: _Words("the endpoint was deleted"),
    Reason.MAPPING_FAILED: _Words(
        "the subscription's mapping failed", "no body could be made of the event"
    ),
    "not_found": _Words("the delivery does not exist any more"),
}
_QUEUED: Final = _Words(
    "Waiting for its turn behind another delivery with its ordering key",
    "It waits for an earlier message",
)
_STATES: Final[Mapping[DeliveryStatus, _Words]] = {
    DeliveryStatus.PENDING: _Words("Waiting for its first attempt", "The first attempt is due"),
    DeliveryStatus.RETRYING: _Words("Failing", "Not delivered yet"),
    DeliveryStatus.HELD: _Words("Held", "It waits"),
    DeliveryStatus.PAUSED: _Words("Paused by a person", "It is paused"),
    DeliveryStatus.DELIVERED: _Words("Delivered", "Your endpoint accepted it"),
    DeliveryStatus.DEAD: _Words("Dead letter", "It was not delivered"),
    DeliveryStatus.GONE: _Words("Gone", "It was not delivered"),
    DeliveryStatus.CANCELLED: _Words("Cancelled by a person", "It was cancelled"),
}
_NEXT_BY_REASON: Final[Mapping[str, _Words]] = {
    Reason.ENDPOINT_LIMIT: _Words("It is attempted when its turn comes."),
    Reason.ENDPOINT_PAUSED: _Words(
        "It is sent when the endpoint is resumed.", "It is sent when you resume the endpoint."
    ),
    Reason.CIRCUIT_OPEN: _Words(
        "Single deliveries probe the endpoint; when a probe succeeds, those on hold are sent.",
        "A single message is sent now and then to see whether the endpoint works again; then the "
        "others follow by themselves.",
    ),
    Reason.CIRCUIT_HALF_OPEN: _Words(
        "A probe is in progress, or the next delivery is the probe; if it succeeds, those on hold "
        "are sent.",
        "A single message is being sent to see whether the endpoint works again; if it arrives, "
        "the others follow by themselves.",
    ),
    Reason.CIRCUIT_DRAINING: _Words(
        "Those on hold are sent at a rising rate, oldest first, and its turn comes by itself.",
        "The messages that waited are being sent, oldest first.",
    ),
}
_UNSENT: Final = _Words("", "You can resend it.")
_NEXT: Final[Mapping[DeliveryStatus, _Words]] = {
    DeliveryStatus.RETRYING: _Words("", "It will be tried again."),
    DeliveryStatus.HELD: _Words(
        "It is sent when its endpoint is ready.", "It is sent when the endpoint can take it."
    ),
    DeliveryStatus.PAUSED: _Words(
        "Nothing is sent until it is resumed.", "It is sent when you resume it."
    ),
    DeliveryStatus.DEAD: _UNSENT,
    DeliveryStatus.GONE: _UNSENT,
    DeliveryStatus.CANCELLED: _UNSENT,
}
_CUSTOMER_LABELS: Final[Mapping[DeliveryStatus, str]] = {
    DeliveryStatus.PENDING: "sending",
    DeliveryStatus.HELD: "waiting",
    DeliveryStatus.DEAD: "failed",
    DeliveryStatus.GONE: "failed",
}


def reason_text(reason: str, tone: Tone = Tone.OPERATOR) -> str:
    """Return in words why a delivery waits or ended, for use within a sentence."""
    known = _REASONS.get(reason)
    return reason.replace("_", " ") if known is None else known.to(tone)


def customer_label(status: DeliveryStatus, place: Place | str | None = None) -> str:
    """Return a delivery's state in a word, as a customer's badge shows it."""
    if is_queued(status, place):
        status = DeliveryStatus.HELD  # for a customer both wait
    return _CUSTOMER_LABELS.get(status, status.value)


def state(
    status: DeliveryStatus,
    reason: str | None,
    *,
    tone: Tone,
    place: Place | str | None = None,
) -> str:
    """Return a delivery's state and the reason for it, as a sentence without its full stop. `place`
    is its place in its lane, if it has one."""
    if is_queued(status, place):
        return _QUEUED.to(tone)
    text = _STATES[status].to(tone)
    return text if reason is None else f"{text}: {reason_text(reason, tone)}"


def next_step(
    status: DeliveryStatus,
    reason: str | None,
    *,
    tone: Tone,
    place: Place | str | None = None,
) -> str:
    """Return a sentence on what happens next with a delivery; empty if nothing does, or if its next
    attempt says it."""
    if is_queued(status, place):
        return "It is sent when its turn comes."
    known = None if status.finished else _NEXT_BY_REASON.get(reason or "")
    known = known or _NEXT.get(status)
    return "" if known is None else known.to(tone)


def is_queued(status: DeliveryStatus, place: Place | str | None) -> bool:
    """Whether a delivery waits for others of its lane, and for nothing else."""
    return place == Place.QUEUED and status in (DeliveryStatus.PENDING, DeliveryStatus.RETRYING)


REASON_LIST: Final = "; ".join(f"`{reason}`: {reason_text(reason)}" for reason in Reason)
"""Every reason with its meaning, for the API's documentation."""
