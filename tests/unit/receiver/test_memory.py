"""The in-memory store: its limit, and expiry."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookfast.receiver import Done, Fresh, InProgress, MemoryStore, Misconfigured, StoreFull

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def begin(store: MemoryStore, key: str) -> Fresh:
    begun = store.begin(key, lease=MINUTE)
    assert isinstance(begun, Fresh)
    return begun


def test_a_full_store_forgets_the_oldest_finished_messages() -> None:
    store = MemoryStore(max_entries=10)
    for n in range(11):
        store.finish(begin(store, str(n)), keep=DAY)
    assert len(store) == 10
    assert isinstance(store.begin("1", lease=MINUTE), Done)
    assert isinstance(store.begin("0", lease=MINUTE), Fresh)


def test_a_full_store_raises_before_it_forgets_messages_in_progress() -> None:
    store = MemoryStore(max_entries=2)
    begin(store, "1")
    begin(store, "2")
    with pytest.raises(StoreFull):
        store.begin("3", lease=MINUTE)
    assert isinstance(store.begin("1", lease=MINUTE), InProgress)


def test_a_full_store_forgets_expired_messages_first() -> None:
    clock = Clock()
    store = MemoryStore(max_entries=2, monotonic=clock)
    begin(store, "1")
    begin(store, "2")
    clock.now = 60.0
    begin(store, "3")
    assert len(store) == 1


def test_a_message_is_fresh_again_when_its_lease_or_record_expires() -> None:
    clock = Clock()
    store = MemoryStore(monotonic=clock)
    begin(store, "1")
    clock.now = 59.9
    assert isinstance(store.begin("1", lease=MINUTE), InProgress)
    clock.now = 60.0
    store.finish(begin(store, "1"), keep=DAY)
    clock.now += 86_399.9
    assert isinstance(store.begin("1", lease=MINUTE), Done)
    clock.now += 0.2
    begin(store, "1")


def test_work_finished_after_its_lease_is_recorded_even_in_a_full_store() -> None:
    clock = Clock()
    store = MemoryStore(max_entries=1, monotonic=clock)
    late = begin(store, "1")
    clock.now = 61.0
    begin(store, "2")
    store.finish(late, b"done", keep=DAY)
    assert store.begin("1", lease=MINUTE) == Done(b"done")


def test_a_store_without_entries_is_rejected() -> None:
    with pytest.raises(Misconfigured):
        MemoryStore(max_entries=0)
