"""The fast lane: first attempts that run in the process which starts their workflows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class FastLane:
    """Caps how many first attempts to one endpoint a worker has open as local activities, so that
    a receiver that never answers cannot occupy the lane; the rest go to the regular queue."""

    def __init__(self, per_endpoint: int) -> None:
        self._per_endpoint = per_endpoint
        self._open: Counter[str] = Counter()

    @contextmanager
    def enter(self, endpoint_id: str) -> Iterator[bool]:
        """Whether there is room, which is then taken for as long as the block lasts."""
        if self._open[endpoint_id] >= self._per_endpoint:
            yield False
            return
        self._open[endpoint_id] += 1
        try:
            yield True
        finally:
            self._open[endpoint_id] -= 1
            if not self._open[endpoint_id]:
                del self._open[endpoint_id]
