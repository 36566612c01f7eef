"""What was read last and never changes, kept up to so many bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class SizeBoundedCache(Generic[Value]):
    """Values by id. When their bodies add up to more than `most_bytes`, the oldest are forgotten;
    `size` is the bytes of one."""

    def __init__(self, size: Callable[[Value], int], *, most_bytes: int) -> None:
        self._size = size
        self._most_bytes = most_bytes
        self._known: OrderedDict[str, Value] = OrderedDict()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """What is kept adds up to so much."""
        return self._bytes

    def get(self, key: str) -> Value | None:
        """The value, where it is remembered."""
        return self._known.get(key)

    def keep(self, key: str, value: Value) -> None:
        """Remember it. Two who read the same at once both come here: it counts once."""
        replaced = self._known.pop(key, None)
        if replaced is not None:
            self._bytes -= self._size(replaced)
        self._known[key] = value
        self._bytes += self._size(value)
        while self._bytes > self._most_bytes:
            _, oldest = self._known.popitem(last=False)
            self._bytes -= self._size(oldest)
