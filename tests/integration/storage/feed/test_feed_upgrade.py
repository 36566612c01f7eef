"""A database from before there was a feed: what is in it is read first, what comes follows, and the
upgrade builds no index over days that are over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import text

from hookfast.clock import rfc3339, utc_now
from hookfast.ids import new_id
from hookfast.storage.database import partitions
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
from hookfast.storage.feed import feed
from hookfast.storage.feed.cursor import START, Cursor
from hookfast.storage.feed.feed import FeedFilter

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)


@pytest.fixture
async def earlier(blank_url: str) -> AsyncIterator[Database]:
    """A database at the revision before the feed, on PostgreSQL with partitions of days that are
    over."""
    async with Database(blank_url) as database:
        await migrate(database, "0006")
        if database.kind == "postgresql":
            async with database.write() as connection:  # as if it had been converted long ago
                for one in await partitions.listed(connection, "events"):
                    if one.until is not None:
                        await partitions.drop(connection, one)
            await partitions.make_ahead(database, now=utc_now() - 9 * DAY)
            await partitions.make_ahead(database, now=utc_now())
        yield database


async def add(database: Database, *ids: str) -> None:
    """Add events as the version before does, which knows of no positions."""
    made = rfc3339(utc_now())
    on_sqlite = database.kind == "sqlite"
    body, at = ("x'7b7d'", f"'{made}'") if on_sqlite else ("'{}'::bytea", f"'{made}'::timestamptz")
    columns = "id, type, body, traceparent, deliveries, created_at"
    async with database.write() as connection:
        for event_id in ids:
            values = f"'{event_id}', 'order.invoice.paid', {body}, '00', 0, {at}"
            statement = f"INSERT INTO events ({columns}) VALUES ({values})"  # noqa: S608
            await connection.execute(text(statement))


async def read(database: Database, after: Cursor) -> tuple[list[str], Cursor]:
    async with database.read() as connection:
        page = await feed.read(connection, FeedFilter(), after=after, limit=100, now=utc_now())
    assert not page.more
    return [event.id for event in page.events], page.cursor


async def test_what_was_there_comes_first_and_what_is_added_follows(earlier: Database) -> None:
    now = utc_now()
    old = [new_id("evt", now - days * DAY) for days in (8, 5, 2, 1, 0)]
    await add(earlier, *reversed(old))
    await migrate(earlier)
    found, end = await read(earlier, START)
    assert found == old
    if earlier.kind == "postgresql":  # where versions run side by side while one takes over
        late, new = new_id("evt", now - timedelta(minutes=5)), new_id("evt")
        await add(earlier, new)
        await add(earlier, late)
        assert (await read(earlier, end))[0] == [new, late]
        assert (await read(earlier, START))[0] == [*old, new, late]


@pytest.mark.parametrize("blank_url", ["postgresql"], indirect=True)
async def test_days_that_are_over_get_no_index(earlier: Database) -> None:
    await migrate(earlier)
    async with earlier.read() as connection:
        rows = await connection.execute(
            text("SELECT tablename FROM pg_indexes WHERE indexdef LIKE '%(\"position\", id)'")
        )
        indexed = set(rows.scalars())
    today = utc_now()
    assert {f"events_{today - days * DAY:%Y%m%d}" for days in (9, 5, 3)}.isdisjoint(indexed)
    expected = {f"events_{today + days * DAY:%Y%m%d}" for days in range(8)}
    assert indexed >= expected | {"events", "events_default"}
