"""Idle connections kept for reuse, per origin.

Taking and giving back touch one origin's stack only, so the cost of a request does not grow with
the number of origins. (One pool over all of them scans every connection: 1.5–17 ms a request.)
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable

from hookfast.sender.http1 import Connection

IDLE_SECONDS = 10.0
"""How long an idle connection is kept. Short: common servers close theirs after 15–75 s, and a
request that meets such a close is a failed attempt, because a POST is never repeated unasked."""
MAX_IDLE = 512
MAX_IDLE_PER_ORIGIN = 32


class ConnectionPool:
    """Stacks of idle connections by key, least recently used key first. For one event loop.

    The key has to hold everything that a connection was judged by.
    """

    def __init__(
        self,
        *,
        idle_seconds: float = IDLE_SECONDS,
        max_idle: int = MAX_IDLE,
        max_idle_per_origin: int = MAX_IDLE_PER_ORIGIN,
    ) -> None:
        self._idle_seconds = idle_seconds
        self._max_idle = max_idle
        self._max_idle_per_origin = max_idle_per_origin
        self._stacks: OrderedDict[Hashable, list[Connection]] = OrderedDict()
        self._expiries: dict[Connection, asyncio.TimerHandle] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many idle connections there are."""
        return len(self._expiries)

    def take(self, key: Hashable) -> Connection | None:
        """The connection used last under `key` that is still open, or None."""
        while (stack := self._stacks.get(key)) is not None:
            connection = stack[-1]
            self._remove(key, connection)
            if connection.stream.quiet:
                return connection
            connection.stream.close()
        return None

    def give_back(self, key: Hashable, connection: Connection) -> None:
        """Keep `connection` for the next request under `key` if it can carry one, else close it."""
        if self._closed or not connection.reusable:
            connection.stream.close()
            return
        connection.start_next()
        stack = self._stacks.setdefault(key, [])
        self._stacks.move_to_end(key)
        stack.append(connection)
        self._expiries[connection] = asyncio.get_running_loop().call_later(
            self._idle_seconds, self._drop, key, connection
        )
        if len(stack) > self._max_idle_per_origin:
            self._drop(key, stack[0])
        if len(self._expiries) > self._max_idle:
            oldest = next(iter(self._stacks))
            self._drop(oldest, self._stacks[oldest][0])

    async def aclose(self) -> None:
        """Close every idle connection, and from now on those given back."""
        self._closed = True
        idle = list(self._expiries)
        for key in list(self._stacks):
            for connection in list(self._stacks[key]):
                self._drop(key, connection)
        for connection in idle:
            await connection.stream.wait_closed()

    def _drop(self, key: Hashable, connection: Connection) -> None:
        self._remove(key, connection)
        connection.stream.close()

    def _remove(self, key: Hashable, connection: Connection) -> None:
        self._expiries.pop(connection).cancel()
        stack = self._stacks[key]
        stack.remove(connection)
        if not stack:
            del self._stacks[key]
