"""A webhook receiver that records every request; the path selects how it answers.

    async with Receiver() as receiver:
        await sender.post(receiver.url("/status/503"), ...)
        assert receiver.requests[0].body == b"..."

The paths are those of `receiver_answers` and `receiver_misbehaviour`; any other path answers as
`/ok`.

`receiver.routes["/hook"] = "/status/500"` makes one path behave like another, and may change while
the receiver runs. `python -m tests.support.receiver --port 0` runs it as a process, which prints
its port as its first line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

from tests.support.receiver_answers import ANSWERS
from tests.support.receiver_call import Call, Request
from tests.support.receiver_misbehaviour import MISBEHAVIOUR
from tests.support.waiting import PATIENCE

__all__ = ["Receiver", "Request"]

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_MAX_HEAD = 128 * 1024
_BEHAVIOURS = {**ANSWERS, **MISBEHAVIOUR}


class Receiver:
    """A server on 127.0.0.1, by default on a free port. `in_flight` requests are being answered
    now; `most_in_flight` is the highest number so far. `serve` replaces all of this: it handles
    each new connection itself."""

    def __init__(
        self,
        *,
        port: int = 0,
        ssl_context: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        serve: Serve | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.routes: dict[str, str] = {}
        self.port = port
        self.connections = 0
        self.in_flight = self.most_in_flight = 0
        self._host = host
        self._ssl_context = ssl_context
        self._serve = serve or self._answer_requests
        self._counts: Counter[tuple[str | None, ...]] = Counter()
        self._open: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def url(self, path: str = "/ok", *, host: str | None = None) -> str:
        """Return the URL of `path`; `host` replaces the receiver's own host name."""
        scheme = "http" if self._ssl_context is None else "https"
        return f"{scheme}://{host or self._host}:{self.port}{path}"

    def requests_for(self, message_id: str) -> list[Request]:
        """Return the requests with this message id, in order of arrival."""
        return [request for request in self.requests if request.message_id == message_id]

    async def wait_for(self, count: int, *, timeout: float = PATIENCE) -> list[Request]:
        """Wait for `count` requests and return them. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while len(self.requests) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.requests

    async def __aenter__(self) -> Receiver:
        self._server = await asyncio.start_server(
            self._connected, self._host, self.port, ssl=self._ssl_context, limit=_MAX_HEAD
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            # the client may close the connection at any time
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # only __aexit__ cancels; a cancelled handler would be logged as an error
        finally:
            self._open.discard(task)
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = self.connections
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request_line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
            method, path, _ = request_line.split(" ")
            raw_headers = tuple(_header(line) for line in lines)
            headers = {name.lower(): value for name, value in raw_headers}
            behaviour = self.routes.get(urlsplit(path).path, path)
            early = urlsplit(behaviour).path == "/reset-early"
            length = 0 if early else int(headers.get("content-length", "0"))
            request = Request(
                method=method,
                path=path,
                headers=headers,
                raw_headers=raw_headers,
                body=await reader.readexactly(length),
                at=time.time(),
                connection=connection,
            )
            self.requests.append(request)
            self._arrived.set()
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            try:
                await self._behave(behaviour, request, writer)
            finally:
                self.in_flight -= 1
            await writer.drain()

    async def _behave(self, behaviour: str, request: Request, writer: asyncio.StreamWriter) -> None:
        split = urlsplit(behaviour)
        name, _, argument = split.path.removeprefix("/").partition("/")
        behave = _BEHAVIOURS.get(name, ANSWERS["ok"])
        query = parse_qs(split.query, keep_blank_values=True)
        await behave(Call(request, argument, query, self.url(""), self._counts, writer))


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name, value.strip()


async def _main(port: int) -> None:
    async with Receiver(port=port) as receiver:
        print(receiver.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A webhook receiver for tests.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(parser.parse_args().port))
