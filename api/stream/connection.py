"""What a long answer needs of the connection under it and ASGI has no words for: to hear at once
that nobody waits for it any more, and to cut a client that reads no more.

`hookfast.cli.http_protocol` puts it into the scope; under another server it is not there, and such
answers then end when their clients leave or the server gives up on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.types import Scope

EXTENSION = "hookfast.connection"
"""Its key in `scope["extensions"]`."""


@dataclass(frozen=True, slots=True)
class ConnectionHandle:
    """`ending` is set once the server shuts down or the client has left. `abort` drops the
    connection with whatever has not been sent."""

    abort: Callable[[], None] = lambda: None
    ending: asyncio.Event = field(default_factory=asyncio.Event)


def connection_of(scope: Scope) -> ConnectionHandle:
    """The request's connection."""
    reach: ConnectionHandle = scope.get("extensions", {}).get(EXTENSION) or ConnectionHandle()
    return reach
