"""The event stream: events as they are emitted, for clients that cannot receive requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal, Reader
from api.access.key_recheck import key_still_works
from api.access.ownership import found, owned
from api.context.context import AppContext, Context
from api.http.fields import SourceId, TenantId, TimeInput
from api.http.response_body import covering_claim
from api.http.routing import router
from api.stream.blocks import event_block
from api.stream.feed_stream import feed_stream
from api.stream.response import StreamResponse
from hookfast.byte_budget import Claim
from hookfast.errors import InvalidInput
from hookfast.events.event_type import parse_pattern
from hookfast.ids import is_id
from hookfast.storage.accounts import tenants
from hookfast.storage.events import events as stored_events
from hookfast.storage.feed import feed
from hookfast.storage.feed.cursor import MAX_LENGTH, Cursor
from hookfast.storage.feed.feed import FeedEvent, FeedFilter, Gap
from hookfast.storage.inbox import inbox_entries, sources

routes = router("Stream")

_MAX_PATTERNS = 100
_PIECE_BYTES = 256 * 1024
_RAW_COPIES = 2  # of a received request when its block is made: its bytes, and their text

_EXAMPLE = """\
retry: 1000
: connected
id: MS4xODI3LjE3OTUx…

id: MS4xODI3LjE3OTU0…
event: event
data: {"id":"evt_…","type":"order.invoice.paid","created_at":"…","tenant_id":"tnt_…", \
"deliver_at":null,"source_id":null,"inbox_id":null,"traceparent":"…","payload":"full", \
"content_type":"application/json","headers":[],"body":"{\\"id\\":\\"evt_…\\", … }"}

: heartbeat
id: MS4xODI3LjE3OTU0…

"""
_OPENAPI: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Messages `event` (`data` is an event; its `body`, or `body_base64` if that "
        "is not text, has the exact bytes that a receiver gets) and `gap` (events between `from` "
        "and `to` may be missing, because they are no longer kept or the database was restored). "
        "A comment every 15 s if there is nothing else.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    }
}


@routes.get(
    "/stream",
    summary="Stream events as they are emitted",
    response_class=Response,
    responses=_OPENAPI,
)
async def stream_events(
    request: Request,
    context: AppContext,
    principal: Reader,
    tenant_id: Annotated[
        TenantId | None, Query(description="For operators: only events that this tenant sees.")
    ] = None,
    events: Annotated[
        list[str] | None,
        Query(
            max_length=_MAX_PATTERNS,
            description="Patterns (`order.**`); an event's type must match one of them.",
        ),
    ] = None,
    source_id: Annotated[
        SourceId | None, Query(description="Only events received through this source.")
    ] = None,
    payload: Annotated[
        Literal["full", "raw"],
        Query(
            description="`raw`: events received through a source have their original request, also "
            "if their data violate their schema; all others are `full`."
        ),
    ] = "full",
    after: Annotated[
        str | None,
        Query(
            max_length=MAX_LENGTH,
            description="Start after this message `id` or event id; default: now.",
        ),
    ] = None,
    since: Annotated[
        TimeInput | None,
        Query(description="Start with events from about this time; not with `after`."),
    ] = None,
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            max_length=MAX_LENGTH,
            description="Like `after`, which it overrides: sent by clients that reconnect.",
        ),
    ] = None,
) -> Response:
    """Server-Sent Events: every event that this key may see, including broadcasts, in the order in
    which they were committed, each with the body that a receiver gets. A client that loses the
    connection reconnects with `Last-Event-ID`, and misses nothing and gets nothing twice. Events
    with a later delivery time are sent at once. A stream ends when the server restarts or its key
    stops working."""
    context.stream_slots.check(principal.tenant_id)
    tenant = principal.tenant_for(tenant_id)
    patterns = [parse_pattern(text, pointer="events") for text in events or ()]
    chosen = FeedFilter(tenant_id=tenant, patterns=frozenset(patterns), source_id=source_id)
    async with context.database.read() as connection:
        if tenant_id is not None:
            found(await tenants.get(connection, tenant_id))
        if source_id is not None:
            owned(await sources.get(connection, source_id), principal)
        begin = last_event_id or after
        if begin is not None and since is not None and not last_event_id:
            raise InvalidInput.at("since", "give `after` or `since`, not both")
        now = context.clock()
        if begin is not None:
            pointer = "Last-Event-ID" if last_event_id else "after"
            place = await _place(connection, begin, principal, pointer=pointer)
        elif since is not None:
            place = await feed.cursor_since(connection, since, now=now)
        else:
            place = await feed.end_cursor(connection, now=now)
        gap: Gap | None = await feed.find_gap(connection, place, now=now)
    stream = feed_stream(
        context.streams,
        chosen,
        after=place if gap is None else gap.cursor,
        gap=gap,
        pieces=partial(_pieces, context, payload == "raw"),
        key_works=partial(key_still_works, request),
        memory=covering_claim(request.scope, "stream"),
    )
    return StreamResponse(stream, slots=context.stream_slots, tenant_id=principal.tenant_id)


async def _place(
    connection: AsyncConnection, text: str, principal: Principal, *, pointer: str
) -> Cursor:
    """Return the position of a cursor or an event's id. Raises InvalidInput, also for an event of
    another tenant."""
    if not is_id("evt", text):
        return Cursor.parse(text, pointer=pointer)
    event = await stored_events.get_summary(connection, text)
    place = await feed.cursor_of_event(connection, text)
    hidden = principal.tenant_id is not None and (
        event is None or event.tenant_id not in (None, principal.tenant_id)
    )
    if place is None or hidden:
        raise InvalidInput.at(pointer, "there is no such event, or it is no longer kept")
    return place


async def _pieces(
    context: Context, raw: bool, events: Sequence[FeedEvent], memory: Claim
) -> AsyncIterator[bytes]:
    """Yield the blocks of several events together. With `raw`, each original request is a piece by
    itself, because it may be many times larger than an event."""
    piece = bytearray()
    for event in events:
        inbox_id = event.inbox_id if raw else None
        if piece and (inbox_id is not None or len(piece) >= _PIECE_BYTES):
            yield bytes(piece)
            piece.clear()
        if inbox_id is not None:
            yield await _raw_block(context, event, inbox_id, memory)
        elif raw or not event.raw_only:
            piece += event_block(event)
    if piece:
        yield bytes(piece)


async def _raw_block(context: Context, event: FeedEvent, inbox_id: str, memory: Claim) -> bytes:
    """Return the block of an event with its original request, which is counted until the block is
    made."""
    async with context.database.read() as connection:
        sizes = await inbox_entries.sizes(connection, [inbox_id])
    size = _RAW_COPIES * sizes.get(inbox_id, 0)
    await memory.grow(size)
    async with context.database.read() as connection:
        raws = await inbox_entries.raw_requests(connection, [inbox_id])
    block = event_block(event, raws.pop(inbox_id, None))
    memory.shrink(size)
    return block
