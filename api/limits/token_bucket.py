"""Token buckets, one per client or key, in bounded memory. They count in this process only."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """The result of taking a token from a bucket."""

    granted: bool
    left: int
    """Whole tokens that remain."""
    wait_seconds: int
    """Whole seconds until a token is available again; 0 while one remains."""
    full_seconds: int
    """Whole seconds until the bucket is full again."""


class TokenBuckets:
    """Buckets by name, each of which starts with `burst` tokens and gains `per_second`.

    At most `capacity` buckets are kept; beyond that, the least recently used one is forgotten,
    which makes it full again. A caller with that many addresses is not stopped by a limit per
    address anyway, and memory that grows with the addresses would do more harm.
    """

    def __init__(
        self,
        *,
        per_second: float,
        burst: int,
        capacity: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.per_second = per_second
        self.burst = burst
        self._clock = clock
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(capacity)  # → (tokens, at)

    def take(self, name: str) -> Take:
        """Take a token if there is one. A denied request takes nothing, so waiting always helps."""
        now = self._clock()
        tokens = self._tokens(name, now)
        granted = tokens >= 1
        if granted:
            tokens -= 1
        self._buckets[name] = (tokens, now)
        return Take(
            granted=granted,
            left=int(tokens),
            wait_seconds=self._seconds(1 - tokens),
            full_seconds=self._seconds(self.burst - tokens),
        )

    def is_empty(self, name: str) -> bool:
        """Whether `take` would grant no token now."""
        return self._tokens(name, self._clock()) < 1

    def __len__(self) -> int:
        return len(self._buckets)

    def _tokens(self, name: str, now: float) -> float:
        tokens, at = self._buckets.get(name, (float(self.burst), now))
        return min(self.burst, tokens + (now - at) * self.per_second)

    def _seconds(self, tokens: float) -> int:
        return math.ceil(max(0.0, tokens) / self.per_second)
