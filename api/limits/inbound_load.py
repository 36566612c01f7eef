"""How many inbound requests a process has in hand at once: what bounds the memory that bodies of
callers nobody has verified yet may take, and the time the last in the queue waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from hookfast.errors import Unavailable


class InboundLoad:
    """One source may have half of it: whoever floods one address does not close the others."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of_one = limit // 2
        self._total = 0
        self._by_source: Counter[str] = Counter()

    @contextmanager
    def enter(self, source_id: str) -> Iterator[None]:
        """Take a place for as long as the block lasts. Raises Unavailable (`overloaded`) when there
        is none."""
        if self._total >= self._limit or self._by_source[source_id] >= self._of_one:
            raise Unavailable(
                "Too many requests are in hand. Nothing was stored; send it again.",
                code="overloaded",
                retry_after=1,
            )
        self._total += 1
        self._by_source[source_id] += 1
        try:
            yield
        finally:
            self._total -= 1
            self._by_source[source_id] -= 1
            if not self._by_source[source_id]:
                del self._by_source[source_id]
