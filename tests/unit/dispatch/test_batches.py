"""The batches of a worker: what wakes a batch, and what it tells the relay."""

from __future__ import annotations

import asyncio
import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client

from hookfast.clock import utc_now
from hookfast.deliveries.batch_life import Attempt, BatchLife, End
from hookfast.deliveries.batch_messages import MOST
from hookfast.dispatch.batches import Batch, Batches, batch_of_another
from hookfast.dispatch.pace import Pace
from hookfast.storage.deliveries.outgoing import Outgoing

pytestmark = pytest.mark.anyio


def deliveries(count: int, *, first: int = 0) -> list[Outgoing]:
    endpoint = SimpleNamespace(endpoint_id="ep_1")
    fields: dict[str, Any] = {one.name: None for one in dataclasses.fields(Outgoing)}
    return [
        Outgoing(**fields | {"row": row, "endpoint": endpoint})
        for number in range(first, first + count)
        for row in [SimpleNamespace(delivery_id=f"dlv_{number}")]
    ]


async def until_news(batch: Batch) -> None:
    async with asyncio.timeout(10):
        await batch.news(asyncio.get_running_loop().time() + 3600)


async def test_added_deliveries_wake_the_batch() -> None:
    batch = Batch("btc_1", life=BatchLife())
    assert not batch.add(deliveries(1), leased_until=0.0)  # it is not open yet
    batch.open()
    batch.next_step()
    waiting = asyncio.create_task(until_news(batch))
    await asyncio.sleep(0)
    assert batch.add(deliveries(2), leased_until=0.0)
    await waiting
    assert batch.next_step() == Attempt(["dlv_0", "dlv_1"])
    assert list(batch.read) == ["dlv_0", "dlv_1"]


async def test_lease_that_ends_wakes_a_closed_batch() -> None:
    batch = Batch("btc_1", life=BatchLife())
    batch.open()
    with batch.leasing():
        batch.close()
        batch.next_step()
        waiting = asyncio.create_task(until_news(batch))
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
    assert batch.next_step() == End()
    assert not batch.add(deliveries(1), leased_until=0.0)


async def test_batch_of_another_worker_has_the_deliveries_of_its_start() -> None:
    batch = batch_of_another("btc_1", ["dlv_0", "dlv_gone"], deliveries(1))
    batch.open()
    assert batch.next_step() == Attempt(["dlv_0", "dlv_gone"])
    assert not batch.life.is_open


class Temporal:
    """A client whose workflows end when `ended` is set."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def start_workflow(self, *_: object, **__: object) -> Temporal:
        return self

    async def result(self) -> None:
        await self.ended.wait()


async def test_batches_say_when_they_change_and_end() -> None:
    temporal, changes = Temporal(), list[str]()
    pace = Pace()
    batches = Batches(
        cast("Client", temporal),
        pace=pace,
        on_change=lambda: changes.append("change"),
        on_end=lambda: changes.append("end"),
    )
    batches.begin("btc_1", deliveries(1), leased_until=utc_now(), on_start=lambda _: None)
    batch = batches.get("btc_1")
    assert batch is not None
    assert (batches.open, batches.is_starting, batches.busy) == (None, True, 1)
    assert batches.in_progress("ep_1") == 1
    batch.open()
    assert changes == ["change"]
    assert batches.open is batch
    assert not batches.next_is_due
    batch.add(deliveries(MOST // 2, first=1), leased_until=0.0)
    assert batches.next_is_due
    batches.begin("btc_2", (), leased_until=utc_now(), on_start=lambda _: None)
    assert not batches.next_is_due  # it is there
    temporal.ended.set()
    await asyncio.wait(batches.running)
    await asyncio.sleep(0)
    assert changes[-1] == "end"
    assert (batches.get("btc_1"), batches.busy) == (None, 0)


async def test_batch_takes_as_many_deliveries_as_the_pace_says() -> None:
    temporal, pace = Temporal(), Pace()
    batches = Batches(
        cast("Client", temporal), pace=pace, on_change=lambda: None, on_end=lambda: None
    )
    pace.batch_rested(3.0)
    batches.begin("btc_1", deliveries(1), leased_until=utc_now(), on_start=lambda _: None)
    batch = batches.get("btc_1")
    assert batch is not None
    assert batch.life.room == MOST // 2 - 1
    batch.open()
    batch.life.took = 0.1
    temporal.ended.set()
    await asyncio.wait(batches.running)
    await asyncio.sleep(0)
    assert pace.batch_size == MOST
