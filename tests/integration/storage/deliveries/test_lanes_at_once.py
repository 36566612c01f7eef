"""Lanes while other transactions run, and their repair: no delivery is waited for, passed over or
forgotten."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import delete, select, update

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.deliveries.lane import DeadLetterPolicy
from hookfast.dispatch import lane_sweep
from hookfast.ids import new_id
from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import life_rows
from hookfast.storage.events import lanes
from hookfast.storage.tables import Delivery, Lane
from tests.integration.storage.deliveries import ordered
from tests.integration.storage.deliveries.ordered import act, emit, end, seed_ordered
from tests.support.seed import delivery_row
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

_D = Delivery.__table__.c
WAIT = DeadLetterPolicy.WAIT


@pytest.fixture
async def postgresql(postgresql_url: str) -> AsyncIterator[Database]:
    """A database with row locks, unlike SQLite, which has one writer."""
    async with Database(postgresql_url) as database:
        yield database


# -- other transactions at the same time ----------------------------------------------------------


async def test_delivery_that_is_being_cancelled_is_not_waited_for_nor_passed(
    postgresql: Database,
) -> None:
    await seed_ordered(postgresql)
    one, two, three = await emit(postgresql, *"aaa")
    async with asyncio.timeout(PATIENCE), postgresql.write() as person:
        await ordered.apply(person, two, Action.CANCEL)
        await end(postgresql, one)  # does not wait for the person
        assert await ordered.heads(postgresql) == []
        assert await lane_sweep.move_up_once(postgresql) == 0
        [four] = await emit(postgresql, "a")  # queues, although the lane has no head
        [lane] = await ordered.lane_rows(postgresql)
        assert (lane.head, lane.needs_head) == (None, True)
    assert await lane_sweep.move_up_once(postgresql) == 1
    assert await ordered.deliver_all(postgresql) == [three, four]
    [lane] = await ordered.lane_rows(postgresql)
    assert (lane.head, lane.needs_head) == (None, False)


async def test_event_that_is_emitted_while_the_head_ends_is_not_lost(
    postgresql: Database,
) -> None:
    await seed_ordered(postgresql)
    [one] = await emit(postgresql, "a")
    async with asyncio.timeout(PATIENCE):
        async with postgresql.write() as worker:
            await ordered.attempt(worker, one)  # the lane is locked, and idle after the commit
            emitting = asyncio.create_task(emit(postgresql, "a"))
            await asyncio.sleep(0.2)
            assert not emitting.done()
        [two] = await emitting
    assert await ordered.heads(postgresql) == [two]


async def test_head_that_ends_while_an_event_is_emitted_finds_it(postgresql: Database) -> None:
    await seed_ordered(postgresql)
    [one] = await emit(postgresql, "a")
    lane, new = (await delivery_row(postgresql, one)).lane, new_id("dlv")
    async with asyncio.timeout(PATIENCE):
        async with postgresql.write() as api:  # has locked the lane, and inserts after that
            await lanes.lock(api, [lane], now=utc_now())
            ending = asyncio.create_task(end(postgresql, one))
            await asyncio.sleep(0.2)
            assert not ending.done()
            entered = await lanes.enter(api, [lanes.Entrant(lane, new, ended=False)], now=utc_now())
            assert entered[new].place == "queued"
            row = dict((await delivery_row(postgresql, one))._mapping)
            row |= {"id": new, "place": "queued"}
            row |= {"lane_position": entered[new].position}
            await api.execute(Delivery.__table__.insert(), row)
        await ending
    assert await ordered.heads(postgresql) == [new]


async def test_random_transactions_at_once_keep_every_lane_in_order(
    workers: list[Database],
) -> None:
    """Workers deliver, people cancel and resend, and two APIs emit, all at the same time."""
    database, dice = workers[0], random.Random(7)
    await seed_ordered(database)
    ended: list[str] = []
    emitted = 0
    stop = asyncio.Event()

    async def work(own: Database) -> None:
        while not stop.is_set() or await ordered.heads(own):
            for one in await ordered.heads(own):
                async with own.write() as connection:
                    await life_rows.lock(connection, [one])
                    row = await connection.execute(select(_D.place).where(_D.id == one))
                    if row.scalar_one() != "head":
                        continue  # the other worker was faster, or a person
                    await ordered.attempt(connection, one, dice.choice([200, 200, 500]))
                    ended.append(one)
            await lane_sweep.move_up_once(own)

    async def people() -> None:
        while not stop.is_set():
            found = await ordered.rows(database)
            for row in dice.sample(found, min(2, len(found))):
                await act(database, row.id, dice.choice([Action.CANCEL, Action.RESEND]))
            await asyncio.sleep(0.01)

    async def apis() -> None:
        nonlocal emitted
        async with ordered.api(database) as one, ordered.api(workers[1]) as other:
            for _ in range(12):
                keys = [dice.choice("ab") for _ in range(3)]
                await asyncio.gather(
                    ordered.emit_with(one, keys), ordered.emit_with(other, keys[::-1])
                )
                emitted += 6
        stop.set()

    async with asyncio.timeout(2 * PATIENCE):
        await asyncio.gather(work(workers[1]), work(workers[2]), people(), apis())
        await lane_sweep.move_up_once(database)
        await ordered.deliver_all(database)
    found = await ordered.rows(database)
    assert len(found) == emitted
    assert {row.place for row in found} == {"left"}
    assert {row.status for row in found} <= {"delivered", "dead", "cancelled"}
    assert [(row.head, row.needs_head) for row in await ordered.lane_rows(database)] == [
        (None, False)
    ] * 2
    # those that nobody resent were ended in the order of their lane
    position = {row.id: (row.lane, row.lane_position) for row in found if row.round == 0}
    for key in "ab":
        order = [position[one] for one in ended if one in position]
        of_lane = [place for lane, place in order if lane.endswith(f"/{key}")]
        assert of_lane == sorted(of_lane)


# -- the sweep ------------------------------------------------------------------------------------


async def test_lane_whose_head_was_deleted_continues(database: Database) -> None:
    await seed_ordered(database)
    one, two = await emit(database, *"aa")
    await end(database, one, 500, policy=WAIT)
    async with database.write() as connection:  # as retention does with old dead letters
        await connection.execute(delete(Delivery.__table__).where(_D.id == one))
    assert await lane_sweep.inspect_page(database, "", dead_letters=WAIT) == (1, None)
    assert await ordered.heads(database) == [two]


async def test_background_tasks_repair_lanes_and_ring(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_sweep, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(lane_sweep, "_INSPECT_SECONDS", 0.01)
    await seed_ordered(database)
    a1, a2, b1, b2 = await emit(database, *"aabb")
    async with database.write() as connection:
        await connection.execute(delete(Delivery.__table__).where(_D.id == a1))
        lane = Lane.__table__
        in_b = lane.c.head == b1
        await connection.execute(update(lane).where(in_b).values(head=None, needs_head=True))
        await connection.execute(delete(Delivery.__table__).where(_D.id == b1))
    doorbell = doorbell_for(database)
    await doorbell.listen()
    tasks = [
        asyncio.create_task(lane_sweep.move_up_forever(database, doorbell)),
        asyncio.create_task(lane_sweep.inspect_forever(database, doorbell, dead_letters=WAIT)),
    ]
    try:
        while await ordered.heads(database) != [a2, b2]:
            await doorbell.wait(PATIENCE)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await doorbell.close()


async def test_sweep_reads_all_lanes_in_pages_and_keeps_those_in_use(database: Database) -> None:
    await seed_ordered(database)
    await emit(database, *"abcde")
    gone = await ordered.heads(database)
    for one in gone[1:]:
        await end(database, one)
    old = utc_now() - timedelta(days=3)
    async with database.write() as connection:
        await connection.execute(update(Lane.__table__).values(updated_at=old))
    after, pages = "", 0
    while True:
        moved, last = await lane_sweep.inspect_page(database, after, dead_letters=WAIT, limit=2)
        assert moved == 0
        pages += 1
        if last is None:
            break
        after = last
    assert pages == 3
    assert [row.head for row in await ordered.lane_rows(database)] == [gone[0]]
    position = (await delivery_row(database, gone[1])).lane_position
    [again] = await emit(database, "b")
    assert (await delivery_row(database, again)).lane_position > position
