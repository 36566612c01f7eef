"""Decides when a line that repeats is logged: at once, and then once in a while with a count."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

EVERY_SECONDS = 60.0


class RepeatedLines:
    """Counts lines by a key. Not for keys without end: it forgets none."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged_at: dict[Hashable, float] = {}
        self._counts: dict[Hashable, int] = {}

    def due(self, key: Hashable) -> int | None:
        """Count one more, and return how many there were since the last line, if a line is due."""
        self._counts[key] = self._counts.get(key, 0) + 1
        now, logged_at = self._clock(), self._logged_at.get(key)
        if logged_at is not None and now < logged_at + EVERY_SECONDS:
            return None
        self._logged_at[key] = now
        return self._counts.pop(key)
