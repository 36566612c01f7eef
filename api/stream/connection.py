"""The connection below a request, for what ASGI lacks: to learn at once that the client left or the
server shuts down, to drop a client that stopped reading, and to save work for short bodies.

`hookfast.cli.http_protocol` puts it into the scope. Other servers do not; there, long responses end
when their clients leave or the server cancels them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive, Scope

EXTENSION = "hookfast.connection"
"""The handle's key in `scope["extensions"]`."""


class ConnectionHandle:
    """A request's connection. `ending` is set once the server shuts down, the client has left or it
    has sent its next request."""

    __slots__ = ("ending",)

    def __init__(self) -> None:
        self.ending = asyncio.Event()

    def abort(self) -> None:
        """Drop the connection and everything unsent."""

    def has_whole_body(self) -> bool:
        """Whether the rest of the request's body can be received without waiting."""
        return False

    def hold_head(self) -> None:
        """Have the head of the answer, which comes next, wait for the body that follows it."""


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
