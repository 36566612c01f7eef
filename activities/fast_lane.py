"""The fast lane: first attempts that run in the process which starts their workflows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class FastLane:
    """Places for first attempts that run as local activities, shared out among endpoints.

    An endpoint may have half as many as are free ("dynamic thresholds", Choudhury and Hahne, 1998).
    So a receiver that never answers takes at most a third of all places, two of them take a quarter
    each, and however many there are, some are left for the others. The rest go to the regular
    queue: one more activity for Temporal, and one of the slots that retries need.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._open: Counter[str] = Counter()

    @contextmanager
    def enter(self, endpoint_id: str) -> Iterator[bool]:
        """Whether there is a place, which is then taken for as long as the block lasts."""
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
