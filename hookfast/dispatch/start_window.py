"""How many workflows a relay starts or wakes at once: fewer while Temporal or this worker is slow.

Two numbers are limited:

- Starts that Temporal has not answered. It serves requests in the order in which they come, so a
  relay with many starts under way delays the polls and responses that every running delivery needs.
- Started deliveries whose first step has not begun in this process, to which Temporal gave it. What
  is not attempted within a workflow task's ten seconds, Temporal has attempted again: the rate of
  workers with 0.14 cores fell to a tenth.

Both limits follow TCP's congestion avoidance (RFC 5681): they grow by one per round trip while it
is quick, and are halved when it is slow. Starts that wait for room are admitted in order of
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
from dataclasses import dataclass

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
_MOST_STEPS = 128.0
_STEP_SLOW_SECONDS = 1.0
"""A first step is slow if it begins so long after Temporal's answer. A worker that keeps a whole
core busy begins a hundred in that time."""


class WindowClosed(Exception):
    """The relay stops, so a start that waits for its turn is not made."""


@dataclass(frozen=True, slots=True)
class _Unbegun:
    """A started delivery whose first step has not begun: `since` Temporal's answer."""

    since: float
    timer: asyncio.TimerHandle


class StartWindow:
    """Limits the starts in progress. One per worker process."""

    def __init__(self) -> None:
        self._size = _FIRST
        self._under_way = 0
        self._halved_at = 0.0
        self._quickest = math.inf
        self._most_steps = _MOST_STEPS
        self._steps_halved_at = 0.0
        self._starting: set[str] = set()
        self._unbegun: dict[str, _Unbegun] = {}
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._closed = False

    @property
    def size(self) -> int:
        """How many starts may be in progress at once, 1 to MOST."""
        return int(min(self._size, self._most_steps))

    @asynccontextmanager
    async def turn(self, urgency: int, delivery_id: str) -> AsyncIterator[None]:
        """Wait for room, then run the block, and learn from the time it takes. A lower `urgency`
        number is admitted first. Raises WindowClosed instead once the window is closed."""
        await self._room(urgency)
        begun, answered = time.monotonic(), False
        self._starting.add(delivery_id)
        try:
            yield
            answered = True
        finally:
            self._starting.discard(delivery_id)
            self._under_way -= 1
            self._learn(begun, time.monotonic(), answered=answered)
            self._admit()

    def expect_step(self, delivery_id: str) -> None:
        """Note, during a turn, that Temporal gave the first step of this delivery to this
        process."""
        if delivery_id not in self._starting:
            return  # it has begun already
        timer = asyncio.get_running_loop().call_later(
            WORKFLOW_TASK.total_seconds(), self.step_begins, delivery_id
        )
        self._unbegun[delivery_id] = _Unbegun(time.monotonic(), timer)

    def step_begins(self, delivery_id: str) -> None:
        """Note that a first step begins in this process, or will not any more."""
        self._starting.discard(delivery_id)
        if (waited := self._unbegun.pop(delivery_id, None)) is not None:
            waited.timer.cancel()
            self._learn_of_step(waited.since, time.monotonic())
            self._admit()

    def close(self) -> None:
        """Admit no more starts: those that wait, and all later ones, fail with WindowClosed."""
        self._closed = True
        for _, _, admitted in self._waiting:
            if not admitted.done():
                admitted.set_exception(WindowClosed)
        self._waiting.clear()
        for waited in self._unbegun.values():
            waited.timer.cancel()

    @property
    def _in_progress(self) -> int:
        return self._under_way + len(self._unbegun)

    @property
    def _has_room(self) -> bool:
        return self._under_way < int(self._size) and self._in_progress < int(self._most_steps)

    async def _room(self, urgency: int) -> None:
        if self._closed:
            raise WindowClosed
        if self._has_room and not self._waiting:
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
        while self._waiting and self._has_room:
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

    def _learn_of_step(self, since: float, begun: float) -> None:
        if begun - since <= _STEP_SLOW_SECONDS:
            self._most_steps = min(_MOST_STEPS, self._most_steps + 1 / self._most_steps)
        elif since > self._steps_halved_at:  # otherwise, that was halved already
            self._most_steps = max(1.0, (self._in_progress + 1) / 2)
            self._steps_halved_at = begun
