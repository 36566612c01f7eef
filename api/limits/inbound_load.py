"""The limit of inbound requests that one process verifies and stores at once: it bounds how long
the last one waits. Bodies that still arrive are bounded by `hookfast.byte_budget`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from hookfast.errors import Unavailable


class InboundLoad:
    """Counts inbound requests in progress. One source may have half of the limit, so that a flood
    to one address does not block the others."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._source_limit = limit // 2
        self._total = 0
        self._by_source: Counter[str] = Counter()

    @contextmanager
    def enter(self, source_id: str) -> Iterator[None]:
        """Count a request as in progress until the block ends. Raises Unavailable (`overloaded`)
        over the limit."""
        if self._total >= self._limit or self._by_source[source_id] >= self._source_limit:
            raise Unavailable(
                "Too many requests are in progress. Nothing was stored; send it again.",
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
