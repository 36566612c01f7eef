"""Quotas of events per day where events are received."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import select

from hookfast.errors import TooManyRequests
from hookfast.quotas import Quotas
from hookfast.storage.database.engine import Database
from hookfast.storage.inbox import inbox_entries, source_stats
from hookfast.storage.inbox.inbox_batch import InboxResult
from hookfast.storage.tables import Event, InboxEntry, InboxKey, TenantDay
from tests.integration.storage.emitting.emitters import emit, seed_tenant, seed_type
from tests.integration.storage.emitting.emitters import process as emitting_process
from tests.integration.storage.inbox.arrivals import NOW, arrival_of, process, retry_entry
from tests.support.seed_inbox import seed_entry, seed_source
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

TWO = Quotas(events_per_day=2)


async def rows(database: Database) -> tuple[int, int, int, list[int]]:
    """Return the numbers of entries, keys and events, and the counts of the quotas."""
    async with database.read() as connection:
        numbers = [
            len((await connection.execute(select(column))).all())
            for column in (InboxEntry.id, InboxKey.key, Event.id)
        ]
        counts = await connection.execute(select(TenantDay.events).order_by(TenantDay.events))
        return numbers[0], numbers[1], numbers[2], list(counts.scalars())


async def test_request_beyond_the_quota_is_not_stored_and_is_accepted_on_the_next_day(
    database: Database,
) -> None:
    tenant, other = await seed_tenant(database), await seed_tenant(database)
    source, others = await seed_source(database, tenant), await seed_source(database, other)
    async with process(database.url, quotas=TWO) as inbox:
        results = await asyncio.gather(
            *(inbox.store(arrival_of(source, tenant, f"id:{n}")) for n in range(4)),
            inbox.store(arrival_of(others, other, "id:0")),
            return_exceptions=True,
        )
        kinds = [type(one) for one in results]
        assert kinds == [InboxResult] * 2 + [TooManyRequests] * 2 + [InboxResult]
        [error] = {one.code for one in results if isinstance(one, TooManyRequests)}
        assert error == "daily_quota_exceeded"
        assert await rows(database) == (3, 3, 3, [1, 2])

        # a repeated request that was stored is still a duplicate
        assert (await inbox.store(arrival_of(source, tenant, "id:0"))).duplicate
        later = arrival_of(source, tenant, "id:3", at=NOW + timedelta(days=1))
        assert not (await inbox.store(later)).duplicate
    assert await rows(database) == (4, 4, 4, [1, 1, 2])
    async with database.read() as connection:
        stats = await source_stats.get(connection, source)
    assert stats is not None
    assert (stats.accepted, stats.duplicates) == (3, 1)


async def test_duplicates_and_repeated_facts_of_a_rejected_request_are_rejected_with_it(
    database: Database,
) -> None:
    """Otherwise the sender would stop to send what is not stored."""
    tenant = await seed_tenant(database)
    source = await seed_source(database, tenant)
    async with process(database.url, quotas=TWO) as inbox:
        results = await asyncio.gather(  # stored in one group
            inbox.store(arrival_of(source, tenant, "id:1", business_key="paid 1")),
            inbox.store(arrival_of(source, tenant, "id:2")),
            inbox.store(arrival_of(source, tenant, "id:3", business_key="paid 3")),
            inbox.store(arrival_of(source, tenant, "id:3", business_key="paid 3")),
            inbox.store(arrival_of(source, tenant, "id:4", business_key="paid 3")),
            return_exceptions=True,
        )
        assert list(map(type, results)) == [InboxResult] * 2 + [TooManyRequests] * 3
        assert await rows(database) == (2, 3, 2, [2])
        # nothing is emitted for a fact that was emitted already, so it needs no quota
        known = await inbox.store(arrival_of(source, tenant, "id:5", business_key="paid 1"))
    assert known.status == "suppressed"
    assert await rows(database) == (3, 4, 2, [2])


async def test_retry_of_a_failed_entry_counts_and_is_rejected_beyond_the_quota(
    database: Database,
) -> None:
    tenant = await seed_tenant(database)
    source = await seed_source(database, tenant)
    entries = [await seed_entry(database, source, tenant) for _ in range(3)]

    async def retry(inbox_id: str) -> None:
        async with database.read() as connection:
            entry = await inbox_entries.get(connection, inbox_id)
        assert entry is not None
        await retry_entry(database, entry, quotas=TWO)

    async with asyncio.timeout(PATIENCE):
        outcomes = await asyncio.gather(*map(retry, entries), return_exceptions=True)
    assert sorted(type(one).__name__ for one in outcomes) == [
        "NoneType",
        "NoneType",
        "TooManyRequests",
    ]
    async with database.read() as connection:
        statuses = list((await connection.execute(select(InboxEntry.status))).scalars())
    assert sorted(statuses) == ["accepted", "accepted", "failed"]


async def test_emitted_and_received_events_share_one_quota(database: Database) -> None:
    event_type = await seed_type(database)
    tenant = await seed_tenant(database)
    source = await seed_source(database, tenant)
    quotas = Quotas(events_per_day=25)
    async with (
        emitting_process(database.url, quotas=quotas, clock=lambda: NOW) as emitter,
        process(database.url, quotas=quotas) as inbox,
        asyncio.timeout(PATIENCE),
    ):
        results = await asyncio.gather(
            *(inbox.store(arrival_of(source, tenant, f"id:{n}")) for n in range(30)),
            *(emit(emitter, event_type, tenant_id=tenant) for _ in range(30)),
            return_exceptions=True,
        )
    assert sum(isinstance(one, TooManyRequests) for one in results) == 60 - 25
    assert (await rows(database))[2:] == (25, [25])
