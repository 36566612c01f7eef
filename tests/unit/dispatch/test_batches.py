"""The batches a worker has in hand: what may be added to one, and until when."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from hookfast.deliveries.batch_messages import MOST
from hookfast.dispatch import batches
from hookfast.dispatch.batches import Batch, closed_batch
from hookfast.storage.deliveries.outbox import PendingDelivery

pytestmark = pytest.mark.anyio


def rows(count: int, *, first: int = 0) -> list[PendingDelivery]:
    fields: dict[str, Any] = {name: None for name in PendingDelivery.__slots__}
    return [
        PendingDelivery(**fields | {"delivery_id": f"dlv_{number}", "endpoint_id": "ep_1"})
        for number in range(first, first + count)
    ]


class Taken:
    """What a batch is given to attempt."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def __call__(self, delivery_ids: Sequence[str]) -> None:
        self.ids.extend(delivery_ids)


async def test_one_takes_no_more_before_its_attempts_begin() -> None:
    batch = Batch("btc_1", rows(1))
    assert batch.is_opening
    assert not batch.is_open
    assert not batch.add(rows(1))
    batch.open(Taken())
    assert batch.is_open
    assert batch.opens.done()


async def test_what_is_added_is_attempted() -> None:
    batch, taken = Batch("btc_1", rows(1)), Taken()
    batch.open(taken)
    assert batch.add(rows(2, first=1))
    assert taken.ids == ["dlv_1", "dlv_2"]
    assert batch.in_progress == {"ep_1": 3}
    assert batch.room == MOST - 3
    assert not batch.complete.done()


async def test_what_has_ended_takes_no_room_in_hand_but_its_place_in_the_batch() -> None:
    """Else a batch that waits for one slow receiver would keep a busy endpoint out."""
    batch = Batch("btc_1", rows(3))
    batch.open(Taken())
    batch.finished(["dlv_0", "dlv_2", "dlv_unknown"])
    assert batch.in_progress["ep_1"] == 1
    assert batch.room == MOST - 3


async def test_one_without_deliveries_waits_for_them() -> None:
    batch, taken = Batch("btc_1"), Taken()
    batch.open(taken)
    assert batch.add(rows(1))
    assert taken.ids == ["dlv_0"]


async def test_the_next_is_due_when_one_is_half_full() -> None:
    batch = Batch("btc_1", rows(1))
    batch.open(Taken())
    assert not batch.closes_soon
    batch.add(rows(MOST // 2, first=1))
    assert batch.closes_soon
    assert batch.is_open


async def test_the_next_is_due_shortly_before_one_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_NEXT_SECONDS", -0.001)
    batch = Batch("btc_1", rows(1))
    assert not batch.closes_soon  # nothing can be added yet
    batch.open(Taken())
    assert batch.closes_soon
    assert batch.is_open


async def test_a_full_one_is_complete() -> None:
    full, filled = Batch("btc_1", rows(MOST)), Batch("btc_2", rows(1))
    for one in (full, filled):
        one.open(Taken())
    assert full.complete.done()
    assert filled.add(rows(MOST - 1, first=1))
    assert filled.complete.done()
    assert not filled.is_open


async def test_one_is_open_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_OPEN_SECONDS", 0.01)
    batch = Batch("btc_1", rows(1))
    batch.open(Taken())
    async with asyncio.timeout(10):
        await batch.complete
    assert not batch.is_open


async def test_one_that_closes_waits_for_what_is_being_leased_for_it() -> None:
    batch, taken = Batch("btc_1", rows(1)), Taken()
    batch.open(taken)
    with batch.adding():
        batch.close()
        assert not batch.complete.done()
        assert batch.room == 0
        assert batch.add(rows(1))
    assert batch.complete.done()
    assert taken.ids == ["dlv_0"]


async def test_one_whose_attempts_are_over_takes_nothing() -> None:
    batch, taken = Batch("btc_1", rows(1)), Taken()
    batch.open(taken)
    with batch.adding():
        batch.end()
        assert batch.complete.done()
        assert not batch.add(rows(1))
    assert taken.ids == []


async def test_a_batch_that_another_worker_started_takes_no_more() -> None:
    batch = closed_batch("btc_1")
    batch.open(Taken())
    assert batch.complete.done()
    assert not batch.is_open
