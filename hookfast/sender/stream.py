"""A TCP or TLS connection as a byte stream, on the transports of asyncio or uvloop."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Iterable
from typing import cast

# Reading pauses above this many unread bytes, so that a flood of data does not use up memory.
_HIGH_WATER = 128 * 1024
_PIECE = 64 * 1024
"""Longer bodies are handed to the transport in pieces of this size, each when the one before is
gone: a transport copies what the receiver does not take at once, and encrypts all of it."""
_UNSENT_BYTES = 128 * 1024
"""The most that the kernel takes of a long body before it can send it."""
_NOTHING = memoryview(b"")


class Stream(asyncio.Protocol):
    """A connected socket that collects received data in `buffer`, for one reader at a time.

    The sets in `registries` contain the stream while it is open.
    """

    def __init__(self, registries: Iterable[set[Stream]] = ()) -> None:
        self.buffer = bytearray()
        self._registries = tuple(registries)
        self._ended = False
        self._error: OSError | None = None
        self._reader: asyncio.Future[None] | None = None
        self._paused = False
        self._unsent = _NOTHING
        self._full = self._feeding = False
        self._closed = asyncio.Event()

    def write(self, head: bytes, body: bytes) -> None:
        """Send a request without waiting: its response may come before the receiver has read all of
        it. Head and body leave in one segment if they fit. A broken connection raises at the next
        read."""
        if len(body) > _PIECE and not self._transport.is_closing():
            # Not 0: asyncio's and uvloop's TLS transports would then pause with an empty buffer.
            self._transport.set_write_buffer_limits(high=1)
            if (option := getattr(socket, "TCP_NOTSENT_LOWAT", None)) is not None:
                endpoint = self._transport.get_extra_info("socket")
                endpoint.setsockopt(socket.IPPROTO_TCP, option, _UNSENT_BYTES)
            self._unsent = memoryview(body)[_PIECE:]
            body = body[:_PIECE]
        self._transport.write(head + body)
        if self._unsent:
            self._feed()

    @property
    def sending(self) -> bool:
        """Whether a part of a request was not sent yet."""
        return len(self._unsent) > 0

    def _feed(self) -> None:
        """Hand on the rest of the body while the transport takes it. The transport may call
        `resume_writing` from within `write`."""
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._unsent and not self._full and not self._transport.is_closing():
                piece, rest = self._unsent[:_PIECE], self._unsent[_PIECE:]
                self._unsent = rest or _NOTHING  # an empty rest would keep the body in memory
                self._transport.write(piece)
        finally:
            self._feeding = False

    async def wait_for_data(self, beyond: int = 0) -> bool:
        """Wait, and return True when `buffer` has more bytes than `beyond`, False at the end of the
        stream. `beyond` is less than `_HIGH_WATER`.

        Raises OSError (including `ssl.SSLError`) when the connection broke.
        """
        while len(self.buffer) <= beyond:
            if self._error is not None:
                raise self._error
            if self._ended:
                return False
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return True

    def take(self, count: int) -> bytes:
        """Remove and return the first `count` bytes of `buffer`, or all of it when it has fewer."""
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        if self._paused and len(self.buffer) <= _HIGH_WATER:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
        return data

    @property
    def idle(self) -> bool:
        """Whether the connection is open and has no unread data.

        Data between two requests means that the peer has closed the connection, or is about to. The
        socket is polled as well, because the event loop may not have processed its end yet.
        """
        if self.buffer or self._ended or self._transport.is_closing():
            return False
        return not self._poll.poll(0)

    def close(self) -> None:
        """Close immediately: drop queued data, and skip the TLS closing handshake."""
        self._unsent = _NOTHING
        self._unregister()
        self._transport.abort()

    def abandon(self) -> None:
        """Stop counting a connection as open that failed before anybody could use it."""
        self._unregister()
        self._closed.set()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        await self._closed.wait()

    # The transport calls the methods below.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._closed.is_set():
            self._transport.abort()
            return
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        for registry in self._registries:
            registry.add(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if len(self.buffer) > _HIGH_WATER and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._feed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unsent = _NOTHING
        self._ended = True
        if isinstance(exc, OSError):
            self._error = exc
        self._unregister()
        self._closed.set()
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _unregister(self) -> None:
        for registry in self._registries:
            registry.discard(self)
