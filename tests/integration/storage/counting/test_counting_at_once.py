"""Figures agree with the rows while several processes record, emit and add up at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from bench import recount
from hookfast.clock import utc_now
from hookfast.deliveries.facts import AttemptPlan, Trigger
from hookfast.deliveries.figures import Key, Owner, State, Tally, time_of_minute
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.ids import new_id
from hookfast.storage.counting import entries, folding, reading
from hookfast.storage.counting.reading import Scope
from hookfast.storage.database.engine import Database
from hookfast.storage.database.prepared import Writes
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.storage.events import new_events
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


async def test_many_entries_are_added_up_in_transactions_of_a_bounded_size(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    add_up = folding.add_up

    async def add_up_and_note(connection: AsyncConnection, **options: Any) -> int:
        sizes.append(await add_up(connection, **options))
        return sizes[-1]

    monkeypatch.setattr(folding, "add_up", add_up_and_note)
    number = 2 * folding.ENTRIES_AT_ONCE + 1
    tally = Tally()
    for index in range(number):
        owner = Owner("tnt_1", f"ep_{index}", "order.created")
        tally.delivery(owner, 29_700_000, None, State(DeliveryStatus.DELIVERED))
    async with database.write() as connection:
        await entries.write(connection, tally.numbers())
    assert await folding.fold(database) == number
    assert sizes == [folding.ENTRIES_AT_ONCE, folding.ENTRIES_AT_ONCE, 1]
    minute = time_of_minute(29_700_000)
    async with database.read() as connection:
        for scope in (Scope(), Scope("tnt_1")):
            [step] = await reading.steps(connection, scope, [minute, minute + timedelta(minutes=1)])
            assert step.accepted == number
        assert await folding.count(connection) == 0


async def test_a_broadcast_is_counted_in_the_parts_in_which_it_is_inserted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await seed_ordered(database)
    async with api(database) as emitter:
        await emit_with(emitter, ["a"])
    [row] = await rows(database)
    copied = dict(row._mapping)
    parts: list[int] = []
    add = entries.add

    def add_and_note(writes: Writes, numbers: Iterable[tuple[Key, int]]) -> None:
        some = list(numbers)
        parts.append(sum(number for key, number in some if not key.gauge))
        add(writes, some)

    monkeypatch.setattr(entries, "add", add_and_note)
    monkeypatch.setattr(new_events, "_ROWS_PER_INSERT", 2)
    async with database.write() as connection:
        copies = ({**copied, "id": new_id("dlv")} for _ in range(5))
        await new_events.insert_deliveries(connection, copies)
    assert parts == [2, 2, 1]
    assert await recount.differences(database) == {}
