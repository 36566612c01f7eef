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
        "_transport",
        "_write",
        "close",
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
        # the transport's own methods: a call through `__getattr__` would cost each request 1 µs
        self._write = transport.write
        self.close = transport.close
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.set_protocol = transport.set_protocol
        self.unsent = transport.get_write_buffer_size

    def write(self, data: bytes) -> None:
        self.written += len(data)
        self._write(data)

    def reset(self) -> None:
        """Drop the connection and everything unsent, also what the system holds."""
        endpoint: Any = self.get_extra_info("socket")
        if endpoint is not None and endpoint.family != getattr(socket, "AF_UNIX", None):
            with suppress(OSError):  # it was reset by the client
                endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_ONCE)
        self._transport.abort()
