"""One TCP or TLS connection as bytes in and bytes out, on asyncio's or uvloop's transports."""

from __future__ import annotations

import asyncio
import select
from typing import cast

# Reading pauses above this many unread bytes, so that a receiver that floods us costs no memory.
_HIGH_WATER = 128 * 1024


class Stream(asyncio.Protocol):
    """A connected socket. For one reader at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._ended = False
        self._error: OSError | None = None
        self._reader: asyncio.Future[None] | None = None
        self._paused = False
        self._closed = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Queue `data`. Never waits: a request is in memory already, and an answer may come before
        the receiver has read all of it. A broken connection shows at the next read."""
        self._transport.write(data)

    async def read(self, limit: int) -> bytes:
        """Up to `limit` bytes, at least one; `b""` at the end of the stream.

        Raises OSError (`ssl.SSLError` among them) when the connection broke.
        """
        while not self._buffer:
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        data = bytes(self._buffer[:limit])
        del self._buffer[:limit]
        if self._paused and len(self._buffer) <= _HIGH_WATER:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
        return data

    @property
    def quiet(self) -> bool:
        """Whether the connection is open and nothing unread has come.

        Between two requests anything else means that the peer has closed it, or is about to. The
        socket is asked as well: the loop may not have seen the end that the kernel has.
        """
        if self._buffer or self._ended or self._transport.is_closing():
            return False
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Close at once, whatever is queued; no TLS farewell to wait for."""
        self._transport.abort()

    async def wait_closed(self) -> None:
        """Return when the socket has been given back."""
        await self._closed.wait()

    # The rest is called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > _HIGH_WATER and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        if isinstance(exc, OSError):
            self._error = exc
        self._closed.set()
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
