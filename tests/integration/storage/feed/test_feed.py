"""The feed: it has every event once, in an order in which no event appears before a cursor, however
late its transaction commits; and it reports gaps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert, text

from hookfast.clock import rfc3339, utc_now
from hookfast.errors import InvalidInput
from hookfast.ids import new_id
from hookfast.storage.database import feed_position
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
from hookfast.storage.database.partitions import create_ahead
from hookfast.storage.feed import feed
from hookfast.storage.feed.cursor import START, Cursor
from hookfast.storage.feed.feed import FeedEvent, FeedFilter, FeedPage
from hookfast.storage.retention import retention_runs
from hookfast.storage.tables import Event, InboxEntry, RetentionRun
from tests.integration.storage.feed.between import after_the_first_statement
from tests.support.query_plan import explain
from tests.support.rows import event_row

pytestmark = pytest.mark.anyio

ALL = FeedFilter()
TENANT, OTHER = "tnt_1", "tnt_2"
TYPE = "order.invoice.paid"


def row(event_id: str | None = None, **columns: Any) -> dict[str, Any]:
    now = utc_now()
    return event_row(now, id=event_id or new_id("evt", now), **columns)


async def add(database: Database, *rows: dict[str, Any]) -> list[str]:
    """Commit these events together, and return their ids."""
    async with database.write() as connection:
        for one in rows:
            await connection.execute(insert(Event.__table__), one)
    return [one["id"] for one in rows]


async def page(
    database: Database, after: Cursor, chosen: FeedFilter = ALL, *, limit: int = 100
) -> FeedPage:
    async with database.read() as connection:
        return await feed.read(connection, chosen, after=after, limit=limit, now=utc_now())


async def end(database: Database) -> Cursor:
    async with database.read() as connection:
        return await feed.end_cursor(connection, now=utc_now())


async def pages(
    database: Database, after: Cursor, chosen: FeedFilter = ALL, *, limit: int = 100
) -> AsyncIterator[FeedEvent]:
    """Yield all events that can be read, page by page, and turn each cursor into text and back."""
    while True:
        found = await page(database, after, chosen, limit=limit)
        for event in found.events:
            yield event
        after = Cursor.parse(str(found.cursor))
        if not found.more:
            return


async def ids(
    database: Database, after: Cursor, chosen: FeedFilter = ALL, *, limit: int = 100
) -> list[str]:
    return [event.id async for event in pages(database, after, chosen, limit=limit)]


async def test_an_event_is_read_with_its_exact_body(database: Database) -> None:
    start = await end(database)
    body = '{"data":"naïve \\u2028"}'.encode()
    [event_id] = await add(database, row(body=body, deliver_at=datetime(2030, 1, 1, tzinfo=UTC)))
    [event] = (await page(database, start)).events
    assert (event.id, event.body, event.tenant_id) == (event_id, body, TENANT)
    assert event.deliver_at == datetime(2030, 1, 1, tzinfo=UTC)
    assert event.inbox_id is event.source_id is None


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_pages_of_any_size_have_every_event_once(database: Database, limit: int) -> None:
    start = await end(database)
    added = [*await add(database, row(), row(), row()), *await add(database, row(), row())]
    added += await add(database, row())
    assert await ids(database, start, limit=limit) == added
    assert await ids(database, START, limit=limit) == added
    assert await ids(database, await end(database)) == []


async def test_event_that_commits_late_is_not_skipped(database: Database) -> None:
    """The event whose id and transaction came first commits last."""
    start = await end(database)
    early, late = new_id("evt"), new_id("evt")
    begun, commit = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        async with database.write() as connection:
            await connection.execute(insert(Event.__table__), row(early))
            begun.set()
            await commit.wait()

    slowly = asyncio.create_task(slow())
    await begun.wait()
    quickly = asyncio.create_task(add(database, row(late)))
    if database.kind == "postgresql":  # SQLite's second writer waits for the first
        await quickly
    between = await page(database, start)
    assert between.events == []
    assert between.held_back == (database.kind == "postgresql")
    commit.set()
    await asyncio.gather(slowly, quickly)
    assert await ids(database, between.cursor) == [early, late]


async def test_reader_gets_every_event_of_concurrent_writers_once(database: Database) -> None:
    """Ids are created in one order, transactions begin in another and end in a third."""
    dice = random.Random(7)
    made = [new_id("evt") for _ in range(60)]
    after = await end(database)
    shuffled = dice.sample(made, len(made))
    batches = [shuffled[place : place + 3] for place in range(0, len(made), 3)]
    free = asyncio.Semaphore(8)

    async def write(batch: Sequence[str], *, fails: bool) -> None:
        async with database.write() as connection:
            for event_id in batch:
                await connection.execute(insert(Event.__table__), row(event_id))
                await asyncio.sleep(dice.random() / 200)
            if fails:
                raise LookupError  # leaves a gap in the positions

    async def deliver(batch: Sequence[str]) -> None:
        async with free:
            if dice.random() < 0.2:
                with pytest.raises(LookupError):
                    await write(batch, fails=True)
            await write(batch, fails=False)

    writers = asyncio.gather(*(deliver(batch) for batch in batches))
    read: list[str] = []
    is_last = False
    while not is_last:
        is_last = writers.done()
        found = await page(database, after, limit=dice.randrange(1, 20))
        read += [event.id for event in found.events]
        after = found.cursor
        is_last = is_last and not found.more
    await writers
    assert sorted(read) == sorted(made)
    assert len(set(read)) == len(read)


async def test_tenant_sees_its_own_events_and_broadcasts(database: Database) -> None:
    start = await end(database)
    mine, theirs, broadcast, mine_too = await add(
        database, row(), row(tenant_id=OTHER), row(tenant_id=None), row()
    )
    for limit in (1, 10):
        seen = await ids(database, start, FeedFilter(tenant_id=TENANT), limit=limit)
        assert set(seen) == {mine, broadcast, mine_too}
        assert len(seen) == 3
    assert await ids(database, start, FeedFilter(tenant_id="tnt_3")) == [broadcast]
    assert theirs in await ids(database, start)


async def test_filter_selects_by_patterns_and_by_source(database: Database) -> None:
    start = await end(database)
    entry = new_id("inb")
    now = utc_now()
    async with database.write() as connection:
        await connection.execute(
            insert(InboxEntry.__table__),
            {
                "id": entry,
                "source_id": "src_1",
                "tenant_id": TENANT,
                "key": "id:1",
                "event_type": TYPE,
                "payload_sha256": "",
                "content_type": "text/plain",
                "headers": [],
                "body": b"",
                "status": "accepted",
                "duplicates": 0,
                "conflicts": 0,
                "received_at": now,
                "last_seen_at": now,
            },
        )
    paid, refunded, received = await add(
        database, row(), row(type="order.invoice.refunded"), row(inbox_id=entry)
    )
    assert await ids(database, start, FeedFilter(patterns=frozenset({"*.*.paid"}))) == [
        paid,
        received,
    ]
    both = frozenset({"order.**", "order.invoice.refunded"})
    assert await ids(database, start, FeedFilter(patterns=both)) == [paid, refunded, received]
    [event] = (await page(database, start, FeedFilter(source_id="src_1"))).events
    assert (event.id, event.inbox_id, event.source_id) == (received, entry, "src_1")
    assert await ids(database, start, FeedFilter(source_id="src_2")) == []


async def test_unmatched_events_are_skipped_in_bounded_steps(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_SCAN_AT_ONCE", 2)
    monkeypatch.setattr(feed, "_SCAN_MOST", 4)
    start = await end(database)
    await add(database, *(row(type="order.other.made") for _ in range(9)))
    [wanted] = await add(database, row())
    chosen = FeedFilter(patterns=frozenset({TYPE}))
    first = await page(database, start, chosen)
    assert (first.events, first.more) == ([], True)
    assert await ids(database, start, chosen) == [wanted]
    # and the cursor after all events were scanned is after it
    done = await page(database, start, chosen, limit=1)
    while done.more:
        done = await page(database, done.cursor, chosen, limit=1)
    assert done.cursor.covers(*await _place(database, wanted))


async def _place(database: Database, event_id: str) -> tuple[int, str]:
    async with database.read() as connection:
        place = await feed.cursor_of_event(connection, event_id)
    assert place is not None
    return place.position, event_id


async def test_page_size_in_bytes_is_limited(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MAX_PAGE_BYTES", 1_000)
    start = await end(database)
    added = await add(database, *(row(body=b"x" * size) for size in (600, 600, 100, 5_000)))
    first = await page(database, start)
    assert [event.id for event in first.events] == added[:1]
    assert first.more
    assert await ids(database, start) == added


async def test_reading_begins_at_an_event_or_at_a_time(database: Database) -> None:
    now = utc_now()
    moments = [now - timedelta(minutes=minutes) for minutes in (30, 20, 10)]
    old = [
        (await add(database, row(new_id("evt", moment), created_at=moment)))[0]
        for moment in moments
    ]
    async with database.read() as connection:
        place = await feed.cursor_of_event(connection, old[0])
        assert place is not None
        assert await feed.cursor_of_event(connection, new_id("evt")) is None
        from_then = await feed.cursor_since(connection, moments[1], now=now)
        from_now = await feed.cursor_since(connection, utc_now(), now=now)
    assert await ids(database, place) == old[1:]
    assert await ids(database, from_then) == old[1:]
    assert await ids(database, from_now) == []


async def test_event_committed_while_a_time_is_looked_up_is_after_its_cursor(
    database: Database,
) -> None:
    since, found = utc_now(), []

    async def emit() -> None:
        found.extend(await add(database, row()))

    async with database.read() as connection:
        place = await feed.cursor_since(
            after_the_first_statement(connection, emit), since, now=utc_now()
        )
    assert await ids(database, place) == found
    assert len(found) == 1


async def test_event_whose_transaction_lasts_is_after_the_cursor_of_its_time(
    postgresql_url: str,
) -> None:
    async with Database(postgresql_url) as database:
        since = utc_now()
        async with database.write() as slow:
            early = row()
            await slow.execute(insert(Event.__table__), early)
            late = await add(database, row())
            async with database.read() as connection:
                place = await feed.cursor_since(connection, since, now=utc_now())
        assert await ids(database, place) == [early["id"], *late]


async def test_positions_rise_after_all_events_were_deleted(database: Database) -> None:
    await add(database, row(), row())
    after = await end(database)
    async with database.write() as connection:
        await connection.execute(delete(Event.__table__))
    assert await ids(database, after) == []
    later = await add(database, row())
    assert await ids(database, after) == later


async def test_events_deleted_by_retention_are_one_gap(database: Database) -> None:
    now = utc_now()
    cutoff = now - timedelta(days=3)
    await create_ahead(database, now=now)
    for run_id, dry_run, before in (("ret_1", False, cutoff), ("ret_2", True, now)):
        run = RetentionRun(
            id=run_id, status="done", dry_run=dry_run, workflow_id="", started_at=now
        )
        async with database.write() as connection:
            await retention_runs.begin(connection, run, cutoffs={"events": before, "jobs": now})
    since = cutoff - timedelta(hours=5)
    async with database.read() as connection:
        fresh = await feed.end_cursor(connection, now=cutoff)
        assert await feed.find_gap(connection, fresh, now=now) is None
        assert await feed.find_gap(connection, START, now=now) is None
        stale = await feed.end_cursor(connection, now=since)
        found = await feed.find_gap(connection, stale, now=now)
        assert found is not None
        assert (found.since, found.until, found.reason) == (since, cutoff, "expired")
        assert await feed.find_gap(connection, found.cursor, now=now) is None
    [event_id] = await add(database, row())
    assert await ids(database, found.cursor) == [event_id]


async def test_cursor_ahead_of_a_restored_database_is_a_gap(
    database: Database,
) -> None:
    [kept] = await add(database, row())
    ahead = Cursor((await end(database)).position + 10**9, utc_now() - timedelta(minutes=1))
    async with database.read() as connection:
        found = await feed.find_gap(connection, ahead, now=utc_now())
    assert found is not None
    assert found.reason == "restored"
    assert await ids(database, found.cursor) == [kept]  # created since: rather twice than never


async def test_positions_keep_rising_after_a_restore_into_another_cluster(
    postgresql_url: str,
) -> None:
    """As after a restore into a PostgreSQL server that has executed fewer transactions."""
    async with Database(postgresql_url) as database:
        ahead = (await end(database)).position + 50_000
        old = await add(database, row(position=ahead), row(position=ahead + 1))
        assert await ids(database, START) == []  # not yet: there was no such transaction
        await migrate(database)
        assert await ids(database, START) == old
        after = await end(database)
        assert await feed_position.rebase(database) == 0
        new = await add(database, row())
        assert await ids(database, after) == new
        assert await ids(database, START) == old + new


@pytest.mark.parametrize(
    "text_", ["", "x", "evt_1", "MS4x", "1.1.1.", "MS4tMS4xLg", "MS4xLjk5OTk5OTk5OTk5OTk5OS4", "é"]
)
def test_invalid_cursor_is_rejected(text_: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Cursor.parse(text_, pointer="cursor")
    assert caught.value.code == "invalid_cursor"
    assert caught.value.errors[0].pointer == "cursor"


@pytest.mark.parametrize("chosen", [ALL, FeedFilter(tenant_id=TENANT)])
async def test_page_reads_a_range_of_an_index(database: Database, chosen: FeedFilter) -> None:
    """However many events are before it and after it."""
    now = utc_now()
    first = new_id("evt", now)[:17]
    columns = "id, type, tenant_id, body, traceparent, deliveries, created_at, position"
    made, body, key = f"'{rfc3339(now)}'", "x'7b7d'", f"printf('{first}%019x', n)"
    if database.kind == "postgresql":
        made, body = f"{made}::timestamptz", "'\\x7b7d'::bytea"
        key = f"'{first}' || lpad(to_hex(n), 19, '0')"
    values = f"{key}, 'order.invoice.paid', 'tnt_' || (n % 3), {body}, '00', 0, {made}, n"
    fill = f"""
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
    INSERT INTO events ({columns}) SELECT {values} FROM numbers
    """  # noqa: S608
    async with database.write() as connection:
        await connection.execute(text(fill))
        if database.kind == "postgresql":
            await connection.execute(text("ANALYZE events"))
    statement = feed.page_statement(chosen, Cursor(9_000, now, f"{first}{9_000:019x}"), limit=10)
    async with database.read() as connection:
        plan = await explain(connection, statement)
    # PostgreSQL names the index of a partition after its columns
    assert ("feed" if database.kind == "sqlite" else "position_id_idx") in plan
    assert "SCAN events" not in plan
    assert f"Seq Scan on events_{now:%Y%m%d}" not in plan
