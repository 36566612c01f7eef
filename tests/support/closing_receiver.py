"""A healthy receiver that closes idle connections after a time, as all servers do, but soon."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import cast

_END = b"\r\n\r\n"


class ClosingReceiver:
    """Answers requests without body or with a two-byte body by 200, and closes a connection when it
    has been idle for `keep_alive` seconds; if `abruptly`, without TLS's close_notify. `head` is
    added to the answers' headers; `on_request` is awaited before a request is answered."""

    def __init__(
        self,
        *,
        keep_alive: float,
        abruptly: bool = False,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.keep_alive = keep_alive
        self.abruptly = abruptly
        self.head = b""
        self.on_request: Callable[[], Awaitable[None]] | None = None
        self.connections = 0
        self.requests = 0
        self._ssl_context = ssl_context
        self._open: set[_Connection] = set()

    async def __aenter__(self) -> ClosingReceiver:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self), "127.0.0.1", 0, ssl=self._ssl_context
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Close the server and all connections."""
        self._server.close()
        while self._open:
            await self._open.pop().abandon()
        await self._server.wait_closed()


class _Connection(asyncio.Protocol):
    def __init__(self, receiver: ClosingReceiver) -> None:
        self._receiver = receiver
        self._received = b""
        self._lost = asyncio.Event()
        self._idle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not derived from it
        self._receiver.connections += 1
        self._receiver._open.add(self)

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
        end = self._transport.abort if self._receiver.abruptly else self._transport.close
        self._idle = loop.call_later(self._receiver.keep_alive, end)

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver._open.discard(self)
        self._lost.set()
        if self._idle is not None:
            self._idle.cancel()

    async def abandon(self) -> None:
        """Close at once, and wait until it is closed."""
        self._transport.abort()
        await self._lost.wait()
