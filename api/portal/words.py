"""The portal's words for states and reasons: what they mean to a customer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from hookfast.deliveries.outcome import DeliveryStatus, Reason, Result, reason_text
from hookfast.endpoints.health import Health, is_by_request


@dataclass(frozen=True, slots=True)
class State:
    """A state in a word, the tone of its badge, and what it means in a sentence."""

    label: str
    tone: str
    meaning: str


_ENDPOINT: Final[Mapping[Health, State]] = {
    Health.HEALTHY: State("working", "good", "Messages are sent as they happen."),
    Health.FAILING: State(
        "failing", "warn", "The last attempts failed. Messages are sent and tried again."
    ),
    Health.CIRCUIT_OPEN: State(
        "on hold",
        "warn",
        "It failed too often, so new messages wait. A single one is sent now and then to see "
        "whether it works again; then the others follow by themselves.",
    ),
    Health.DRAINING: State(
        "catching up", "wait", "It works again. The messages that waited are being sent."
    ),
    Health.PAUSED: State("paused", "hold", "Messages wait until you resume it."),
    Health.DISABLED: State(
        "off", "bad", "Nothing is sent. New messages fail until you switch it on again."
    ),
}
_DELIVERY: Final[Mapping[DeliveryStatus, State]] = {
    DeliveryStatus.PENDING: State("sending", "wait", "The first attempt is due."),
    DeliveryStatus.RETRYING: State(
        "retrying", "warn", "Not delivered yet. It will be tried again."
    ),
    DeliveryStatus.HELD: State("waiting", "hold", "It is sent when the endpoint can take it."),
    DeliveryStatus.PAUSED: State("paused", "hold", "It is sent when you resume it."),
    DeliveryStatus.DELIVERED: State("delivered", "good", "Your endpoint accepted it."),
    DeliveryStatus.DEAD: State("failed", "bad", "It was not delivered. You can resend it."),
    DeliveryStatus.GONE: State("failed", "bad", "It was not delivered. You can resend it."),
    DeliveryStatus.CANCELLED: State("cancelled", "off", "It was cancelled. You can resend it."),
}
_NOT_SENT: Final = State("not sent", "off", "The endpoint is off, so it is about to fail.")

_REASONS: Final[Mapping[str, str]] = {
    Reason.ENDPOINT_LIMIT: "the endpoint's rate limit is reached",
    Reason.CIRCUIT_OPEN: "the endpoint failed too often and is on hold",
    Reason.RETRIES_EXHAUSTED: "every attempt failed",
    Reason.PLAN_EXPIRED: "it could not be delivered in time",
    Reason.NOT_RETRYABLE: "this answer is not tried again",
    Reason.ENDPOINT_DISABLED: "the endpoint was off",
    Reason.MAPPING_FAILED: "no body could be made of the event",
}


def endpoint_state(health: Health, reason: str | None) -> State:
    """Return what an endpoint's health means to its owner, with the reason of its state. An
    endpoint is off in red only if the service switched it off."""
    state = _ENDPOINT[health]
    return replace(state, tone="off") if is_by_request(health, reason) else state


def delivery_state(status: DeliveryStatus, *, is_off: bool) -> State:
    """Return what a delivery's status means to the owner of its endpoint, which may be off."""
    if is_off and status in (DeliveryStatus.PENDING, DeliveryStatus.RETRYING):
        return _NOT_SENT
    return _DELIVERY[status]


def reason_of(reason: str | None) -> str:
    """Return why a delivery waits or ended, for use within a sentence; '' for no reason."""
    return "" if reason is None else _REASONS.get(reason, reason_text(reason))


def state_of_test(result: Result) -> State:
    """Return what the result of a test means."""
    if result is Result.SUCCESS:
        return State("delivered", "good", "Your endpoint accepted it.")
    return State("failed", "bad", "Your endpoint did not accept it. Tests are not tried again.")
