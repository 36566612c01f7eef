"""The pieces of the event stream: events as they become visible, until its key stops working or the
database is away. The client can always resume with its last id."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager

import structlog
from sqlalchemy.exc import SQLAlchemyError

from api.stream.blocks import gap_block, heartbeat, opening
from api.stream.hub import Follower, StreamHub
from hookfast.byte_budget import Claim, NoRoom
from hookfast.outage_log import DATABASE
from hookfast.storage.feed.cursor import Cursor
from hookfast.storage.feed.feed import FeedEvent, FeedFilter, Gap

HEARTBEAT_SECONDS = 15.0

log = structlog.get_logger()

Pieces = Callable[[Sequence[FeedEvent], Claim], AsyncIterator[bytes]]
"""Converts events to pieces of the stream. What it loads beside them is counted in the claim."""


async def feed_stream(
    hub: StreamHub,
    chosen: FeedFilter,
    *,
    after: Cursor,
    gap: Gap | None,
    pieces: Pieces,
    key_works: Callable[[], Awaitable[bool]],
    memory: AbstractContextManager[Claim],
) -> AsyncGenerator[bytes]:
    """Yield the stream of the events that `chosen` selects, from after the cursor. `key_works` is
    called before each piece, and may wait. `memory` is entered for what waits for the client."""
    first = opening(after)
    yield first if gap is None else first + gap_block(gap)
    with memory as held:
        async with hub.following(chosen, after, memory=held) as follower:
            while True:
                try:
                    async for piece in _next(follower, pieces, held):
                        held.count(len(piece))
                        if not await key_works():
                            return
                        yield piece
                        held.shrink(len(piece))
                except NoRoom:
                    # The client reconnects in a second.
                    log.info("A stream ends: there is no memory for its events.")
                    return
                except SQLAlchemyError as error:
                    # The client reconnects, and gets 503 until the database is back.
                    DATABASE.failed(
                        "A stream ends because the database is away.", error=type(error).__name__
                    )
                    return


async def _next(follower: Follower, pieces: Pieces, memory: Claim) -> AsyncIterator[bytes]:
    events = await follower.next(HEARTBEAT_SECONDS)
    if not events:
        yield heartbeat(follower.cursor)
    async for piece in pieces(events, memory):
        yield piece
