"""The connection below a long response, for two things that ASGI lacks: to learn at once that the
client left or the server shuts down, and to drop a client that stopped reading.

`hookfast.cli.http_protocol` puts it into the scope. Other servers do not; there, such responses end
when their clients leave or the server cancels them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.types import Scope

EXTENSION = "hookfast.connection"
"""The handle's key in `scope["extensions"]`."""


@dataclass(frozen=True, slots=True)
class ConnectionHandle:
    """A connection. `ending` is set once the server shuts down or the client has left. `abort`
    drops the connection and everything unsent."""

    abort: Callable[[], None] = lambda: None
    ending: asyncio.Event = field(default_factory=asyncio.Event)


def connection_of(scope: Scope) -> ConnectionHandle:
    """Return the request's connection."""
    handle: ConnectionHandle = scope.get("extensions", {}).get(EXTENSION) or ConnectionHandle()
    return handle
