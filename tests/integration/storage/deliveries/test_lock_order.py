"""Lock order of processes that change the same rows at once: they lock rows in the same order, or
skip locked rows. Otherwise PostgreSQL cancels one of them after a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select, text, update

from hookfast.clock import utc_now
from hookfast.storage.circuits import circuits
from hookfast.storage.circuits.circuits import CircuitWorkflowRequests
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import outbox
from hookfast.storage.tables import Delivery, Endpoint
from tests.integration.storage.circuits.stored_circuits import HOUR, open_circuit
from tests.integration.storage.deliveries.stored_lives import NOON
from tests.support.seed import delivery_row, seed_delivery, seed_endpoint
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
async def postgresql(postgresql_url: str) -> AsyncIterator[Database]:
    """A database with row locks, unlike SQLite, which has one writer."""
    async with Database(postgresql_url) as database:
        yield database


async def test_the_sweep_skips_a_lost_delivery_whose_attempt_is_being_recorded(
    postgresql: Database,
) -> None:
    endpoint = await seed_endpoint(postgresql, "https://example.com/hook")
    overdue = utc_now() + HOUR
    recorded, lost = [
        await seed_delivery(postgresql, endpoint, started_at=utc_now()) for _ in range(2)
    ]
    async with postgresql.write() as recorder, asyncio.timeout(PATIENCE):
        table = Delivery.__table__
        await recorder.execute(select(table).where(table.c.id == recorded).with_for_update())
        async with postgresql.write() as sweep:
            assert await outbox.wake_lost(sweep, overdue_since=overdue, limit=9) == 1
    assert (await delivery_row(postgresql, lost)).wake_count == 1
    assert (await delivery_row(postgresql, recorded)).wake_count == 0


async def test_the_sweep_skips_a_stalled_circuit_that_is_locked(postgresql: Database) -> None:
    moving, stalled = [
        await seed_endpoint(postgresql, "https://example.com/hook") for _ in range(2)
    ]
    for endpoint in (moving, stalled):
        await open_circuit(postgresql, endpoint)
    async with postgresql.write() as workflow_starter:
        requests = await CircuitWorkflowRequests().find(workflow_starter, limit=9)
        await CircuitWorkflowRequests().mark(workflow_starter, requests, now=NOON)
    async with postgresql.write() as other, asyncio.timeout(PATIENCE):
        await circuits.lock(other, [moving])
        async with postgresql.write() as sweep:
            overdue_since = NOON + 2 * HOUR
            assert await circuits.request_stalled_workflows(sweep, overdue_since=overdue_since) == 1
    async with postgresql.read() as connection:
        [request] = await CircuitWorkflowRequests().find(connection, limit=9)
    assert request.key[0] == stalled


async def test_circuits_are_marked_in_the_order_in_which_attempts_lock_them(
    postgresql: Database,
) -> None:
    endpoints = [await seed_endpoint(postgresql, "https://example.com/hook") for _ in range(5)]
    table = Endpoint.__table__
    for endpoint in reversed(endpoints):
        await open_circuit(postgresql, endpoint)
        async with postgresql.write() as connection:  # its row moves to the end of the table
            await connection.execute(
                update(table).where(table.c.id == endpoint).values(mode="push")
            )
    async with postgresql.read() as connection:
        for plan in ("indexscan", "bitmapscan", "mergejoin"):  # as other statistics may cause
            await connection.execute(text(f"SET LOCAL enable_{plan} = off"))
        requests = await CircuitWorkflowRequests().find(connection, limit=9)
    assert [one.key[0] for one in requests] == endpoints
