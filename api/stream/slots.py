"""How many streams a process has open at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from api.answers.problems import TooManyRequests
from hookfast.errors import Unavailable

_RETRY_SECONDS = 10


class StreamSlots:
    """One tenant may have a quarter of them, one at least."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of_one = max(1, limit // 4)
        self._taken: Counter[str | None] = Counter()

    @property
    def taken(self) -> int:
        """How many are taken now."""
        return self._taken.total()

    @contextmanager
    def enter(self, tenant_id: str | None) -> Iterator[None]:
        """Take a seat for as long as the block lasts; None is the operator. Raises TooManyRequests
        (`too_many_streams`) for a tenant that has its share, Unavailable (`overloaded`)."""
        if tenant_id is not None and self._taken[tenant_id] >= self._of_one:
            raise TooManyRequests(
                f"This tenant has {self._of_one} streams open already, which is its share; close "
                "one.",
                code="too_many_streams",
                retry_after=_RETRY_SECONDS,
            )
        if self.taken >= self._limit:
            raise Unavailable(
                "Too many streams are open; try again.",
                code="overloaded",
                retry_after=_RETRY_SECONDS,
            )
        self._taken[tenant_id] += 1
        try:
            yield
        finally:
            self._taken[tenant_id] -= 1
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]
