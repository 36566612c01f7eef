"""The API's HTTP protocol: `BoundedHttp`, with a handle of the connection for the application."""

from __future__ import annotations

import asyncio

from api.stream.connection import EXTENSION, ConnectionHandle
from hookfast.connections.closings import Reason
from hookfast.connections.protocol import BoundedHttp


class _Handle(ConnectionHandle):
    """The connection of a request that this protocol has received."""

    __slots__ = ("_http",)

    def __init__(self, http: ApiHttp) -> None:
        super().__init__()
        self._http = http

    def abort(self) -> None:
        self._http.abort()

    def has_whole_body(self) -> bool:
        cycle = self._http.running
        return cycle is not None and not cycle.more_body

    def hold_head(self) -> None:
        cycle = self._http.running
        if cycle is not None and cycle.scope["method"] != "HEAD":  # its answer has no body
            self._http.hold_next_write()


class ApiHttp(BoundedHttp):
    """Passes a `ConnectionHandle` to the application with each request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._handle = ConnectionHandle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._handle.ending.set()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self.cycle is not None and not self.cycle.response_complete:
            # uvicorn reads no further until it has responded to the request before, so that nobody
            # would notice that the client leaves: no poll or stream may wait until then
            self._handle.ending.set()
        self._handle = _Handle(self)
        self.scope["extensions"] = {EXTENSION: self._handle}  # type: ignore[dict-item] # ours

    def shutdown(self) -> None:
        self._handle.ending.set()
        super().shutdown()

    def abort(self) -> None:
        """Drop the connection and everything unsent."""
        self._connections.drop(self._connection, Reason.NO_MEMORY)

    def hold_next_write(self) -> None:
        """Pass on the next write together with the one that follows it."""
        self._connection.transport.hold_next()
