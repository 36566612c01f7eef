"""Whether first attempts travel in batches, or each in the workflow of its delivery.

`auto` starts batching when new deliveries come faster than their workflows can be started, or so
fast that each would wait longer. It stops when they come at less than half the rate that was too
much: with one threshold for both it would switch all the time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Literal

from hookfast.telemetry import instruments

Setting = Literal["auto", "workflow", "batch"]

_LATE: Final = timedelta(milliseconds=250)
"""If a new delivery waited this long for its workflow, the worker does not keep up."""
_SPAN: Final = 5.0
"""Minimum duration of batching in seconds, and the period over which the rate that ends it
counts."""
_LATELY: Final = 1.0
"""Period in seconds over which the rate that starts batching counts."""
_BRISK: Final = 20.0
"""Deliveries per second that are too many in any case. With workflows of their own, 20 per second
take half a core, and a delivery waits three times as long for its request."""
_SLOWEST: Final = 2.0
"""Deliveries per second below which batches are never needed."""


class _Rate:
    """Deliveries per second over the last `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._taken: deque[tuple[float, int]] = deque()
        self._count = 0

    def add(self, now: float, count: int) -> None:
        self._forget(now)
        self._taken.append((now, count))
        self._count += count

    def at(self, now: float) -> float:
        self._forget(now)
        return self._count / self._seconds

    def _forget(self, now: float) -> None:
        while self._taken and now - self._taken[0][0] > self._seconds:
            self._count -= self._taken.popleft()[1]


class FirstAttempts:
    """Decides whether first attempts are batched. One per worker process."""

    def __init__(
        self, setting: Setting = "auto", *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._setting = setting
        self._now = now
        self._lately, self._for_a_while = _Rate(_LATELY), _Rate(_SPAN)
        self._batched = setting == "batch"
        self._since = -_SPAN
        self._too_much = 0.0
        self._export()

    @property
    def batched(self) -> bool:
        """Whether new deliveries go into batches now."""
        if self._setting == "auto" and self._batched:
            now = self._now()
            slow = max(_SLOWEST, self._too_much / 2)
            if now - self._since > _SPAN and self._for_a_while.at(now) < slow:
                self._batched = False
                self._export()
        return self._batched

    def note_leased(self, count: int, *, oldest: timedelta, full: bool) -> None:
        """Note that the relay leased this many new deliveries. `oldest` is how long the first of
        them waited; `full` means that others had to wait for lack of room."""
        if self._setting != "auto":
            return
        now = self._now()
        for rate in (self._lately, self._for_a_while):
            rate.add(now, count)
        if self._batched:
            return
        lately = self._lately.at(now)
        if full or oldest > _LATE or lately > _BRISK:
            self._batched, self._since, self._too_much = True, now, min(lately, _BRISK)
            self._export()

    def _export(self) -> None:
        instruments.BATCHING.set(1.0 if self._batched else 0.0)
