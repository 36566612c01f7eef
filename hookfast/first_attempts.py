"""Whether first attempts travel in batches, or each in the workflow of its delivery.

`auto` begins to batch when new deliveries come faster than their workflows can be started, or so
fast that everybody would wait longer for them, and goes back when they come at less than half the
rate that was too much: one threshold for both would have it change its mind all the time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from itertools import takewhile
from typing import Final, Literal

from hookfast.telemetry import instruments

Setting = Literal["auto", "workflow", "batch"]

_LATE: Final = timedelta(milliseconds=250)
"""A new delivery that waited so long for its workflow says that the worker does not keep up."""
_SPAN: Final = 5.0
"""Seconds for which batching lasts at least, and over which the rate is taken that ends it."""
_LATELY: Final = 1.0
"""Seconds over which the rate is taken that begins it."""
_LONGEST_LINGER: Final = 0.003
_BRISK: Final = 20.0
"""Deliveries per second that are too much in any case. Workflows of their own would take half of a
core for each 20 of them, and triple the time until a delivery's request."""
_SLOWEST: Final = 2.0
"""Deliveries per second at which nobody needs batches."""


class FirstAttempts:
    """One per worker process."""

    def __init__(
        self, setting: Setting = "auto", *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._setting = setting
        self._now = now
        self._taken: deque[tuple[float, int]] = deque()
        self._batched = setting == "batch"
        self._since = -_SPAN
        self._too_much = 0.0
        self._tell()

    @property
    def batched(self) -> bool:
        """Whether new deliveries go into batches now."""
        if self._setting == "auto" and self._batched:
            now = self._now()
            slow = max(_SLOWEST, self._too_much / 2)
            if now - self._since > _SPAN and self._rate(now, _SPAN) < slow:
                self._batched = False
                self._tell()
        return self._batched

    def took(self, count: int, *, oldest: timedelta, full: bool) -> None:
        """The relay took so many new deliveries, of which the first has waited for `oldest`;
        `full`: it left some for want of room."""
        now = self._now()
        self._taken.append((now, count))
        if self._setting != "auto" or self._batched:
            return
        rate = self._rate(now, _LATELY)
        if full or oldest > _LATE or rate > _BRISK:
            self._batched, self._since, self._too_much = True, now, min(rate, _BRISK)
            self._tell()

    @property
    def linger(self) -> float:
        """Seconds in which new deliveries may gather before they are taken, so that they share what
        that costs: nothing at rest, 5 ms at 50 a second, 30 ms from 300 on."""
        return min(_LONGEST_LINGER, self._rate(self._now(), _LATELY) / 10_000)

    def _rate(self, now: float, seconds: float) -> float:
        """Deliveries a second that were taken in the last so many seconds."""
        while self._taken and now - self._taken[0][0] > _SPAN:
            self._taken.popleft()
        lately = takewhile(lambda taken: now - taken[0] <= seconds, reversed(self._taken))
        return sum(count for _, count in lately) / seconds

    def _tell(self) -> None:
        instruments.BATCHING.set(1.0 if self._batched else 0.0)
