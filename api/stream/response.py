"""The streaming response: it sends events as they become visible, until the client leaves or reads
too slowly, its key stops working, or the server shuts down. The client can always resume with its
last id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import structlog
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.stream.blocks import gap_block, heartbeat, opening
from api.stream.connection import ConnectionHandle, connection_of
from api.stream.hub import Follower, StreamHub
from api.stream.slots import StreamSlots
from hookfast.dependency import DATABASE
from hookfast.storage.feed.cursor import Cursor
from hookfast.storage.feed.feed import FeedEvent, FeedFilter, Gap

HEARTBEAT_SECONDS = 15.0
STALL_SECONDS = 30.0
"""A client that reads nothing for this long is disconnected. Up to then, 64 KiB and one message
wait for it."""
KEY_CHECK_SECONDS = 15.0
_KEY_UNCHECKED_SECONDS = 60.0  # a stream may continue this long if its key cannot be checked

Pieces = Callable[[Sequence[FeedEvent]], AsyncIterator[bytes]]
"""Converts events to pieces of the stream, each small enough to keep in memory for a client."""

log = structlog.get_logger()


class StreamResponse(Response):
    """A `text/event-stream` of the events that `chosen` selects, from after the cursor `after`.
    `key_works` is called now and then, and may raise the database's errors. The stream takes a slot
    of `tenant_id`."""

    media_type = "text/event-stream"

    def __init__(
        self,
        *,
        hub: StreamHub,
        slots: StreamSlots,
        chosen: FeedFilter,
        after: Cursor,
        gap: Gap | None,
        tenant_id: str | None,
        pieces: Pieces,
        key_works: Callable[[], Awaitable[bool]],
    ) -> None:
        # proxies must not buffer the stream, as nginx does by default
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._hub = hub
        self._slots = slots
        self._chosen = chosen
        self._after = after
        self._gap = gap
        self._tenant_id = tenant_id
        self._pieces = pieces
        self._key_works = key_works

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = connection_of(scope)
        # Raises before anything is sent, so that the client gets an error response.
        with self._slots.enter(self._tenant_id):
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            try:
                await self._stream_until_left(receive, send, connection)
                await _send(send, b"", more=False)
            except _Stalled:
                log.info("A stream was cut: its client read nothing for too long.")
                connection.abort()

    async def _stream_until_left(
        self, receive: Receive, send: Send, connection: ConnectionHandle
    ) -> None:
        """Stream until the client leaves or the server shuts down."""
        streaming = asyncio.create_task(self._stream(send), name="stream")
        others = [
            asyncio.create_task(_disconnected(receive), name="stream-disconnected"),
            asyncio.create_task(connection.ending.wait(), name="stream-ending"),
        ]
        try:
            await asyncio.wait([streaming, *others], return_when=asyncio.FIRST_COMPLETED)
            if streaming.done():
                streaming.result()
        finally:
            for task in (streaming, *others):
                task.cancel()
            await asyncio.wait([streaming, *others])

    async def _stream(self, send: Send) -> None:
        """Send events until the key stops working or the database is away. Raises _Stalled."""
        first = opening(self._after)
        await _send(send, first if self._gap is None else first + gap_block(self._gap))
        key = _KeyCheck(self._key_works)
        async with self._hub.following(self._chosen, self._after) as follower:
            while True:
                try:
                    async for piece in self._next(follower):
                        # checked before sending: a client whose key ended must not get the event
                        if not await key.works():
                            return
                        await _send(send, piece)
                except SQLAlchemyError as error:
                    # The client reconnects, and gets 503 until the database is back.
                    DATABASE.failed(
                        "A stream ends because the database is away.", error=type(error).__name__
                    )
                    return

    async def _next(self, follower: Follower) -> AsyncIterator[bytes]:
        events = await follower.next(HEARTBEAT_SECONDS)
        if not events:
            yield heartbeat(follower.cursor)
        async for piece in self._pieces(events):
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


class _Stalled(Exception):
    """The client reads nothing."""


async def _send(send: Send, piece: bytes, *, more: bool = True) -> None:
    try:
        async with asyncio.timeout(STALL_SECONDS):
            await send({"type": "http.response.body", "body": piece, "more_body": more})
    except TimeoutError:
        raise _Stalled from None


async def _disconnected(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
