"""A server with limits that a test can reach, and raw clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from hookfast.connections.connections import ConnectionLimits, SiteOf
from tests.support.http_server import http_server
from tests.support.waiting import PATIENCE

REQUEST = b"GET /ok HTTP/1.1\r\nHost: hookfast.test\r\n\r\n"
FAR = 3_600.0
"""Seconds: a limit that no test reaches."""


class App:
    """Answers `/ok` at once; `/wait` when `finish` is set; `/big` with 4 MB or `size`; `/early`
    before the body of the request has arrived."""

    def __init__(self, size: int = 4_000_000) -> None:
        self._size = size
        self.began = 0
        self.left = 0
        self.finish = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began += 1
        if scope["path"] != "/early":
            await receive()
        if scope["path"] == "/wait":
            leaving = asyncio.create_task(self._until_left(receive))
            finishing = asyncio.create_task(self.finish.wait())
            await asyncio.wait({leaving, finishing}, return_when=asyncio.FIRST_COMPLETED)
            for task in (leaving, finishing):
                task.cancel()
        body = b"x" * self._size if scope["path"] == "/big" else b"ok"
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _until_left(self, receive: Receive) -> None:
        message: Message = {"type": "http.request"}
        while message["type"] != "http.disconnect":
            message = await receive()
        self.left += 1


class Client:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        if not self.writer.is_closing():  # the server has closed it
            self.writer.write(data)

    async def ask(self, path: str = "/ok") -> bytes:
        """Send a request, and return its whole answer."""
        self.send(REQUEST.replace(b"/ok", path.encode()))
        return await self.answer()

    async def answer(self) -> bytes:
        """Return the next answer: head and body."""
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return head + await self.reader.readexactly(length)

    async def is_closed(self) -> bool:
        """Whether the server closes the connection, without another byte; waits for that."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    async def drip(self, data: bytes) -> None:
        """Send this again and again until the server closes the connection."""
        async with asyncio.timeout(PATIENCE):
            # an exception: the server had closed it before this was sent
            while not self.reader.at_eof() and self.reader.exception() is None:
                self.send(data)
                await asyncio.sleep(0.02)

    async def is_open(self) -> bool:
        return (await self.ask()).startswith(b"HTTP/1.1 200")


class Site:
    """Clients of one address, whose connections are closed at the end of the test."""

    def __init__(self, port: int, address: str, opened: list[Client]) -> None:
        self._port = port
        self._address = address
        self._opened = opened

    async def connect(self, *, receive_buffer: int | None = None) -> Client:
        """Connect; with this small a buffer for what the client has not read."""
        raw = socket.socket()
        raw.setblocking(False)
        if receive_buffer is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        raw.bind((self._address, 0))
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self._port))
        client = Client(*await asyncio.open_connection(sock=raw, limit=receive_buffer or 65_536))
        self._opened.append(client)
        return client


class Server:
    """A running server, its application, and the sites of its clients."""

    def __init__(self, port: int, app: App) -> None:
        self.app = app
        self.opened: list[Client] = []
        self.site, self.other = (
            Site(port, address, self.opened) for address in ("127.0.0.2", "127.0.0.3")
        )


Serve = Callable[..., AbstractAsyncContextManager[Server]]


@asynccontextmanager
async def _serve(
    *, size: int = 4_000_000, site_of: SiteOf = lambda peer: peer, **limits: Any
) -> AsyncIterator[Server]:
    chosen = {"total": 100, "per_client": 100, "head_seconds": FAR, "idle_seconds": FAR}
    chosen |= {"unread_seconds": FAR} | limits
    app = App(size)
    async with http_server(app, ConnectionLimits(**chosen), site_of=site_of) as port:  # type: ignore[arg-type]
        server = Server(port, app)
        try:
            yield server
        finally:
            app.finish.set()
            for client in server.opened:
                client.writer.transport.abort()


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio", marks=pytest.mark.slow),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def serve() -> Serve:
    """Start a server with these limits; those that are not given are far away."""
    return partial(_serve)
