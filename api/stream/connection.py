"""The connection below a response, for two things that ASGI lacks: to learn at once that the client
left or the server shuts down, and how much of the response waits for the client to read it.

`hookfast.cli.http_protocol` puts it into the scope. Other servers do not; there, long responses end
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
    """A connection. `unsent()` is the number of bytes in this process that wait for the client to
    read; it is closed if it reads too slowly (`hookfast.connections`). `ending` is set once the
    server shuts down or the client has left."""

    unsent: Callable[[], int] = lambda: 0
    ending: asyncio.Event = field(default_factory=asyncio.Event)


def connection_of(scope: Scope) -> ConnectionHandle:
    """Return the request's connection."""
    handle: ConnectionHandle = scope.get("extensions", {}).get(EXTENSION) or ConnectionHandle()
    return handle
