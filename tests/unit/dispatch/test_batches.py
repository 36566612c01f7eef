"""The batches of a worker: which deliveries may be added to a batch, and until when."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from temporalio.client import Client

from hookfast.clock import utc_now
from hookfast.deliveries.batch_messages import MOST
from hookfast.dispatch import batches
from hookfast.dispatch.batches import Batch, Batches, closed_batch
from hookfast.storage.deliveries.outbox import PendingDelivery

pytestmark = pytest.mark.anyio


def rows(count: int, *, first: int = 0) -> list[PendingDelivery]:
    fields: dict[str, Any] = {name: None for name in PendingDelivery.__slots__}
    return [
        PendingDelivery(**fields | {"delivery_id": f"dlv_{number}", "endpoint_id": "ep_1"})
        for number in range(first, first + count)
    ]


class Taken:
    """Records the deliveries that a batch is to attempt."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def __call__(self, delivery_ids: Sequence[str]) -> None:
        self.ids.extend(delivery_ids)


async def test_batch_takes_no_deliveries_before_it_is_open() -> None:
    batch = Batch("btc_1", rows(1))
    assert batch.is_opening
    assert not batch.is_open
    assert not batch.add(rows(1))
    batch.open(Taken())
    assert batch.is_open
    assert batch.opens.done()


async def test_added_deliveries_are_attempted() -> None:
    batch, taken = Batch("btc_1", rows(1)), Taken()
    batch.open(taken)
    assert batch.add(rows(2, first=1))
    assert taken.ids == ["dlv_1", "dlv_2"]
    assert batch.in_progress == {"ep_1": 3}
    assert batch.room == MOST - 3
    assert not batch.complete.done()


async def test_finished_delivery_keeps_its_place_but_is_not_in_progress() -> None:
    """Otherwise a batch that waits for one slow receiver would keep a busy endpoint out."""
    batch = Batch("btc_1", rows(3))
    batch.open(Taken())
    batch.finished(["dlv_0", "dlv_2", "dlv_unknown"])
    assert batch.in_progress["ep_1"] == 1
    assert batch.room == MOST - 3


async def test_empty_batch_waits_for_deliveries() -> None:
    batch, taken = Batch("btc_1"), Taken()
    batch.open(taken)
    assert batch.add(rows(1))
    assert taken.ids == ["dlv_0"]


async def test_next_batch_is_due_when_one_is_half_full() -> None:
    batch = Batch("btc_1", rows(1))
    batch.open(Taken())
    assert not batch.closes_soon
    batch.add(rows(MOST // 2, first=1))
    assert batch.closes_soon
    assert batch.is_open


async def test_next_batch_is_due_shortly_before_one_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_NEXT_SECONDS", -0.001)
    batch = Batch("btc_1", rows(1))
    assert not batch.closes_soon  # nothing can be added yet
    batch.open(Taken())
    assert batch.closes_soon
    assert batch.is_open


async def test_full_batch_is_complete() -> None:
    full, filled = Batch("btc_1", rows(MOST)), Batch("btc_2", rows(1))
    for one in (full, filled):
        one.open(Taken())
    assert full.complete.done()
    assert filled.add(rows(MOST - 1, first=1))
    assert filled.complete.done()
    assert not filled.is_open


async def test_batch_closes_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_OPEN_SECONDS", 0.01)
    batch = Batch("btc_1", rows(1))
    batch.open(Taken())
    async with asyncio.timeout(10):
        await batch.complete
    assert not batch.is_open


async def test_closing_batch_waits_for_deliveries_that_are_being_leased() -> None:
    batch, taken = Batch("btc_1", rows(1)), Taken()
    batch.open(taken)
    with batch.adding():
        batch.close()
        assert not batch.complete.done()
        assert batch.room == 0
        assert batch.add(rows(1))
    assert batch.complete.done()
    assert taken.ids == ["dlv_0"]


async def test_ended_batch_takes_no_deliveries() -> None:
    batch, taken = Batch("btc_1", rows(1)), Taken()
    batch.open(taken)
    with batch.adding():
        batch.end()
        assert batch.complete.done()
        assert not batch.add(rows(1))
    assert taken.ids == []


async def test_batch_of_another_worker_takes_no_deliveries() -> None:
    batch = closed_batch("btc_1")
    batch.open(Taken())
    assert batch.complete.done()
    assert not batch.is_open


class Temporal:
    """A client whose workflows end when `ended` is set."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def start_workflow(self, *_: object, **__: object) -> Temporal:
        return self

    async def result(self) -> None:
        await self.ended.wait()


async def test_slow_worker_takes_fewer_deliveries_at_once_and_recovers() -> None:
    loop = asyncio.get_running_loop()
    temporal = Temporal()
    all_batches = Batches(cast("Client", temporal), on_room=lambda: None)

    async def run_batch(name: str, *, took: float | None) -> None:
        temporal.ended.clear()
        all_batches.begin(name, rows(1), leased_until=utc_now(), on_start=lambda _: None)
        batch = all_batches.get(name)
        assert batch is not None
        assert batch.room == all_batches.most - 1
        if took is not None:
            batch.open(Taken())
            batch._opened_at = loop.time() - took
        temporal.ended.set()
        await asyncio.wait(all_batches.running)
        await asyncio.sleep(0)

    sizes = []
    for number, took in enumerate((0.2, 2.0, 3.0, 3.0, 3.0, None, 2.0, 1.1, 0.2)):
        await run_batch(f"btc_{number}", took=took)
        sizes.append(all_batches.most)
    # 2 s are no reason to change, and a batch that made no attempts says nothing
    assert sizes == [MOST, MOST, 50, 32, 32, 32, 32, 64, MOST]
