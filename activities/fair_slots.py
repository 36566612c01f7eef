"""A limited number of slots that are shared fairly among those who want them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class FairSlots:
    """Slots that are shared among owners: those of the fast lane among endpoints, for instance.

    An owner may hold half as many slots as are free ("dynamic thresholds", Choudhury and Hahne,
    1998). So one receiver that never answers takes at most a third of the fast lane, two take a
    quarter each, and some slots are always left for the others. The remaining attempts go to the
    regular queue, where each costs one more activity and a slot that retries need.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._open: Counter[str] = Counter()

    @contextmanager
    def enter(self, owner: str) -> Iterator[bool]:
        """Yield whether a slot was free. It is taken while the block runs."""
        if self._open[owner] >= self._free / 2:
            yield False
            return
        self._open[owner] += 1
        self._free -= 1
        try:
            yield True
        finally:
            self._free += 1
            self._open[owner] -= 1
            if not self._open[owner]:
                del self._open[owner]
