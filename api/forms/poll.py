"""The response to a poll: events with their exact bodies, and the cursor to continue from."""

from __future__ import annotations

import base64
import time
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from api.forms.delivery_filter import STATUSES
from api.http.fields import Time
from hookfast.deliveries.mapping import MappingFailed, mapped_body
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.events.envelope import thin_body
from hookfast.resources.subscription import PayloadStyle
from hookfast.storage.feed.feed import Gap
from hookfast.storage.feed.poll import PollItem, PollPage
from hookfast.storage.feed.poll_positions import Acknowledged

_MAX_SECONDS: Final = 0.25
"""CPU time after which a page takes no further events: each mapping may take 0.1 s."""


class PolledDelivery(BaseModel):
    """The delivery of the same event to the same endpoint."""

    id: str = Field(description="Id of the delivery, `dlv_…`.")
    status: DeliveryStatus = Field(description=STATUSES)
    attempts: int = Field(description="Requests made so far, including resends.")
    reason: str | None = Field(description="Why it waits or ended; null if there is no problem.")


class PolledRequest(BaseModel):
    """The request that an event was received with."""

    content_type: str = Field(description="The request's `Content-Type`.")
    headers: list[tuple[str, str]] = Field(
        description="The headers that may be forwarded, as pairs, without credentials."
    )
    body: str = Field(description="Base64 of its exact bytes.")


class _ItemMembers(BaseModel):
    message_id: str = Field(
        description="The same each time the item is returned: use it to recognise duplicates. The "
        "delivery's id, which is also its `X-Hook-Id`, if the event is sent too; otherwise the "
        "event's id."
    )
    cursor: str = Field(
        description="Acknowledges this item and those before it, if you have not processed the "
        "rest of the page yet."
    )
    event_id: str
    type: str = Field(description="The event's type, e.g. `order.invoice.paid`.")
    created_at: Time = Field(description="When the event was emitted.")
    deliver_at: Time | None = Field(
        description="The later time at which it is to be delivered. Polling returns it at once."
    )
    subscription_id: str
    payload: PayloadStyle
    delivery: PolledDelivery | None = Field(
        description="Null for an endpoint with the mode `poll`: nothing is sent."
    )
    request: PolledRequest | None = Field(
        description="With the payload style `raw`, instead of `event`."
    )
    mapping_error: str | None = Field(
        description="With the payload style `mapped`, why the subscription's mapping failed for "
        "this event. `event` is then the same as with the payload `full`."
    )


class PolledItem(_ItemMembers):
    """One event for one subscription."""

    event: Any = Field(
        description="Byte for byte the body that is or would be sent, before any encryption; null "
        "if there is a `request`."
    )


class GapView(BaseModel):
    """Events between these times may be missing before the first of `data`."""

    since: Time = Field(description="Events emitted from here on may be missing.")
    until: Time = Field(description="Events emitted from here on are complete again.")
    reason: Literal["expired", "restored"] = Field(
        description="`expired`: they are no longer kept. `restored`: the database is an older copy "
        "than the cursor; some events may be returned again."
    )


class _PageMembers(BaseModel):
    next_cursor: str = Field(
        description="Pass it as `cursor` once you have processed or stored all of `data`: that "
        "acknowledges it."
    )
    done: bool = Field(description="There are no more events now. If false, poll again at once.")
    acknowledged: str | None = Field(
        description="A poll without `cursor` continues here; null: nothing was acknowledged."
    )
    gap: GapView | None = Field(
        description="Events that may be missing before the first of `data`; null: none are."
    )


class PollView(_PageMembers):
    """Events in the order in which they were committed."""

    data: list[PolledItem] = Field(description="The events, oldest first; empty if none is new.")


def poll_body(
    page: PollPage, *, acknowledged: Acknowledged | None, gap: Gap | None, public_url: str
) -> bytes:
    """Return the JSON of a poll's response. Event bodies are inserted byte for byte: parsing them
    would change numbers that Python cannot represent. A page whose mappings take long ends early.
    """
    items: list[bytes] = []
    next_cursor, more = page.cursor, page.more
    begun = time.thread_time()
    for item in page.items:
        items.append(_item(item, public_url=public_url))
        costly = item.mapping is not None and time.thread_time() - begun > _MAX_SECONDS
        # the cursor of an event's first item of several does not acknowledge the event
        if costly and item.cursor == item.event.cursor and item is not page.items[-1]:
            next_cursor, more = item.cursor, True
            break
    members = _PageMembers(
        next_cursor=str(next_cursor),
        done=not more,
        acknowledged=None if acknowledged is None else str(acknowledged.cursor),
        gap=None if gap is None else GapView(since=gap.since, until=gap.until, reason=gap.reason),
    )
    return b'{"data":[' + b",".join(items) + b"]," + members.model_dump_json().encode()[1:]


def _item(item: PollItem, *, public_url: str) -> bytes:
    event, raw = item.event, item.raw
    body, mapping_error = _event(item, public_url)
    members = _ItemMembers.model_validate(
        {
            "message_id": item.message_id,
            "cursor": str(item.cursor),
            "event_id": event.id,
            "type": event.type,
            "created_at": event.created_at,
            "deliver_at": event.deliver_at,
            "subscription_id": item.subscription_id,
            "payload": item.payload,
            "delivery": item.delivery,
            "request": None
            if raw is None
            else PolledRequest(
                content_type=raw.content_type,
                headers=list(raw.headers),
                body=base64.b64encode(raw.body or b"").decode(),
            ),
            "mapping_error": mapping_error,
        },
        from_attributes=True,
    )
    return members.model_dump_json().encode()[:-1] + b',"event":' + body + b"}"


def _event(item: PollItem, public_url: str) -> tuple[bytes, str | None]:
    """Return the body that an attempt would send (see `activities.attempt`), or the event's own
    with the reason why its mapping failed."""
    event = item.event
    if item.raw is not None:
        return b"null", None
    if item.mapping is not None:
        try:
            return mapped_body(item.mapping, event.body), None
        except MappingFailed as error:
            return event.body, error.reason
    if item.payload != "thin":
        return event.body, None
    thin = thin_body(
        event_id=event.id,
        event_type=event.type,
        created_at=event.created_at,
        tenant_id=event.tenant_id,
        url=f"{public_url}/v1/events/{event.id}",
    )
    return thin, None
