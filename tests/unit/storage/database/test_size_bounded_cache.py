"""What is remembered, and what is forgotten for it."""

from __future__ import annotations

from hookfast.storage.database.size_bounded_cache import SizeBoundedCache


def test_the_oldest_are_forgotten_when_there_is_too_much() -> None:
    remembered: SizeBoundedCache[bytes] = SizeBoundedCache(len, most_bytes=10)
    for key, size in (("a", 4), ("b", 4), ("c", 4)):
        remembered.keep(key, bytes(size))
    assert [remembered.get(key) is not None for key in "abc"] == [False, True, True]
    assert remembered.bytes == 8
    remembered.keep("d", bytes(11))  # more than there is room for at all
    assert [remembered.get(key) for key in "abcd"] == [None] * 4
    assert remembered.bytes == 0


def test_what_several_read_at_once_counts_once_and_pushes_nothing_out() -> None:
    remembered: SizeBoundedCache[bytes] = SizeBoundedCache(len, most_bytes=10)
    remembered.keep("a", bytes(4))
    for _ in range(20):
        remembered.keep("b", bytes(4))
    assert remembered.bytes == 8
    assert remembered.get("a") is not None
    remembered.keep("b", bytes(6))  # and whatever size it had before
    assert remembered.bytes == 10
