"""A proxy in front of a server that commits faults: it loses answers, resets connections, answers
in the server's place, or is slow."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Self, TypeAlias
from urllib.parse import urlsplit

from tests.support.waiting import PATIENCE

Fault: TypeAlias = Literal["lose the answer", "reset", "close", "hang", "drip", "drip the head"]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that the proxy gives itself, without asking the server."""

    status: int
    body: bytes = b"<html>The proxy's own page</html>"
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/html"})


@dataclass(frozen=True, slots=True)
class Request:
    """A request that arrived, with the names of its headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class FaultyProxy:
    """Forwards to `target`, except that the next requests have the `faults`, one each."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self.faults: deque[Fault | Answer] = deque()
        self.requests: list[Request] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def next(self, *faults: Fault | Answer) -> Iterable[Request]:
        """Give the next requests these faults, and return the list in which requests appear."""
        self.requests.clear()
        self.faults.extend(faults)
        return self.requests

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length(head))
                self.requests.append(_request(head, body))
                fault = self.faults.popleft() if self.faults else None
                await self._answer(head + body, fault, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has closed the connection
        finally:
            writer.close()

    async def _answer(
        self, request: bytes, fault: Fault | Answer | None, writer: asyncio.StreamWriter
    ) -> None:
        match fault:
            case None:
                writer.write(await self._forward(request))
            case "lose the answer":
                await self._forward(request)
                _reset(writer)
            case "reset":
                _reset(writer)
            case "close":
                writer.close()
            case "hang":
                await asyncio.sleep(PATIENCE)
            case "drip" | "drip the head":
                head = b"HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\n"
                writer.write(head + (b"X-Slow: " if fault == "drip the head" else b"\r\n{"))
                while True:
                    await asyncio.sleep(0.05)
                    writer.write(b"x" if fault == "drip the head" else b" ")
                    await writer.drain()
            case Answer(status, body, headers):
                lines = [f"HTTP/1.1 {status} Said by the proxy", f"Content-Length: {len(body)}"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()

    async def _forward(self, request: bytes) -> bytes:
        """Return the server's complete answer."""
        reader, writer = await asyncio.open_connection(*self._target)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(_length(head))
        writer.close()
        return head + body


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"content-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


def _request(head: bytes, body: bytes) -> Request:
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, path, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return Request(method, path, headers, body)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close the connection with RST, as a crashed host or a firewall does."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    raise ConnectionResetError
