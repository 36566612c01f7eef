"""The bodies of operational events, by which Hookfast reports to its operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field

from api.http.fields import (
    DeliveryId,
    EndpointId,
    EventId,
    SourceId,
    SubscriptionId,
    TenantId,
    Time,
)
from api.openapi.webhooks.events import Envelope
from hookfast.deliveries.outcome import Reason
from hookfast.endpoints.circuit import Cause
from hookfast.events.operational import Kind

_T = TypeVar("_T")
OperationalType = Annotated[_T, Field(description="The kind of operational event.")]
OperationalData = Annotated[_T, Field(description="What happened, and to what.")]


class AboutEndpoint(BaseModel):
    """The endpoint that an operational event is about."""

    endpoint_id: EndpointId
    tenant_id: TenantId
    url: str | None = Field(
        description="The endpoint's URL in short form, since its path may be a secret; null if the "
        "endpoint is polled."
    )


class AboutOutage(AboutEndpoint):
    """The endpoint that an operational event is about, and its failures."""

    episode: int = Field(description="Number of the endpoint's outage, from 1.")
    cause: Cause | None = Field(description="Why the circuit left the state closed.")
    opened_at: Time | None = Field(description="When the circuit opened.")
    failing_since: Time | None = Field(description="The first failure since the last success.")
    consecutive_failures: int = Field(description="Failed attempts since the last success.")
    last_error: str | None = Field(description="A sentence about the newest failure.")


class AboutRecovery(AboutOutage):
    """The endpoint that recovered, and its outage."""

    drained: int = Field(description="How many held deliveries were sent after the recovery.")


class AboutDisabled(AboutOutage):
    """The endpoint that was disabled, and its failures."""

    reason: str = Field(description="A sentence for people.")


class AboutDeadLetter(BaseModel):
    """A delivery that ended without success."""

    delivery_id: DeliveryId
    tenant_id: TenantId
    endpoint_id: EndpointId
    subscription_id: SubscriptionId
    event_id: EventId
    event_type: str = Field(
        description="Type of the event, e.g. `order.invoice.paid`.", examples=["order.invoice.paid"]
    )
    attempt_count: int = Field(description="Requests made for it, including resends.")
    status: Literal["dead", "gone"] = Field(
        description="`gone`: the receiver answered 410. `dead`: it failed for any other reason."
    )
    reason: Reason = Field(description="Why it ended, for programs; stable.")


class AboutLoop(BaseModel):
    """A source that rejected a request which had come through it too often."""

    source_id: SourceId
    tenant_id: TenantId
    hops: int = Field(description="Sources that the rejected request had already passed.")
    max_hops: int = Field(description="The most sources a request may pass, this one included.")
    detected_at: Time = Field(description="When the request was rejected.")


class CircuitOpened(Envelope):
    """An endpoint fails: its deliveries are held, and it is probed."""

    type: OperationalType[Literal[Kind.CIRCUIT_OPENED]]
    data: OperationalData[AboutOutage]


class CircuitClosed(Envelope):
    """An endpoint's outage is over: nothing is held for it any more."""

    type: OperationalType[Literal[Kind.CIRCUIT_CLOSED]]
    data: OperationalData[AboutRecovery]


class EndpointDisabled(Envelope):
    """An endpoint was disabled: by a person, by its answer 410, or after failing for too long."""

    type: OperationalType[Literal[Kind.ENDPOINT_DISABLED]]
    data: OperationalData[AboutDisabled]


class EndpointEnabled(Envelope):
    """A person enabled an endpoint again."""

    type: OperationalType[Literal[Kind.ENDPOINT_ENABLED]]
    data: OperationalData[AboutEndpoint]


class DeliveryDead(Envelope):
    """A delivery ended without success. It can be sent again."""

    type: OperationalType[Literal[Kind.DELIVERY_DEAD]]
    data: OperationalData[AboutDeadLetter]


class LoopDetected(Envelope):
    """A source rejects requests that go round in a loop; at most one event per source and hour."""

    type: OperationalType[Literal[Kind.LOOP_DETECTED]]
    data: OperationalData[AboutLoop]


OPERATIONAL: Mapping[Kind, type[Envelope]] = {
    Kind.CIRCUIT_OPENED: CircuitOpened,
    Kind.CIRCUIT_CLOSED: CircuitClosed,
    Kind.ENDPOINT_DISABLED: EndpointDisabled,
    Kind.ENDPOINT_ENABLED: EndpointEnabled,
    Kind.DELIVERY_DEAD: DeliveryDead,
    Kind.LOOP_DETECTED: LoopDetected,
}
"""The body of each operational event."""
