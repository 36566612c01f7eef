"""The events that an endpoint's consumer gets when it polls, and the position that it has
acknowledged, on both databases."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from hookfast.clock import utc_now
from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoints
from hookfast.storage.feed import feed, poll, poll_positions
from hookfast.storage.feed.cursor import START, Cursor
from hookfast.storage.feed.poll import PollPage
from hookfast.storage.tables import Endpoint, Event, Subscription
from tests.integration.storage.feed.between import after_the_first_statement
from tests.support.rows import event_row
from tests.support.seed import seed_delivery, seed_endpoint
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

ENDPOINT = "ep_1"


def event(tenant_id: str | None, event_id: str | None = None) -> dict[str, Any]:
    now = utc_now()
    return event_row(now, id=event_id or new_id("evt", now), tenant_id=tenant_id)


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
        return await feed.end_cursor(connection, now=utc_now())


async def test_event_of_a_subscription_that_begins_during_a_poll_is_polled(
    database: Database,
) -> None:
    endpoint = await endpoint_of(
        database, await seed_endpoint(database, "http://127.0.0.1:4/", mode="poll")
    )
    await set_subscribed(database, False)
    after, new = await end(database), event(endpoint.tenant_id)

    async def subscribe_and_emit() -> None:
        await set_subscribed(database, True)
        await add(database, new)

    async with database.read() as connection:
        first = await poll.read(
            after_the_first_statement(connection, subscribe_and_emit),
            endpoint,
            after=after,
            limit=50,
            now=utc_now(),
        )
    assert first.items == []
    second = await page(database, endpoint, first.cursor)
    assert [item.event.id for item in second.items] == [new["id"]]


async def set_subscribed(database: Database, subscribed: bool) -> None:
    async with database.write() as connection:
        await connection.execute(update(Subscription.__table__).values(active=subscribed))


@pytest.mark.parametrize("mode", ["poll", "push"])
async def test_event_that_commits_late_is_not_skipped(database: Database, mode: str) -> None:
    """The event whose id and transaction came first commits last, after a page was read."""
    endpoint = await endpoint_of(
        database, await seed_endpoint(database, "http://127.0.0.1:4/", mode=mode)
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
    if mode == "push":  # its consumer only gets events with a delivery to the endpoint
        await seed_delivery(database, endpoint.id)
        found = await page(database, endpoint, between.cursor)
        assert len(found.items) == 1
    else:
        found = await page(database, endpoint, between.cursor)
        assert [item.event.id for item in found.items] == [early["id"], late["id"]]


async def test_consumer_gets_every_event_of_concurrent_writers(
    database: Database,
) -> None:
    endpoint = await endpoint_of(database, await seed_endpoint(database, "", mode="poll"))
    after, dice = await end(database), random.Random(5)
    made = [event(endpoint.tenant_id) for _ in range(24)]

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


async def test_acknowledged_position_outlives_the_process(
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


async def test_position_only_moves_forward_in_any_order(database: Database) -> None:
    now = utc_now()
    first, second = sorted(new_id("evt", now) for _ in range(2))
    ascending = [
        Cursor.of_event(7, first),
        Cursor.of_event(7, second),
        Cursor(7, now),  # after all events at that position
        Cursor(7, now + timedelta(hours=1)),  # the same place, seen later
        Cursor(8, now - timedelta(days=1)),
    ]
    for order, cursors in enumerate(itertools.permutations(ascending)):
        if order % 7:
            continue  # some of the 120 orders are enough
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


async def test_furthest_of_concurrent_acknowledgements_wins(database: Database) -> None:
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


async def test_events_of_others_are_skipped_in_bounded_steps(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_SCAN_AT_ONCE", 4)
    monkeypatch.setattr(feed, "_SCAN_MOST", 8)
    endpoint = await endpoint_of(database, await seed_endpoint(database, "http://127.0.0.1:4/"))
    for _ in range(20):
        await add(database, event(endpoint.tenant_id))
    delivery_id = await seed_delivery(database, endpoint.id)
    after, steps, items = START, 0, []
    while not items:
        step = await page(database, endpoint, after)
        assert step.more or step.items
        after, steps, items = step.cursor, steps + 1, list(step.items)
    assert [item.message_id for item in items] == [delivery_id]
    assert steps > 1


async def test_count_behind_counts_following_events(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = await endpoint_of(database, await seed_endpoint(database, "", mode="poll"))
    other = await endpoint_of(database, await seed_endpoint(database, "http://127.0.0.1:4/"))
    after = await end(database)
    await add(database, *(event(endpoint.tenant_id) for _ in range(3)), event(other.tenant_id))
    await seed_delivery(database, other.id)
    async with database.read() as connection:
        assert await poll.count_behind(connection, endpoint, after=after) == (3, True)
        assert await poll.count_behind(connection, other, after=after) == (1, True)
        monkeypatch.setattr(poll, "MAX_COUNTED", 2)
        assert await poll.count_behind(connection, endpoint, after=after) == (2, False)


async def test_first_poll_begins_with_the_endpoints_first_event(
    database: Database,
) -> None:
    before = await seed_endpoint(database, "http://127.0.0.1:4/")
    await seed_delivery(database, before)
    endpoint = await endpoint_of(database, await seed_endpoint(database, "http://127.0.0.1:4/"))
    delivery_id = await seed_delivery(database, endpoint.id)
    async with database.read() as connection:
        begin = await poll.first_cursor(connection, endpoint, now=utc_now())
        events = (await connection.execute(select(Event.__table__.c.id))).all()
    assert len(events) == 2
    assert [one.message_id for one in (await page(database, endpoint, begin)).items] == [
        delivery_id
    ]
