"""Quotas of events per day: exact between processes, and free where there is none."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, select

from hookfast.errors import TooManyRequests
from hookfast.quotas import Quotas
from hookfast.storage.database.engine import Database
from hookfast.storage.emitting.emit import Accepted, EmitResult, Emitter
from hookfast.storage.events.new_events import NewEvent
from hookfast.storage.tables import Event, IdempotencyKey, TenantDay
from hookfast.telemetry.traceparent import new as new_traceparent
from tests.integration.storage.emitting.emitters import (
    TYPE,
    count,
    emit,
    process,
    seed_tenant,
    seed_type,
)
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
FIVE = Quotas(events_per_day=5)


async def counted(database: Database) -> dict[tuple[str, str], int]:
    """Return the stored counts by tenant and day."""
    async with database.read() as connection:
        rows = await connection.execute(select(TenantDay.__table__))
        return {(row.tenant_id, row.day.isoformat()): row.events for row in rows}


async def batch(emitter: Emitter, *tenants: str | None, keys: str = "") -> list[EmitResult]:
    """Emit an event for each of these tenants in one request; with `keys`, each has a key."""
    events = [
        NewEvent(
            type=TYPE,
            data="{}",
            value={},
            tenant_id=tenant,
            idempotency_key=f"{keys}{n}" if keys else None,
        )
        for n, tenant in enumerate(tenants)
    ]
    return await emitter.emit(events, scope="operator", traceparent=new_traceparent())


def accepted(results: list[EmitResult]) -> list[bool]:
    """Return for each event whether it was accepted; the others are beyond the quota."""
    for result in results:
        if not isinstance(result, Accepted):
            assert isinstance(result, TooManyRequests), result
            assert result.code == "daily_quota_exceeded"
    return [isinstance(result, Accepted) for result in results]


async def test_processes_that_race_for_the_last_events_accept_exactly_the_quota(
    database: Database,
) -> None:
    await seed_type(database)
    tenant = await seed_tenant(database)
    quotas = Quotas(events_per_day=50)
    async with (
        process(database.url, quotas=quotas) as one,
        process(database.url, quotas=quotas) as two,
        asyncio.timeout(PATIENCE),
    ):
        singles = [
            emit(emitter, TYPE, tenant_id=tenant, idempotency_key=f"{number}")
            for emitter in (one, two)
            for number in range(40)  # the same keys in both processes
        ]
        batches = [batch(emitter, *[tenant] * 10) for emitter in (one, two) for _ in range(3)]
        alone, together = await asyncio.gather(asyncio.gather(*singles), asyncio.gather(*batches))
    results = [*alone, *(result for some in together for result in some)]
    assert set(map(type, results)) == {Accepted, TooManyRequests}
    new = [one for one in results if isinstance(one, Accepted) and not one.replayed]
    assert len(new) == 50
    assert await count(database, Event) == 50
    assert [*(await counted(database)).values()] == [50]


async def test_processes_that_emit_for_the_same_tenants_in_other_orders_do_not_deadlock(
    database: Database,
) -> None:
    await seed_type(database)
    tenants = [await seed_tenant(database) for _ in range(4)]
    quotas = Quotas(events_per_day=30)
    async with (
        process(database.url, quotas=quotas) as one,
        process(database.url, quotas=quotas) as two,
        asyncio.timeout(PATIENCE),
    ):
        results = await asyncio.gather(
            *(
                batch(emitter, *order)
                for _ in range(20)
                for emitter, order in ((one, tenants), (two, tenants[::-1]))
            )
        )
    assert sum(sum(accepted(some)) for some in results) == 4 * 30
    assert [*(await counted(database)).values()] == [30] * 4


async def test_batch_beyond_the_quota_is_accepted_in_part(database: Database) -> None:
    await seed_type(database)
    tenant, other = await seed_tenant(database), await seed_tenant(database)
    async with process(database.url, quotas=FIVE, clock=lambda: NOON) as emitter:
        results = await batch(emitter, *[tenant] * 3, other, None, *[tenant] * 4, other)
        #                               the first 3, and 2 of the next 4; others are not affected
        assert accepted(results) == [True] * 3 + [True, True] + [True, True, False, False, True]
        [error] = {one.message for one in results if isinstance(one, TooManyRequests)}
        assert "quota of 5 events per day" in error
        assert await count(database, Event) == 8
        assert await counted(database) == {(tenant, "2026-11-20"): 5, (other, "2026-11-20"): 2}
        assert accepted(await batch(emitter, None, tenant, other)) == [True, False, True]


async def test_repeated_event_is_not_counted_and_a_rejected_one_keeps_no_key(
    database: Database,
) -> None:
    await seed_type(database)
    tenant = await seed_tenant(database)
    now = NOON
    async with process(database.url, quotas=FIVE, clock=lambda: now) as emitter:
        first = await batch(emitter, *[tenant] * 7, keys="k")
        assert accepted(first) == [True] * 5 + [False] * 2
        assert await count_keys(database) == 5
        again = await batch(emitter, *[tenant] * 7, keys="k")
        assert accepted(again) == [True] * 5 + [False] * 2
        assert all(one.replayed for one in again[:5] if isinstance(one, Accepted))
        twice = [NewEvent(type=TYPE, data="{}", value={}, tenant_id=tenant, idempotency_key="x")]
        both = await emitter.emit(twice * 2, scope="operator", traceparent=new_traceparent())
        assert accepted(both) == [False, False]  # the second repeats an event that is not stored
        now += timedelta(days=1)
        tomorrow = await batch(emitter, *[tenant] * 7, keys="k")
        assert [one.replayed for one in tomorrow if isinstance(one, Accepted)] == [True] * 5 + [
            False
        ] * 2
    assert await counted(database) == {(tenant, "2026-11-20"): 5, (tenant, "2026-11-21"): 2}


async def test_same_new_key_twice_in_a_batch_that_is_only_found_full_when_it_commits(
    database: Database,
) -> None:
    await seed_type(database)
    tenant = await seed_tenant(database)
    one = NewEvent(type=TYPE, data="{}", value={}, tenant_id=tenant)
    keyed = NewEvent(type=TYPE, data="{}", value={}, tenant_id=tenant, idempotency_key="x")
    async with process(database.url, quotas=FIVE) as emitter:
        results = await emitter.emit(
            [*[one] * 5, keyed, keyed], scope="operator", traceparent=new_traceparent()
        )
    assert accepted(results) == [True] * 5 + [False] * 2
    assert await count_keys(database) == 0


async def test_quota_is_reset_at_midnight_utc(database: Database) -> None:
    await seed_type(database)
    tenant = await seed_tenant(database)
    now = datetime(2026, 11, 20, 23, 59, 59, 500_000, tzinfo=UTC)
    async with process(database.url, quotas=FIVE, clock=lambda: now) as emitter:
        assert accepted(await batch(emitter, *[tenant] * 6)) == [True] * 5 + [False]
        refused = await emit(emitter, TYPE, tenant_id=tenant)
        assert isinstance(refused, TooManyRequests)
        assert refused.retry_after == 1
        now = datetime(2026, 11, 21, tzinfo=UTC)
        assert accepted(await batch(emitter, *[tenant] * 6)) == [True] * 5 + [False]
    assert await counted(database) == {(tenant, "2026-11-20"): 5, (tenant, "2026-11-21"): 5}


async def test_own_quota_of_a_tenant_replaces_the_shared_one(database: Database) -> None:
    await seed_type(database)
    more = await seed_tenant(database, quotas={"events_per_day": 7, "endpoints": 1})
    unlimited = await seed_tenant(database, quotas={"events_per_day": 0})
    shared = await seed_tenant(database)
    async with process(database.url, quotas=FIVE) as emitter:
        for tenant, expected in ((more, 7), (unlimited, 9), (shared, 5)):
            assert sum(accepted(await batch(emitter, *[tenant] * 9))) == expected
    async with process(database.url) as emitter:  # only one tenant has a quota
        assert not any(accepted(await batch(emitter, *[more] * 9)))
        assert all(accepted(await batch(emitter, *[shared] * 9)))


async def test_without_a_quota_emitting_needs_no_further_statement(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await seed_type(database)
    limited = await seed_tenant(database, quotas={"events_per_day": 5})
    tenant = await seed_tenant(database)
    async with process(database.url) as emitter:
        await emit(emitter, TYPE, tenant_id=tenant)  # reads the schema, and who has a quota
        monkeypatch.setattr(emitter._quotas, "_fresh_until", float("inf"))
        statements: list[str] = []
        databases = {emitter._database._reader.sync_engine, emitter._database._writer.sync_engine}
        for engine in databases:
            event.listen(
                engine, "before_cursor_execute", lambda *given: statements.append(given[2])
            )

        async def statements_for(tenant_id: str | None) -> list[str]:
            statements.clear()
            assert isinstance(await emit(emitter, TYPE, tenant_id=tenant_id), Accepted)
            return [one.split("\n")[0] for one in statements if not one.startswith("BEGIN")]

        broadcast = await statements_for(None)
        # the type's version, subscribers, and the event; a tenant without subscribers is looked up
        assert len(broadcast) == 3, broadcast
        assert len(await statements_for(tenant)) == 4
        assert len(await statements_for(limited)) == 6  # reads the count, and adds to it


async def test_tenant_without_events_left_costs_no_transaction(database: Database) -> None:
    await seed_type(database)
    tenant = await seed_tenant(database)
    async with process(database.url, quotas=FIVE) as emitter:
        await batch(emitter, *[tenant] * 5)
        writes: list[str] = []
        engine: Any = emitter._database._writer.sync_engine
        event.listen(engine, "before_cursor_execute", lambda *given: writes.append(given[2]))
        assert accepted(await batch(emitter, *[tenant] * 3)) == [False] * 3
    assert not [one for one in writes if one.startswith(("INSERT", "UPDATE", "DELETE"))]


async def count_keys(database: Database) -> int:
    async with database.read() as connection:
        return len((await connection.execute(select(IdempotencyKey.__table__.c.key))).all())
