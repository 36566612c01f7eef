"""One TCP or TLS connection as bytes in and bytes out, on asyncio's or uvloop's transports."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Iterable
from typing import Any, cast

# Reading pauses above this many unread bytes, so that a receiver that floods us costs no memory.
_HIGH_WATER = 128 * 1024


class Stream(asyncio.Protocol):
    """A connected socket; what comes in gathers in `buffer`. For one reader at a time.

    `registries` hold the stream for as long as it is open.
    """

    def __init__(self, registries: Iterable[set[Stream]] = ()) -> None:
        self.buffer = bytearray()
        self._registries = tuple(registries)
        self._ended = False
        self._error: OSError | None = None
        self._reader: asyncio.Future[None] | None = None
        self._paused = False
        self._closed = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Queue `data`. Never waits: a request is in memory already, and an answer may come before
        the receiver has read all of it. A broken connection shows at the next read."""
        self._transport.write(data)

    async def filled(self) -> bool:
        """Return True when there is something in `buffer`, False at the end of the stream.

        Raises OSError (`ssl.SSLError` among them) when the connection broke.
        """
        while not self.buffer:
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
        """Remove and return the first `count` bytes of `buffer`, or all where there are fewer."""
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        if self._paused and len(self.buffer) <= _HIGH_WATER:
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
        if self.buffer or self._ended or self._transport.is_closing():
            return False
        return not self._poll.poll(0)

    def transport_info(self, name: str) -> Any:
        """What asyncio's transport knows under `name`, e.g. `ssl_object`; None for nothing."""
        return self._transport.get_extra_info(name)

    def close(self) -> None:
        """Close at once, whatever is queued; no TLS farewell to wait for."""
        self._unregister()
        self._transport.abort()

    def give_up(self) -> None:
        """Nobody was handed this connection, nor will be: it does not count as open."""
        self._unregister()
        self._closed.set()

    async def wait_closed(self) -> None:
        """Return when the socket has been given back."""
        await self._closed.wait()

    # The rest is called by the transport.

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

    def connection_lost(self, exc: Exception | None) -> None:
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
