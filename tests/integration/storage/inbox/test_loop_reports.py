"""Operators are told of a loop at most once per source and hour, by all processes together."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from hookfast.events.operational import Kind
from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.inbox.loop_reports import LoopReports
from hookfast.storage.tables import Event
from tests.support.seed_inbox import seed_source

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)
TENANT = "tnt_1"


async def report(url: str, *sources: str, at: datetime = NOW) -> None:
    """Report a loop at each of these sources, from a process of its own."""
    async with Database(url) as database:
        doorbell = doorbell_for(database)
        reports = LoopReports(database, doorbell, clock=lambda: at)
        try:
            for source in sources:
                await reports.add(source, tenant_id=TENANT, hops=6)
        finally:
            await doorbell.close()


async def events(database: Database) -> list[str]:
    """Return the times of the operational events."""
    c = Event.__table__.c
    async with database.read() as connection:
        rows = await connection.execute(
            select(c.created_at).where(c.type == Kind.LOOP_DETECTED.value).order_by(c.id)
        )
    return [f"{at:%H:%M}" for at in rows.scalars()]


async def test_loop_is_reported_again_after_an_hour(database: Database, database_url: str) -> None:
    source = await seed_source(database, TENANT)
    for minutes in (0, 1, 59, 60, 61, 119, 121):
        await report(database_url, source, source, at=NOW + timedelta(minutes=minutes))
    assert await events(database) == ["11:15", "12:15", "13:16"]


async def test_processes_that_detect_a_loop_at_once_report_it_once(
    database: Database, database_url: str
) -> None:
    source = await seed_source(database, TENANT)
    await asyncio.gather(*(report(database_url, source) for _ in range(4)))
    assert await events(database) == ["11:15"]


async def test_each_source_has_its_own_reports(database: Database, database_url: str) -> None:
    sources = [await seed_source(database, TENANT) for _ in range(2)]
    await report(database_url, *sources)
    assert len(await events(database)) == 2
