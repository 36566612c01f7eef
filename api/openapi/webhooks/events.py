"""The bodies of deliveries, in the payload styles that have a shape."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from api.http.fields import EventId, TenantId, Time

_ID = "evt_019a0b3c5d6e7f8091a2b3c4d5e6f708"


class Envelope(BaseModel):
    """The members with which the body of every delivery begins."""

    id: EventId = Field(
        description="Id of the event. It is the same for every endpoint that gets the event, "
        "unlike `X-Hook-Id`."
    )
    type: str = Field(description="The event's type.")
    created_at: Time = Field(description="When the event was emitted.")
    tenant_id: TenantId | None = Field(
        description="The tenant that the event belongs to; null if it goes to every tenant."
    )


class DeliveredEvent(Envelope):
    """The body of a delivery with payload style `full`."""

    data: Any = Field(
        description="The event's data, byte for byte as it was emitted, with its numbers, order of "
        "members and spaces."
    )


class EventLink(BaseModel):
    """Where to read an event."""

    id: EventId
    url: str = Field(
        description="Read it with an API key of the tenant.",
        examples=[f"https://hooks.example.com/v1/events/{_ID}"],
    )


class ThinDeliveredEvent(Envelope):
    """The body of a delivery with payload style `thin`, which leaves out the event's data."""

    data: EventLink = Field(description="Where to read the event with its data.")
