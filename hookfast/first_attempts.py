"""Whether first attempts travel in batches, or each in the workflow of its delivery.

`auto` begins to batch when new deliveries come faster than their workflows can be started, and goes
back when they come at less than half the rate that was too much: one threshold for both would have
it change its mind all the time.
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
"""A new delivery that waited so long for its workflow says that the worker does not keep up."""
_SPAN: Final = 5.0
"""Seconds over which the rate is taken, and for which batching lasts at least."""
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
            if now - self._since > _SPAN and self._rate(now) < max(_SLOWEST, self._too_much / 2):
                self._batched = False
                self._tell()
        return self._batched

    def took(self, count: int, *, oldest: timedelta, full: bool) -> None:
        """The relay took so many new deliveries, of which the first has waited for `oldest`;
        `full`: it left some for want of room."""
        if self._setting != "auto":
            return
        now = self._now()
        self._taken.append((now, count))
        if not self._batched and (full or oldest > _LATE):
            self._batched, self._since = True, now
            self._too_much = self._rate(now)
            self._tell()

    def _rate(self, now: float) -> float:
        while self._taken and now - self._taken[0][0] > _SPAN:
            self._taken.popleft()
        return sum(count for _, count in self._taken) / _SPAN

    def _tell(self) -> None:
        instruments.BATCHING.set(1.0 if self._batched else 0.0)
