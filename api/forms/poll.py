"""What a poll answers: the events with their exact bodies, and where to go on."""

from __future__ import annotations

import base64
from typing import Any, Literal

from pydantic import BaseModel, Field

from api.http.fields import Time
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.events.envelope import thin_body
from hookfast.storage.feed.feed import Gap
from hookfast.storage.feed.poll import PollItem, PollPage
from hookfast.storage.feed.poll_positions import Acknowledged


class PolledDelivery(BaseModel):
    """How the sending of the same event fares."""

    id: str
    status: DeliveryStatus
    attempts: int
    reason: str | None


class PolledRequest(BaseModel):
    """The request an event came in with."""

    content_type: str
    headers: list[tuple[str, str]]
    body: str = Field(description="Base64 of its exact bytes.")


class _ItemFacts(BaseModel):
    message_id: str = Field(
        description="The same however often it comes: remember it. The delivery's id, which is "
        "`X-Hook-Id` where it is sent too; else the event's id."
    )
    cursor: str = Field(
        description="Acknowledges this item and those before it, where the rest of the page is "
        "not done with yet."
    )
    event_id: str
    type: str
    created_at: Time
    deliver_at: Time | None = Field(
        description="A time ahead that it was emitted for. It is polled when it was emitted."
    )
    subscription_id: str
    payload: Literal["full", "thin", "raw"]
    delivery: PolledDelivery | None = Field(
        description="Null at an endpoint with the mode `poll`: nothing is sent."
    )
    request: PolledRequest | None = Field(
        description="With the payload style `raw`, in place of `event`."
    )


class PolledItem(_ItemFacts):
    """One event for one subscription."""

    event: Any = Field(
        description="Byte for byte the body that is sent, or would be, before any encryption; "
        "null where there is a `request`."
    )


class GapView(BaseModel):
    """Events between these times may be missing before the first of `data`."""

    since: Time
    until: Time
    reason: Literal["expired", "restored"] = Field(
        description="`expired`: they are no longer kept. `restored`: the database is an older copy "
        "than the cursor; some events may come again."
    )


class _PageFacts(BaseModel):
    next_cursor: str = Field(
        description="Pass it as `cursor` once everything in `data` is safe: it acknowledges that."
    )
    done: bool = Field(description="Nothing more is there now. False: ask again at once.")
    acknowledged: str | None = Field(
        description="From here a poll without `cursor` goes on; null: nothing was acknowledged."
    )
    gap: GapView | None


class PollView(_PageFacts):
    """Events in the order in which they were committed."""

    data: list[PolledItem]


def body_of(
    page: PollPage, *, acknowledged: Acknowledged | None, gap: Gap | None, public_url: str
) -> bytes:
    """The answer's JSON. The events are in it byte for byte: a parser on the way would change
    numbers that it cannot hold."""
    facts = _PageFacts(
        next_cursor=str(page.cursor),
        done=not page.more,
        acknowledged=None if acknowledged is None else str(acknowledged.cursor),
        gap=None if gap is None else GapView(since=gap.since, until=gap.until, reason=gap.reason),
    )
    items = b",".join(_item(item, public_url=public_url) for item in page.items)
    return b'{"data":[' + items + b"]," + facts.model_dump_json().encode()[1:]


def _item(item: PollItem, *, public_url: str) -> bytes:
    event, delivery, raw = item.event, item.delivery, item.raw
    facts = _ItemFacts.model_validate(
        {
            "message_id": item.message_id,
            "cursor": str(item.cursor),
            "event_id": event.id,
            "type": event.type,
            "created_at": event.created_at,
            "deliver_at": event.deliver_at,
            "subscription_id": item.subscription_id,
            "payload": item.payload,
            "delivery": None
            if delivery is None
            else PolledDelivery(
                id=delivery.id,
                status=DeliveryStatus(delivery.status),
                attempts=delivery.attempts,
                reason=delivery.reason,
            ),
            "request": None
            if raw is None
            else PolledRequest(
                content_type=raw.content_type,
                headers=list(raw.headers),
                body=base64.b64encode(raw.body).decode(),
            ),
        }
    )
    return facts.model_dump_json().encode()[:-1] + b',"event":' + _event(item, public_url) + b"}"


def _event(item: PollItem, public_url: str) -> bytes:
    """As an attempt makes it (see `activities.delivery`)."""
    event = item.event
    if item.raw is not None:
        return b"null"
    if item.payload != "thin":
        return event.body
    return thin_body(
        event_id=event.id,
        event_type=event.type,
        created_at=event.created_at,
        tenant_id=event.tenant_id,
        url=f"{public_url}/v1/events/{event.id}",
    )
