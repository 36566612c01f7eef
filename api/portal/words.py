"""The portal's words for states and reasons: what they mean to a customer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from api.forms.endpoint import EndpointView
from api.routes.deliveries import DeliveryView
from api.site.formatting import tone
from hookfast.deliveries import wording
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.deliveries.wording import Tone
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
_POLLED: Final = State("working", "good", "Messages wait until your program fetches them.")
_NOT_SENT: Final = State("not sent", "off", "The endpoint is off, so it is about to fail.")


def endpoint_state(endpoint: EndpointView) -> State:
    """Return what an endpoint's health means to its owner. An endpoint is off in red only if the
    service switched it off."""
    health = endpoint.health
    state = _POLLED if (endpoint.mode, health) == ("poll", Health.HEALTHY) else _ENDPOINT[health]
    return replace(state, tone="off") if is_by_request(health, endpoint.state_reason) else state


def delivery_state(delivery: DeliveryView, *, is_off: bool) -> State:
    """Return what a delivery's state means to the owner of its endpoint, which may be off."""
    status, reason = delivery.status, delivery.reason
    if is_off and status in (DeliveryStatus.PENDING, DeliveryStatus.RETRYING):
        return _NOT_SENT
    said = wording.state(status, reason, tone=Tone.CUSTOMER, place=delivery.place)
    following = wording.next_step(status, reason, tone=Tone.CUSTOMER, place=delivery.place)
    label = wording.customer_label(status, delivery.place)
    return State(label, tone(status.value), f"{said}. {following}".rstrip())


def state_of_test(result: Result) -> State:
    """Return what the result of a test means."""
    if result is Result.SUCCESS:
        return State("delivered", "good", "Your endpoint accepted it.")
    return State("failed", "bad", "Your endpoint did not accept it. Tests are not tried again.")
