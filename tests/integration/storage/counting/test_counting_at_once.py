"""Figures agree with the rows while several processes record, emit and add up at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import utc_now
from hookfast.deliveries.facts import AttemptPlan, Trigger
from hookfast.storage.counting import folding
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.storage.figures import recount
from tests.integration.storage.deliveries.ordered import api, emit_with, rows, seed_ordered
from tests.integration.storage.retention.ended import ended
from tests.support.seed import attempt_rows

pytestmark = pytest.mark.anyio

FIRST = AttemptPlan(number=1, trigger=Trigger.FIRST, round=0, in_plan=True)


def record_of(delivery: str, status_code: int = 200) -> AttemptRecord:
    fact = ended(FIRST, status_code, utc_now())
    return AttemptRecord(delivery_id=delivery, ended=fact, first_try=True, limited=False)


async def test_processes_that_add_up_at_once_while_others_write_lose_and_double_nothing(
    database: Database, workers: list[Database]
) -> None:
    await seed_ordered(database)
    writers = 3
    done = 0
    folded = 0

    async def write(number: int) -> None:
        nonlocal done
        recorder = Recorder(workers[number])
        async with api(database) as emitter:
            for turn in range(8):
                await emit_with(emitter, [f"{number} {turn} {key}" for key in range(3)])
                mine = [
                    row.id
                    for row in await rows(workers[number])
                    if row.status == "pending" and f"/{number} " in row.lane
                ]
                records = [record_of(one, 200 if turn % 3 else 503) for one in mine]
                await asyncio.gather(*map(recorder.record, records))
        done += 1

    async def fold(worker: Database) -> None:
        nonlocal folded
        while done < writers:
            folded += await folding.fold(worker)
            await asyncio.sleep(0)

    async def compare() -> None:
        while done < writers:
            assert await recount.differences(database) == {}

    async with asyncio.TaskGroup() as group:
        for number in range(writers):
            group.create_task(write(number))
        for worker in workers[:2]:
            group.create_task(fold(worker))
        group.create_task(compare())
    assert folded
    assert await recount.differences(database, ends=True) == {}
    await folding.fold(database)
    assert await recount.differences(database, ends=True) == {}
    assert len(await rows(database)) == writers * 8 * 3


async def test_a_record_whose_commit_succeeded_although_its_caller_saw_an_error_counts_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await seed_ordered(database)
    async with api(database) as emitter:
        await emit_with(emitter, ["a", "b"])
    deliveries = [row.id for row in await rows(database)]
    records = [record_of(one) for one in deliveries]
    recorder = Recorder(database)
    write = database.write

    @asynccontextmanager
    async def answer_lost(**options: Any) -> AsyncIterator[AsyncConnection]:
        async with write(**options) as connection:
            yield connection
        raise ConnectionResetError

    monkeypatch.setattr(database, "write", answer_lost)
    results = await asyncio.gather(*map(recorder.record, records), return_exceptions=True)
    assert all(isinstance(one, Exception) for one in results)
    assert await recount.differences(database, ends=True) == {}
    monkeypatch.undo()
    again = [AttemptRecord(delivery_id=one.delivery_id, ended=one.ended) for one in records]
    await asyncio.gather(*map(recorder.record, again))
    assert await recount.differences(database, ends=True) == {}
    assert [len(await attempt_rows(database, one)) for one in deliveries] == [1, 1]
