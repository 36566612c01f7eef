"""A transport that counts what is written to it."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any, Final

_RESET_AT_ONCE: Final = struct.pack("ii", 1, 0)  # struct linger, with 0 seconds


class CountedTransport:
    """A connection's transport, of asyncio or uvloop, without TLS: below TLS, another transport
    holds what is unsent. `written` is a number of bytes, and `unsent()` how many of them have not
    been passed to the system."""

    __slots__ = (
        "_close",
        "_held",
        "_holds_next",
        "_transport",
        "_write",
        "get_extra_info",
        "is_closing",
        "pause_reading",
        "resume_reading",
        "set_protocol",
        "unsent",
        "written",
    )

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.written = 0
        self._holds_next = False
        self._held = b""
        # the transport's own methods: a call through `__getattr__` would cost each request 1 µs
        self._write = transport.write
        self._close = transport.close
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.set_protocol = transport.set_protocol
        self.unsent = transport.get_write_buffer_size

    def hold_next(self) -> None:
        """Keep the next write until the one after it, or until the connection is closed."""
        self._holds_next = True

    def write(self, data: bytes) -> None:
        self.written += len(data)
        if self._holds_next:
            self._holds_next, self._held = False, data
            return
        if self._held:
            data, self._held = self._held + data, b""
        self._write(data)

    def close(self) -> None:
        """Close the connection once everything was sent."""
        if self._held:
            self.write(b"")
        self._close()

    def reset(self) -> None:
        """Drop the connection and everything unsent, also what the system holds."""
        endpoint: Any = self.get_extra_info("socket")
        if endpoint is not None and endpoint.family != getattr(socket, "AF_UNIX", None):
            with suppress(OSError):  # it was reset by the client
                endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_ONCE)
        self._transport.abort()
