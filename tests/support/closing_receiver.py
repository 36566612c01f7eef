"""A healthy receiver that closes idle connections after a time, as all servers do, but soon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

_END = b"\r\n\r\n"


class ClosingReceiver:
    """Answers requests without body or with a two-byte body by 200, and closes a connection when it
    has been idle for `keep_alive` seconds. `announced`: answers say so in `Keep-Alive`. `head` is
    added to the answers' headers; `on_request` is awaited before a request is answered."""

    def __init__(self, *, keep_alive: float, announced: bool = False) -> None:
        self.keep_alive = keep_alive
        self.head = f"Keep-Alive: timeout={keep_alive:.0f}\r\n".encode() if announced else b""
        self.on_request: Callable[[], Awaitable[None]] | None = None
        self.connections = 0
        self.requests = 0
        self._open: set[asyncio.Transport] = set()

    async def start(self) -> str:
        """Listen on loopback, and return the URL."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    async def stop(self) -> None:
        """Close the server and all connections."""
        self._server.close()
        for transport in tuple(self._open):
            transport.abort()


class _Connection(asyncio.Protocol):
    def __init__(self, receiver: ClosingReceiver) -> None:
        self._receiver = receiver
        self._received = b""
        self._idle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not derived from it
        self._receiver.connections += 1
        self._receiver._open.add(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._received += data
        head, found, body = self._received.partition(_END)
        if found and len(body) >= (2 if b"POST" in head else 0):
            self._received = b""
            self._receiver.requests += 1
            self._task = asyncio.ensure_future(self._answer())

    async def _answer(self) -> None:
        if self._receiver.on_request is not None:
            await self._receiver.on_request()
        if self._transport.is_closing():
            return
        self._transport.write(
            b"HTTP/1.1 200 OK\r\n" + self._receiver.head + b"Content-Length: 2\r\n\r\nok"
        )
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(self._receiver.keep_alive, self._transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver._open.discard(self._transport)
        if self._idle is not None:
            self._idle.cancel()
