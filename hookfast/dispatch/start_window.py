"""How many workflows a relay starts or wakes at once: fewer while Temporal or this worker is slow.

Temporal serves requests in the order in which they come, so a relay with many starts under way
delays the polls and responses that every running delivery needs. And what a worker starts but does
not attempt within a workflow task's ten seconds, Temporal has attempted again: the rate of workers
with 0.14 cores fell to a tenth. So a start keeps its place until Temporal has answered and, if it
gave the first task to this worker, the first step has begun.

The window follows TCP's congestion avoidance (RFC 5681): it grows by one per round trip while both
are quick, and is halved when one is slow. Starts that wait for room are admitted in order of
urgency.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hookfast.deliveries.time_budget import WORKFLOW_TASK

MOST = 32
"""More starts at once would only queue up in the server."""
_FIRST = 8.0
_SLOW_SECONDS = 0.2
_SLOW_TIMES = 3
"""An answer is slow if it takes this many times as long as the quickest; Temporal may be far
away."""
_FORGET = 1.0005
"""The quickest time grows by this factor with each answer that is not quicker."""
_STEP_SLOW_SECONDS = 1.0
"""A first step is slow if it begins so long after Temporal's answer. A worker that keeps a whole
core busy needs a third of that for a full window."""


class WindowClosed(Exception):
    """The relay stops, so a start that waits for its turn is not made."""


class Turn:
    """A place in the window."""

    def __init__(self) -> None:
        self.begun_at = time.monotonic()
        self.answered_at: float | None = None
        self._stepping: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def first_step(self) -> None:
        """Keep the place until the first step begins in this process. Call it when Temporal has
        answered, if it gave the workflow's first task to this process."""
        self.answered_at = time.monotonic()
        await asyncio.wait([self._stepping], timeout=WORKFLOW_TASK.total_seconds())

    def end_wait(self) -> None:
        """The first step begins, or nothing is started any more."""
        if not self._stepping.done():
            self._stepping.set_result(None)


class StartWindow:
    """Limits the starts in progress. One per worker process."""

    def __init__(self) -> None:
        self._size = _FIRST
        self._under_way = 0
        self._halved_at = 0.0
        self._quickest = math.inf
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._turns: dict[str, Turn] = {}
        self._numbers = itertools.count()
        self._closed = False

    @property
    def size(self) -> int:
        """How many starts may be in progress at once, 1 to MOST."""
        return int(self._size)

    @asynccontextmanager
    async def turn(self, urgency: int, delivery_id: str) -> AsyncIterator[Turn]:
        """Wait for room, then run the block, and learn from the time it takes. A lower `urgency`
        number is admitted first. Raises WindowClosed instead once the window is closed."""
        await self._room(urgency)
        turn, answered = Turn(), False
        self._turns[delivery_id] = turn
        try:
            yield turn
            answered = True
        finally:
            self._turns.pop(delivery_id, None)
            self._under_way -= 1
            self._learn(turn, time.monotonic(), answered=answered)
            self._admit()

    def step_begins(self, delivery_id: str) -> None:
        """Note that a first step begins in this process."""
        if (turn := self._turns.get(delivery_id)) is not None:
            turn.end_wait()

    def close(self) -> None:
        """Admit no more starts: those that wait, and all later ones, fail with WindowClosed."""
        self._closed = True
        for _, _, admitted in self._waiting:
            if not admitted.done():
                admitted.set_exception(WindowClosed)
        self._waiting.clear()
        for turn in self._turns.values():
            turn.end_wait()

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

    def _learn(self, turn: Turn, ended: float, *, answered: bool) -> None:
        """Adjust the window. A refused connection is quick and says nothing about Temporal's
        speed."""
        answered_at = turn.answered_at or ended
        took = answered_at - turn.begun_at
        if answered:
            self._quickest = min(took, self._quickest * _FORGET)
        slow = took > max(_SLOW_SECONDS, _SLOW_TIMES * self._quickest)
        if slow or ended - answered_at > _STEP_SLOW_SECONDS:
            if (
                turn.begun_at > self._halved_at
            ):  # otherwise it began in the larger window, which was halved already
                self._size = max(1.0, self._size / 2)
                self._halved_at = ended
        elif answered:
            self._size = min(MOST, self._size + 1 / self._size)
