"""A request to the tests' receiver, and the ways to answer it."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as the receiver read it. `headers` has lower-case names and the last value of a
    repeated header; `raw_headers` has all of them. `at` is Unix time in seconds; `connection`
    counts from 1."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw_headers: tuple[tuple[str, str], ...]
    body: bytes
    at: float
    connection: int

    @property
    def message_id(self) -> str | None:
        return self.headers.get("x-hook-id") or self.headers.get("webhook-id")


@dataclass(frozen=True, slots=True)
class Call:
    """A request, the arguments in its path, and the methods that answer it. `argument` and `query`
    come from the path; `origin` is the receiver's URL; `counts` are shared by all calls."""

    request: Request
    argument: str
    query: Mapping[str, list[str]]
    origin: str
    counts: Counter[tuple[str | None, ...]]
    writer: asyncio.StreamWriter

    def count(self, *kind: str | None) -> int:
        """Count this call, and return the number of calls of this kind so far."""
        self.counts[kind] += 1
        return self.counts[kind]

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.raw(head(status, {"Content-Length": str(len(body)), **named}) + body)

    def raw(self, data: bytes) -> None:
        if self.writer.is_closing():
            raise ConnectionResetError  # uvloop's transports would raise a RuntimeError
        self.writer.write(data)

    async def drip(self, data: bytes, seconds: float) -> None:
        for byte in itertools.cycle(data):
            self.raw(bytes([byte]))
            await self.writer.drain()
            await asyncio.sleep(seconds)

    async def flood(self, data: bytes) -> None:
        piece = data * (65536 // len(data))
        while True:
            self.raw(piece)
            await self.writer.drain()

    def close(self) -> None:
        self.writer.close()
        raise ConnectionResetError  # ends the connection's loop

    def reset(self) -> None:
        connected = self.writer.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        raise ConnectionResetError


Behaviour = Callable[[Call], Awaitable[None]]


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """Return an answer's status line and headers, with the empty line after them."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = [
        f"HTTP/1.1 {status} {phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
