"""The pieces of the event stream: events as they become visible, until its key stops working or the
database is away. The client can always resume with its last id."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

from sqlalchemy.exc import SQLAlchemyError

from api.stream.blocks import gap_block, heartbeat, opening
from api.stream.hub import Follower, StreamHub
from hookfast.outage_log import DATABASE
from hookfast.storage.feed.cursor import Cursor
from hookfast.storage.feed.feed import FeedEvent, FeedFilter, Gap

HEARTBEAT_SECONDS = 15.0

Pieces = Callable[[Sequence[FeedEvent]], AsyncIterator[bytes]]
"""Converts events to pieces of the stream, each small enough to keep in memory for a client."""


async def feed_stream(
    hub: StreamHub,
    chosen: FeedFilter,
    *,
    after: Cursor,
    gap: Gap | None,
    pieces: Pieces,
    key_works: Callable[[], Awaitable[bool]],
) -> AsyncGenerator[bytes]:
    """Yield the stream of the events that `chosen` selects, from after the cursor. `key_works` is
    called before each piece, and may wait."""
    first = opening(after)
    yield first if gap is None else first + gap_block(gap)
    async with hub.following(chosen, after) as follower:
        while True:
            try:
                async for piece in _next(follower, pieces):
                    if not await key_works():
                        return
                    yield piece
            except SQLAlchemyError as error:
                # The client reconnects, and gets 503 until the database is back.
                DATABASE.failed(
                    "A stream ends because the database is away.", error=type(error).__name__
                )
                return


async def _next(follower: Follower, pieces: Pieces) -> AsyncIterator[bytes]:
    events = await follower.next(HEARTBEAT_SECONDS)
    if not events:
        yield heartbeat(follower.cursor)
    async for piece in pieces(events):
        yield piece
