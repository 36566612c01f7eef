"""The connection below a long response, for two things that ASGI lacks: to learn at once that the
client left or the server shuts down, and to drop a client that stopped reading.

`hookfast.cli.http_protocol` puts it into the scope. Other servers do not; there, such responses end
when their clients leave or the server cancels them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Scope

EXTENSION = "hookfast.connection"
"""The handle's key in `scope["extensions"]`."""


@dataclass(frozen=True, slots=True)
class ConnectionHandle:
    """A request's connection. `ending` is set once the server shuts down, the client has left or it
    has sent its next request. `abort` drops the connection and everything unsent."""

    abort: Callable[[], None] = lambda: None
    ending: asyncio.Event = field(default_factory=asyncio.Event)


def connection_of(scope: Scope) -> ConnectionHandle:
    """Return the request's connection."""
    handle: ConnectionHandle = scope.get("extensions", {}).get(EXTENSION) or ConnectionHandle()
    return handle


async def until_left(
    work: Coroutine[Any, Any, None], receive: Receive, connection: ConnectionHandle
) -> bool:
    """Do the work until the client leaves or the connection is ending, and then cancel it. Return
    whether it was done. Raises its errors."""
    working = asyncio.create_task(work, name="until-left")
    others = [
        asyncio.create_task(_disconnected(receive), name="client-disconnected"),
        asyncio.create_task(connection.ending.wait(), name="connection-ending"),
    ]
    try:
        await asyncio.wait([working, *others], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return True
        return False
    finally:
        for task in (working, *others):
            task.cancel()
        await asyncio.wait([working, *others])


async def _disconnected(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
