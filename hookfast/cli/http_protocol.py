"""The API's HTTP protocol: `BoundedHttp`, with a handle of the connection for the application."""

from __future__ import annotations

import asyncio

from api.stream.connection import EXTENSION, ConnectionHandle
from hookfast.connections.closings import Reason
from hookfast.connections.protocol import BoundedHttp


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
        self._handle = ConnectionHandle(self._abort)
        self.scope["extensions"] = {EXTENSION: self._handle}  # type: ignore[dict-item] # ours

    def shutdown(self) -> None:
        self._handle.ending.set()
        super().shutdown()

    def _abort(self) -> None:
        self._connections.drop(self._connection, Reason.NO_MEMORY)
