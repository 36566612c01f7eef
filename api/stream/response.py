"""The response of a stream of server-sent events (WHATWG HTML, section 9.2): it sends pieces until
the client leaves, the server shuts down, or there are no more. For a client that reads slowly,
64 KiB and one piece wait; one that reads too slowly is disconnected, as with any response
(`hookfast.connections`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.stream.connection import ConnectionHandle, connection_of
from api.stream.slots import StreamSlots


class StreamResponse(Response):
    """A `text/event-stream` of these pieces. While it lasts, it takes a slot of `tenant_id`."""

    media_type = "text/event-stream"

    def __init__(
        self, pieces: AsyncGenerator[bytes], *, slots: StreamSlots, tenant_id: str | None
    ) -> None:
        # proxies must not buffer the stream, as nginx does by default
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._pieces = pieces
        self._slots = slots
        self._tenant_id = tenant_id

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
            await _until_left(self._send_pieces(send), receive, connection)
            await _send(send, b"", more=False)

    async def _send_pieces(self, send: Send) -> None:
        async with aclosing(self._pieces):
            async for piece in self._pieces:
                await _send(send, piece)


async def _until_left(
    sending: Coroutine[Any, Any, None], receive: Receive, connection: ConnectionHandle
) -> None:
    """Send until the client leaves or the server shuts down."""
    streaming = asyncio.create_task(sending, name="stream")
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


async def _send(send: Send, piece: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": piece, "more_body": more})


async def _disconnected(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
