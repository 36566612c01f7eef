"""Retries of an inbox entry while other requests are stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import select, text

from hookfast.clock import utc_now
from hookfast.errors import Conflict
from hookfast.storage.database.engine import Database
from hookfast.storage.inbox import inbox_entries, sources
from hookfast.storage.inbox.inbox_entries import Repeats
from hookfast.storage.tables import Endpoint, Event, InboxEntry
from tests.integration.storage.inbox.arrivals import retry_entry
from tests.support.seed import seed_endpoint
from tests.support.seed_inbox import seed_entry, seed_source
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

TYPE = "github.push.received"  # of the seeded entries; not registered


async def failed_entry(database: Database, **columns: Any) -> InboxEntry:
    await seed_endpoint(database, "https://a.example/")
    async with database.read() as connection:
        tenant = (await connection.execute(select(Endpoint.tenant_id))).scalar_one()
    source = await seed_source(database, tenant)
    inbox_id = await seed_entry(database, source, tenant, **columns)
    return await entry_of(database, inbox_id)


async def entry_of(database: Database, inbox_id: str) -> InboxEntry:
    async with database.read() as connection:
        entry = await inbox_entries.get(connection, inbox_id)
    assert entry is not None
    return entry


async def wait_for_blocked_transaction(database: Database) -> None:
    """Return once a transaction waits for another's lock. On SQLite return at once: its second
    writer always waits until the first has ended."""
    if database.kind == "sqlite":
        return
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with asyncio.timeout(PATIENCE):
        while True:
            async with database.read() as connection:
                if (await connection.execute(waiting)).scalar_one():
                    return
            await asyncio.sleep(0.01)


async def test_retry_and_duplicates_of_its_entry_do_not_deadlock(
    database: Database,
) -> None:
    entry = await failed_entry(database)
    async with database.write() as storing:
        # as `store_arrivals` does with a batch: a new entry's event type, then the repeats
        now = utc_now()
        await sources.register_types(storing, [(entry.source_id, "github", TYPE)], at=now)
        retrying = asyncio.create_task(retry_entry(database, entry))
        await wait_for_blocked_transaction(database)
        await inbox_entries.count_repeats(storing, {entry.id: Repeats(now, duplicates=1)})
    async with asyncio.timeout(PATIENCE):
        await retrying
    after = await entry_of(database, entry.id)
    assert (after.status, after.duplicates) == ("accepted", 1)


async def test_concurrent_retries_of_an_entry_emit_one_event(database: Database) -> None:
    entry = await failed_entry(database)
    outcomes = await asyncio.gather(
        *(retry_entry(database, entry) for _ in range(4)), return_exceptions=True
    )
    assert outcomes.count(None) == 1
    assert all(isinstance(one, Conflict) for one in outcomes if one is not None)
    async with database.read() as connection:
        ids = (await connection.execute(select(Event.id))).scalars()
        assert list(ids) == [(await entry_of(database, entry.id)).event_id]


async def test_event_of_a_retried_entry_has_the_hops_of_its_request(database: Database) -> None:
    entry = await failed_entry(database, hops=4)
    await retry_entry(database, entry)
    async with database.read() as connection:
        rows = await connection.execute(select(Event.inbox_id, Event.hops))
    assert [tuple(row) for row in rows] == [(entry.id, 4)]
