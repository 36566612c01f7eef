"""The settings of event types and of the patterns that subscribe to them."""

from __future__ import annotations

from pydantic import BaseModel, Field

from hookfast.events.event_type import MAX_PARTS


class EventTypeSettings(BaseModel):
    """The rules of the event catalogue; a part of `Settings`."""

    event_type_parts: int | None = Field(
        None,
        ge=1,
        le=MAX_PARTS,
        description="Parts that the name of a new event type must have, such as 3 for "
        f"`order.invoice.paid`; default: 1 to {MAX_PARTS}. Registered ones stay valid.",
    )
    strict_subscriptions: bool = Field(
        False,
        description="Reject patterns that match no registered event type (422, "
        "`unknown_event_type`) in new and changed subscriptions; default: accept them with a "
        "warning.",
    )
