"""The answer that does not end: events as they become visible, until the client leaves, its key is
over, it reads too slowly, or the server shuts down. In each case it resumes with its last id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.stream.blocks import gap_block, heartbeat, opening
from api.stream.connection import ConnectionHandle, connection_of
from api.stream.hub import DATABASE_AWAY, Follower, StreamHub
from api.stream.slots import StreamSlots
from hookfast.storage.feed.cursor import Cursor
from hookfast.storage.feed.feed import FeedEvent, FeedFilter, Gap

HEARTBEAT_SECONDS = 15.0
STALL_SECONDS = 30.0
"""A client that takes nothing for so long is cut. What waits for it is 64 KiB and one message."""
KEY_CHECK_SECONDS = 15.0
_KEY_PATIENCE_SECONDS = 60.0  # how long nobody may know whether the key still works

Pieces = Callable[[Sequence[FeedEvent]], AsyncIterator[bytes]]
"""Writes events as pieces of the stream, each one small enough to wait for a client."""

log = structlog.get_logger()


class StreamResponse(Response):
    """`text/event-stream` of what `chosen` wants, from `after` on. `key_works` is asked now and
    then, and raises what the database does. `tenant_id` is whose seat it takes."""

    media_type = "text/event-stream"

    def __init__(
        self,
        *,
        hub: StreamHub,
        seats: StreamSlots,
        chosen: FeedFilter,
        after: Cursor,
        gap: Gap | None,
        tenant_id: str | None,
        pieces: Pieces,
        key_works: Callable[[], Awaitable[bool]],
    ) -> None:
        # no proxy on the way may gather it, as nginx does by default
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._hub = hub
        self._seats = seats
        self._chosen = chosen
        self._after = after
        self._gap = gap
        self._tenant_id = tenant_id
        self._pieces = pieces
        self._key_works = key_works

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reach = connection_of(scope)
        # Refuses before anything is sent, so that the refusal is an answer.
        with self._seats.enter(self._tenant_id):
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            try:
                await self._while_wanted(receive, send, reach)
                await _send(send, b"", more=False)
            except _Stalled:
                log.info("A stream was cut: its client took nothing for too long.")
                reach.abort()

    async def _while_wanted(self, receive: Receive, send: Send, reach: ConnectionHandle) -> None:
        streaming = asyncio.create_task(self._stream(send), name="stream")
        others = [
            asyncio.create_task(_left(receive), name="stream-left"),
            asyncio.create_task(_ends(reach), name="stream-ends"),
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
        """Send what comes, until the key is over or the database is away. Raises _Stalled."""
        first = opening(self._after)
        await _send(send, first if self._gap is None else first + gap_block(self._gap))
        key = _Key(self._key_works)
        async with self._hub.following(self._chosen, self._after) as follower:
            while True:
                try:
                    async for piece in self._next(follower):
                        # before it is sent: what came since the key was over is not for this client
                        if not await key.works():
                            return
                        await _send(send, piece)
                except DATABASE_AWAY as error:
                    # The client comes back, and is told 503 until the database is there.
                    log.warning("A stream ends: no database.", error=type(error).__name__)
                    return

    async def _next(self, follower: Follower) -> AsyncIterator[bytes]:
        events = await follower.next(HEARTBEAT_SECONDS)
        if not events:
            yield heartbeat(follower.cursor)
        async for piece in self._pieces(events):
            yield piece


class _Key:
    """Whether the key of a stream still works, asked now and then."""

    def __init__(self, ask: Callable[[], Awaitable[bool]]) -> None:
        self._ask = ask
        self._clock = asyncio.get_running_loop().time
        self._known_at = self._asked_at = self._clock()

    async def works(self) -> bool:
        now = self._clock()
        if now - self._asked_at < KEY_CHECK_SECONDS:
            return True
        self._asked_at = now
        try:
            if not await self._ask():
                return False
        except DATABASE_AWAY:
            return now - self._known_at <= _KEY_PATIENCE_SECONDS
        self._known_at = now
        return True


class _Stalled(Exception):
    """The client takes nothing. (Not a TimeoutError: the database has those too.)"""


async def _send(send: Send, piece: bytes, *, more: bool = True) -> None:
    try:
        async with asyncio.timeout(STALL_SECONDS):
            await send({"type": "http.response.body", "body": piece, "more_body": more})
    except TimeoutError:
        raise _Stalled from None


async def _left(receive: Receive) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _ends(reach: ConnectionHandle) -> None:
    """Return when the server shuts down."""
    await reach.ending.wait()
