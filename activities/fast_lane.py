"""The fast lane: first attempts that run in the process that starts their workflows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class FastLane:
    """Slots for first attempts that run as local activities, shared among endpoints.

    An endpoint may hold half as many slots as are free ("dynamic thresholds", Choudhury and Hahne,
    1998). So one receiver that never answers takes at most a third of all slots, two take a quarter
    each, and some are always left for the others. The remaining attempts go to the regular queue,
    where each costs one more activity and a slot that retries need.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._open: Counter[str] = Counter()

    @contextmanager
    def enter(self, endpoint_id: str) -> Iterator[bool]:
        """Yield whether a slot was free. It is taken while the block runs."""
        if self._open[endpoint_id] >= self._free / 2:
            yield False
            return
        self._open[endpoint_id] += 1
        self._free -= 1
        try:
            yield True
        finally:
            self._free += 1
            self._open[endpoint_id] -= 1
            if not self._open[endpoint_id]:
                del self._open[endpoint_id]
