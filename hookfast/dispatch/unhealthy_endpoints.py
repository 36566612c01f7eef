"""Endpoints that were slow or failing lately, as far as this worker knows. Their first attempts are
not batched."""

from __future__ import annotations

import time
from typing import Final

from cachetools import LRUCache

_FORGET_SECONDS: Final = 30.0
_ENOUGH: Final = 3
"""An endpoint with this many more bad than good attempts is unhealthy; one failure in 100 is
not."""
_MOST_SCORE: Final = 6
_MOST: Final = 10_000


class UnhealthyEndpoints:
    """Scores endpoints by their attempts. One per worker process."""

    def __init__(self) -> None:
        # the score and when it was last raised, for endpoints with a score above 0
        self._scores: LRUCache[str, tuple[int, float]] = LRUCache(_MOST)

    def mark_unhealthy(self, endpoint_id: str) -> None:
        """Count an attempt that failed or is slow."""
        score, _ = self._scores.get(endpoint_id, (0, 0.0))
        self._scores[endpoint_id] = (min(score + 1, _MOST_SCORE), time.monotonic())

    def mark_healthy(self, endpoint_id: str) -> None:
        """Count an attempt that succeeded."""
        if endpoint_id in self._scores:
            score, at = self._scores[endpoint_id]
            if score == 1:
                del self._scores[endpoint_id]
            else:
                self._scores[endpoint_id] = (score - 1, at)

    def __contains__(self, endpoint_id: str) -> bool:
        known = self._scores.get(endpoint_id)
        if known is None or known[0] < _ENOUGH:
            return False
        if time.monotonic() - known[1] <= _FORGET_SECONDS:
            return True
        del self._scores[endpoint_id]
        return False
