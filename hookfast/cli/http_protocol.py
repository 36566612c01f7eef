"""The API's HTTP protocol: `BoundedHttp`, with a handle of the connection for the application."""

from __future__ import annotations

import asyncio

from api.stream.connection import EXTENSION, ConnectionHandle
from hookfast.connections.protocol import BoundedHttp


class ApiHttp(BoundedHttp):
    """Passes a `ConnectionHandle` to the application with each request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._handle = ConnectionHandle(self._connection.transport.unsent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._handle.ending.set()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: self._handle}  # type: ignore[dict-item] # ours

    def shutdown(self) -> None:
        self._handle.ending.set()
        super().shutdown()
