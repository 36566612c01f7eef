"""How many workflows a relay starts or wakes at once: fewer while Temporal answers slowly.

Temporal serves requests in the order in which they come, so a relay with many starts under way
delays the polls and responses that every running delivery needs. The window therefore follows TCP's
congestion avoidance (RFC 5681): it grows by one per round trip while answers are quick, and is
halved when they are slow. Starts that wait for room are admitted in order of urgency.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MOST = 32
"""More starts at once would only queue up in the server."""
_FIRST = 8.0
_SLOW_SECONDS = 0.2
_SLOW_TIMES = 3
"""An answer is slow if it takes this many times as long as the quickest; Temporal may be far
away."""
_FORGET = 1.0005
"""The quickest time grows by this factor with each answer that is not quicker."""


class WindowClosed(Exception):
    """The relay stops, so a start that waits for its turn is not made."""


class StartWindow:
    """Limits the starts in progress. One per relay."""

    def __init__(self) -> None:
        self._size = _FIRST
        self._under_way = 0
        self._halved_at = 0.0
        self._quickest = math.inf
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._closed = False

    @property
    def size(self) -> int:
        """How many starts may be in progress at once, 1 to MOST."""
        return int(self._size)

    @asynccontextmanager
    async def turn(self, urgency: int) -> AsyncIterator[None]:
        """Wait for room, then run the block, and learn from the time it takes. A lower `urgency`
        number is admitted first. Raises WindowClosed instead once the window is closed."""
        await self._room(urgency)
        begun, answered = time.monotonic(), False
        try:
            yield
            answered = True
        finally:
            self._under_way -= 1
            self._learn(begun, time.monotonic(), answered=answered)
            self._admit()

    def close(self) -> None:
        """Admit no more starts: those that wait, and all later ones, fail with WindowClosed."""
        self._closed = True
        for _, _, admitted in self._waiting:
            if not admitted.done():
                admitted.set_exception(WindowClosed)
        self._waiting.clear()

    async def _room(self, urgency: int) -> None:
        if self._closed:
            raise WindowClosed
        if self._under_way < self.size and not self._waiting:
            self._under_way += 1
            return
        admitted = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (urgency, next(self._numbers), admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled() and not admitted.exception():
                self._under_way -= 1
                self._admit()
            raise

    def _admit(self) -> None:
        while self._waiting and self._under_way < self.size:
            _, _, admitted = heapq.heappop(self._waiting)
            if not admitted.cancelled():
                self._under_way += 1
                admitted.set_result(None)

    def _learn(self, begun: float, ended: float, *, answered: bool) -> None:
        """Adjust the window. A refused connection is quick and says nothing about Temporal's
        speed."""
        took = ended - begun
        if answered:
            self._quickest = min(took, self._quickest * _FORGET)
        if took > max(_SLOW_SECONDS, _SLOW_TIMES * self._quickest):
            if (
                begun > self._halved_at
            ):  # otherwise it began in the larger window, which was halved already
                self._size = max(1.0, self._size / 2)
                self._halved_at = ended
        elif answered:
            self._size = min(MOST, self._size + 1 / self._size)
