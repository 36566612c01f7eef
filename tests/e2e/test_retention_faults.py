"""Retention on PostgreSQL while events are emitted, delivered and listed: workers are killed at
each of its steps, and somebody reads a table for long while its partitions are to be dropped."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median

import asyncpg
import pytest
from sqlalchemy import insert, select
from temporalio.testing import WorkflowEnvironment

from hookfast.clock import utc_now
from hookfast.deliveries.figures import minute_of
from hookfast.dispatch import retention_schedule
from hookfast.ids import new_id
from hookfast.retention.ages import RetentionState, midnight
from hookfast.storage.counting import folding
from hookfast.storage.database import partitions
from hookfast.storage.database.engine import Database
from hookfast.storage.figures import reconciliation
from hookfast.storage.retention import retention_runs
from hookfast.storage.tables import Attempt, Delivery, Event, Figure, FigureEntry
from tests.e2e.processes import environment, run_dying_worker, running, worker
from tests.e2e.traffic import LONG, traffic
from tests.integration.storage.retention.old_rows import (
    ENDPOINT,
    TENANT,
    add_attempt,
    add_delivery,
    add_event,
    create_partitions,
    left,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(3000)]

_LONGEST_SECONDS = 5.0
"""Longest that an emit may take while partitions are dropped. Two attempts at a lock are half a
second each; the machine may be busy."""
STEPS = (
    *("adding", "added", "repairing", "repaired"),
    *("dropping", "dropped", "sweeping", "swept", "finishing"),
)
DAYS = 4
PER_DAY = 500
FIGURES = folding.BY_HOUR + ENDPOINT
"""The scope of the endpoint's figures by the hour."""
_DAY_MINUTES = 24 * 60


async def seed_old_days(database: Database) -> tuple[set[str], set[str]]:
    """Store days of old events and deliveries in partitions of their own. Return the events and
    the deliveries that have to stay: paused and dead ones, and those that are still retried."""
    first = utc_now() - timedelta(days=100)
    await create_partitions(database, first, days=DAYS)
    events: set[str] = set()
    deliveries: set[str] = set()
    for day in range(DAYS):
        at = first + timedelta(days=day)
        rows = [new_id("evt", at) for _ in range(PER_DAY)]
        async with database.write() as connection:
            await connection.execute(
                insert(Event.__table__),
                [
                    {
                        "id": event,
                        "type": "order.invoice.paid",
                        "body": b"{}",
                        "traceparent": "00",
                        "deliveries": 1,
                        "created_at": at,
                    }
                    for event in rows
                ],
            )
        for event in rows[:20]:
            delivery = await add_delivery(database, event, at, ended=at)
            await add_attempt(database, delivery, at)
        if day % 2:  # otherwise the whole partition goes
            for status in ("paused", "retrying"):
                event = await add_event(database, at)
                events.add(event)
                deliveries.add(await add_delivery(database, event, at, status=status))
    return events, deliveries


async def seed_figures(database: Database) -> Counter[int]:
    """Store figures of the hours of some old days, and a gauge without rows. Return the sums of the
    days."""
    day = minute_of(midnight(utc_now() - timedelta(days=50)))
    hours = range(day, day + 4 * _DAY_MINUTES, 60)
    row = {"scope": FIGURES, "event_type": "", "kind": "delivery:delivered", "bucket": -1}
    gauge = {"gauge": True, "at": 0, "tenant_id": TENANT, "endpoint_id": ENDPOINT, "number": 5}
    gauge |= {"event_type": "", "kind": "held", "bucket": -1}
    async with database.write() as connection:
        await connection.execute(
            insert(Figure.__table__), [row | {"at": at, "number": at % 7} for at in hours]
        )
        await connection.execute(insert(FigureEntry.__table__), gauge)
    sums: Counter[int] = Counter()
    for at in hours:
        sums[at - at % _DAY_MINUTES] += at % 7
    return sums


async def start(temporal: WorkflowEnvironment) -> str:
    run_id = new_id("ret")
    await retention_schedule.start(temporal.client, run_id, dry_run=False)
    return run_id


async def result(temporal: WorkflowEnvironment, run_id: str) -> RetentionState:
    workflow = temporal.client.get_workflow_handle(
        retention_schedule.workflow_id(run_id), result_type=RetentionState
    )
    async with asyncio.timeout(LONG):
        return await workflow.result()


async def old_partitions(database: Database, tables: Sequence[str]) -> int:
    """Count the partitions of days before today."""
    async with database.read() as connection:
        found = [
            one
            for table in tables
            for one in await partitions.list_partitions(connection, table)
            if one.until is not None and one.name < f"{table}_{utc_now():%Y%m%d}"
        ]
    return len(found)


async def test_retention_killed_at_each_step_under_traffic_deletes_what_is_old_and_nothing_else(
    temporal: WorkflowEnvironment, temporal_address: str, postgresql_url: str, tmp_path: Path
) -> None:
    env = environment(
        tmp_path,
        postgresql_url,
        temporal_address,
        HEARTBEAT_TIMEOUT="3",
        HOOKFAST_DEAD_LETTER_RETENTION="0",
    )
    async with Database(postgresql_url) as database:
        events, deliveries = await seed_old_days(database)
        sums = await seed_figures(database)
        async with traffic(env, tmp_path) as flowing:
            run_id = await start(temporal)
            for step in STEPS:
                await run_dying_worker(env, tmp_path / f"{step}.log", die_at=step)
            never = (sys.executable, "-m", "tests.e2e.dying_worker")
            async with running(*never, env=env | {"DIE_AT": "never"}, log=tmp_path / "last.log"):
                swept = {one.name: one for one in (await result(temporal, run_id)).swept}
                await flowing.until_delivered()

        assert (flowing.refused, flowing.faults) == (0, [])
        kept = await left(database, Event)
        assert kept >= events | set(flowing.accepted.values())
        assert len(kept) == len(events) + len(flowing.accepted)
        assert await left(database, Delivery) >= deliveries
        assert await left(database, Attempt, "delivery_id") <= await left(database, Delivery)
        # exact, whatever was cut off
        assert swept["events"].deleted == DAYS * PER_DAY
        assert (swept["deliveries"].deleted, swept["attempts"].deleted) == (DAYS * 20, DAYS * 20)
        assert swept["events"].partitions == DAYS // 2
        assert all(one.done for one in swept.values())
        async with database.read() as connection:
            found = await retention_runs.get(connection, run_id)
            c = Figure.__table__.c
            figures = await connection.execute(
                select(c.at, c.number).where(c.scope == FIGURES, c.bucket == -1)
            )
            assert {row.at: row.number for row in figures} == sums
        assert found is not None
        assert found.run.rolled_up == 4 * 24 - len(sums)
        # a gauge counted deliveries that are not held, and none those that are paused or retried
        assert (found.run.gauges_corrected, found.run.hours_different) == (3, 0)
        assert [page.drift async for page in reconciliation.pages(database) if page.drift] == []


async def test_long_reader_holds_up_neither_emits_nor_the_rest_of_retention(
    temporal: WorkflowEnvironment, temporal_address: str, postgresql_url: str, tmp_path: Path
) -> None:
    env = environment(tmp_path, postgresql_url, temporal_address)
    async with Database(postgresql_url) as database:
        events, deliveries = await seed_old_days(database)
        before = await old_partitions(database, ["events", "attempts"])
        reader = await asyncpg.connect(postgresql_url.replace("+asyncpg", ""))
        async with traffic(env, tmp_path) as flowing, worker(env, tmp_path / "worker.log"):
            await flowing.until_accepted(20)
            # as pg_dump and a forgotten psql do: a lock on every table that they read
            await reader.execute(
                "BEGIN; SELECT count(*) FROM events; SELECT count(*) FROM attempts"
            )
            first = {one.name: one for one in (await result(temporal, await start(temporal))).swept}
            while_held = max(flowing.took)
            assert await old_partitions(database, ["events", "attempts"]) == before
            await reader.execute("ROLLBACK")
            second = {
                one.name: one for one in (await result(temporal, await start(temporal))).swept
            }
            await flowing.until_delivered()
        await reader.close()

        print(f"longest emit: {while_held:.2f} s, median {median(flowing.took):.3f} s")
        assert (flowing.refused, flowing.faults) == (0, [])
        assert while_held < _LONGEST_SECONDS
        # the rows went in batches, and the partitions once nobody read them
        assert first["events"].deleted == DAYS * PER_DAY
        assert first["events"].partitions == first["attempts"].partitions == 0
        assert second["events"].partitions == DAYS // 2
        assert await left(database, Event) >= events | set(flowing.accepted.values())
        assert await left(database, Delivery) >= deliveries
