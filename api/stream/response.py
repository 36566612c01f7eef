"""The response of a stream of server-sent events (WHATWG HTML, section 9.2): it sends pieces until
the client leaves or reads too slowly, the server shuts down, or there are no more."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.stream.connection import connection_of, until_left
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
            await until_left(self._send_pieces(send), receive, connection)
            await _send(send, b"", more=False)

    async def _send_pieces(self, send: Send) -> None:
        async with aclosing(self._pieces):
            async for piece in self._pieces:
                await _send(send, piece)
                # Wait for a slow client before the next piece is asked for, not with the piece in
                # hand: whether the client may have it is checked right before it is yielded.
                await _send(send, b"")


async def _send(send: Send, piece: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": piece, "more_body": more})
