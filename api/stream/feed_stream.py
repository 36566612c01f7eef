"""The pieces of the event stream: events as they become visible, until its key stops working or the
database is away. The client can always resume with its last id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

from sqlalchemy.exc import SQLAlchemyError

from api.stream.blocks import gap_block, heartbeat, opening
from api.stream.hub import Follower, StreamHub
from hookfast.outage_log import DATABASE
from hookfast.storage.feed.cursor import Cursor
from hookfast.storage.feed.feed import FeedEvent, FeedFilter, Gap

HEARTBEAT_SECONDS = 15.0
KEY_CHECK_SECONDS = 15.0
_KEY_UNCHECKED_SECONDS = 60.0  # a stream may continue this long if its key cannot be checked

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
    called now and then, and may raise the database's errors."""
    first = opening(after)
    yield first if gap is None else first + gap_block(gap)
    key = _KeyCheck(key_works)
    async with hub.following(chosen, after) as follower:
        while True:
            try:
                async for piece in _next(follower, pieces):
                    # checked before sending: a client whose key ended must not get the event
                    if not await key.works():
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


class _KeyCheck:
    """Checks every 15 seconds whether the key of a stream still works."""

    def __init__(self, check: Callable[[], Awaitable[bool]]) -> None:
        self._check = check
        self._clock = asyncio.get_running_loop().time
        self._confirmed_at = self._checked_at = self._clock()

    async def works(self) -> bool:
        now = self._clock()
        if now - self._checked_at < KEY_CHECK_SECONDS:
            return True
        self._checked_at = now
        try:
            if not await self._check():
                return False
        except SQLAlchemyError:
            return now - self._confirmed_at <= _KEY_UNCHECKED_SECONDS
        self._confirmed_at = now
        return True
