"""A limited number of slots that are shared fairly among those who want them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Slots:
    """Slots that are shared among owners: those of the fast lane among endpoints, for instance.

    An owner may hold at most `most` of them. Without that it may hold half as many as are free
    ("dynamic thresholds", Choudhury and Hahne, 1998). So one receiver that never answers takes at
    most a third of the fast lane, two take a quarter each, and some slots are always left for the
    others. The remaining attempts go to the regular queue, where each costs one more activity and a
    slot that retries need.
    """

    def __init__(self, slots: int, *, most: int | None = None) -> None:
        self.free = slots
        self._most = most
        self._held: Counter[str | None] = Counter()

    def has(self, owner: str | None) -> bool:
        """Whether the owner holds a slot."""
        return owner in self._held

    def share_is_used(self, owner: str | None) -> bool:
        """Whether the owner may hold no more."""
        return self._held[owner] >= (self.free / 2 if self._most is None else self._most)

    def hold(self, owner: str | None) -> None:
        """Take a slot until its `release`, whether the owner may or not."""
        self._held[owner] += 1
        self.free -= 1

    def release(self, owner: str | None) -> None:
        """Give a slot back."""
        self.free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]

    @contextmanager
    def take(self, owner: str | None) -> Iterator[None]:
        """Take a slot while the block runs, whether the owner may or not."""
        self.hold(owner)
        try:
            yield
        finally:
            self.release(owner)

    @contextmanager
    def enter(self, owner: str) -> Iterator[bool]:
        """Yield whether the owner may have a slot. It is taken while the block runs."""
        if self.free <= 0 or self.share_is_used(owner):
            yield False
            return
        with self.take(owner):
            yield True
