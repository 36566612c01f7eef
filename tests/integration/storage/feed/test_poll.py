"""What an endpoint's consumer gets when it polls, and what it has acknowledged, on both kinds of
database."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select

from hookfast.clock import utc_now
from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoints
from hookfast.storage.feed import feed, poll, poll_positions
from hookfast.storage.feed.cursor import START, Cursor
from hookfast.storage.feed.poll import PollPage
from hookfast.storage.tables import Endpoint, Event
from tests.support.seed import EVENT_TYPE, seed_delivery, seed_endpoint
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

ENDPOINT = "ep_1"


def event(tenant_id: str | None, event_id: str | None = None) -> dict[str, Any]:
    now = utc_now()
    return {
        "id": event_id or new_id("evt", now),
        "type": EVENT_TYPE,
        "tenant_id": tenant_id,
        "body": b"{}",
        "traceparent": "00",
        "deliveries": 0,
        "created_at": now,
    }


async def add(database: Database, *rows: dict[str, Any]) -> None:
    async with database.write() as connection:
        await connection.execute(insert(Event.__table__), rows)


async def endpoint_of(database: Database, endpoint_id: str) -> Endpoint:
    async with database.read() as connection:
        found = await endpoints.get(connection, endpoint_id)
    assert found is not None
    return found


async def page(database: Database, endpoint: Endpoint, after: Cursor, limit: int = 50) -> PollPage:
    async with database.read() as connection:
        return await poll.read(connection, endpoint, after=after, limit=limit, now=utc_now())


async def end(database: Database) -> Cursor:
    async with database.read() as connection:
        return await feed.end(connection, now=utc_now())


@pytest.mark.parametrize("mode", ["poll", "push"])
async def test_what_commits_late_is_not_passed_by(database: Database, mode: str) -> None:
    """The event whose id and transaction came first commits last, after a page was given out."""
    endpoint = await endpoint_of(
        database, await seed_endpoint(database, "http://127.0.0.1:9/", mode=mode)
    )
    after = await end(database)
    early, late = event(endpoint.tenant_id), event(endpoint.tenant_id)
    begun, commit = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        async with database.write() as connection:
            await connection.execute(insert(Event.__table__), early)
            begun.set()
            await commit.wait()

    slowly = asyncio.create_task(slow())
    await begun.wait()
    quickly = asyncio.create_task(add(database, late))
    if database.kind == "postgresql":  # SQLite's second writer waits for the first
        await quickly
    between = await page(database, endpoint, after)
    assert between.items == []
    commit.set()
    await asyncio.gather(slowly, quickly)
    if mode == "push":  # only events with a delivery of the endpoint's are its
        await seed_delivery(database, endpoint.id)
        found = await page(database, endpoint, between.cursor)
        assert len(found.items) == 1
    else:
        found = await page(database, endpoint, between.cursor)
        assert [item.event.id for item in found.items] == [early["id"], late["id"]]


async def test_a_consumer_beside_many_writers_gets_everything_in_the_end(
    database: Database,
) -> None:
    endpoint = await endpoint_of(database, await seed_endpoint(database, "", mode="poll"))
    after, dice = await end(database), random.Random(5)
    made = [event(endpoint.tenant_id) for _ in range(40)]

    async def write(row: dict[str, Any]) -> None:
        await asyncio.sleep(dice.random() / 10)
        async with database.write() as connection:
            await connection.execute(insert(Event.__table__), row)
            await asyncio.sleep(dice.random() / 50)

    writing = asyncio.gather(*(write(row) for row in made))
    got: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while len(got) < len(made):
            found = await page(database, endpoint, after, limit=3)
            got += [item.event.id for item in found.items]
            after = found.cursor
    await writing
    assert sorted(got) == sorted(row["id"] for row in made)


async def test_what_is_acknowledged_outlives_the_process(
    database: Database, database_url: str
) -> None:
    cursor = Cursor.of_event(7, new_id("evt"))
    now = utc_now()
    async with database.write() as connection:
        await poll_positions.advance(connection, ENDPOINT, cursor, now=now)
    async with Database(database_url) as another, another.read() as connection:
        known = await poll_positions.get(connection, ENDPOINT)
    assert known is not None
    assert (str(known.cursor), known.at) == (str(cursor), now)


async def test_it_moves_forward_only_whatever_the_order(database: Database) -> None:
    now = utc_now()
    first, second = sorted(new_id("evt", now) for _ in range(2))
    ascending = [
        Cursor.of_event(7, first),
        Cursor.of_event(7, second),
        Cursor(7, now),  # everything at that position
        Cursor(7, now + timedelta(hours=1)),  # nothing new, seen later
        Cursor(8, now - timedelta(days=1)),
    ]
    for order, cursors in enumerate(itertools.permutations(ascending)):
        if order % 7:
            continue  # a part of the 120 is telling enough
        endpoint_id = f"ep_{order}"
        async with database.write() as connection:
            for cursor in cursors:
                await poll_positions.advance(connection, endpoint_id, cursor, now=now)
            known = await poll_positions.get(connection, endpoint_id)
            assert known is not None
            assert known.cursor == ascending[-1]
            await poll_positions.put(connection, endpoint_id, ascending[0], now=now)
            back = await poll_positions.get(connection, endpoint_id)
            assert back is not None
            assert str(back.cursor) == str(ascending[0])


async def test_two_consumers_at_once_leave_the_one_that_is_further(database: Database) -> None:
    now = utc_now()
    cursors = [Cursor(position, now) for position in range(1, 13)]

    async def acknowledge(cursor: Cursor) -> None:
        async with database.write() as connection:
            await poll_positions.advance(connection, ENDPOINT, cursor, now=now)

    await asyncio.gather(*(acknowledge(one) for one in random.Random(3).sample(cursors, 12)))
    async with database.read() as connection:
        known = await poll_positions.get(connection, ENDPOINT)
    assert known is not None
    assert known.cursor == cursors[-1]


async def test_a_part_of_the_feed_that_is_not_its_is_passed_in_bounded_steps(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_SCAN_AT_ONCE", 4)
    monkeypatch.setattr(feed, "_SCAN_MOST", 8)
    endpoint = await endpoint_of(database, await seed_endpoint(database, "http://127.0.0.1:9/"))
    for _ in range(20):
        await add(database, event(endpoint.tenant_id))
    delivery_id = await seed_delivery(database, endpoint.id)
    after, steps, found = START, 0, []
    while not found:
        step = await page(database, endpoint, after)
        assert step.more or step.items
        after, steps, found = step.cursor, steps + 1, list(step.items)
    assert [item.message_id for item in found] == [delivery_id]
    assert steps > 1


async def test_it_says_how_many_follow(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = await endpoint_of(database, await seed_endpoint(database, "", mode="poll"))
    other = await endpoint_of(database, await seed_endpoint(database, "http://127.0.0.1:9/"))
    after = await end(database)
    await add(database, *(event(endpoint.tenant_id) for _ in range(3)), event(other.tenant_id))
    await seed_delivery(database, other.id)
    async with database.read() as connection:
        assert await poll.behind(connection, endpoint, after=after) == (3, True)
        assert await poll.behind(connection, other, after=after) == (1, True)
        monkeypatch.setattr(poll, "MOST_COUNTED", 2)
        assert await poll.behind(connection, endpoint, after=after) == (2, False)


async def test_an_endpoint_that_was_never_polled_begins_with_its_first_event(
    database: Database,
) -> None:
    before = await seed_endpoint(database, "http://127.0.0.1:9/")
    await seed_delivery(database, before)
    endpoint = await endpoint_of(database, await seed_endpoint(database, "http://127.0.0.1:9/"))
    delivery_id = await seed_delivery(database, endpoint.id)
    async with database.read() as connection:
        begin = await poll.begin(connection, endpoint, now=utc_now())
        events = (await connection.execute(select(Event.__table__.c.id))).all()
    assert len(events) == 2
    assert [one.message_id for one in (await page(database, endpoint, begin)).items] == [
        delivery_id
    ]
