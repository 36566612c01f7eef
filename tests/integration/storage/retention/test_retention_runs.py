"""Runs of retention: dry runs, runs interrupted by a crash, and runs beside writers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, distinct, func, select, text, update
from structlog.testing import capture_logs
from temporalio.exceptions import ApplicationError

import activities.retention
from activities.retention import RetentionActivities
from hookfast.ids import new_id
from hookfast.retention.ages import SWEEPS, RetentionRunInput, SweepInput, Swept
from hookfast.storage.accounts import tenant_days
from hookfast.storage.counting import folding, reading
from hookfast.storage.counting.reading import Scope
from hookfast.storage.database.engine import Database
from hookfast.storage.retention import retention_runs
from hookfast.storage.retention.sweeps import Batch, sweep_batch
from hookfast.storage.tables import (
    Attempt,
    Delivery,
    Event,
    Figure,
    Gauge,
    GaugeTotal,
    IdempotencyKey,
    RetentionRun,
    RetentionSweep,
    SentTest,
    TenantDay,
)
from tests.integration.storage.retention.old_rows import (
    AGES,
    BEFORE,
    CUTOFF,
    DAY,
    NOW,
    add_attempt,
    add_delivery,
    add_endpoint,
    add_event,
    add_key,
    add_test,
    create_partitions,
    left,
    number_of,
)
from tests.integration.storage.retention.retention_run import activity_at, run
from tests.support.figures import count_rows

pytestmark = pytest.mark.anyio

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
MIDNIGHT = NOW.replace(hour=0)


@pytest.mark.parametrize("daily", [False, True], ids=["one partition", "daily partitions"])
async def test_dry_run_predicts_a_run_and_changes_nothing(database: Database, daily: bool) -> None:
    if daily:
        await create_partitions(database, CUTOFF - 3 * DAY, days=5)
    for day in range(5):
        at = CUTOFF - 3 * DAY + day * DAY
        for status, ended in (("delivered", at), ("dead", at), ("paused", None)):
            if status == "paused" and day != 1:
                continue
            event = await add_event(database, at)
            delivery = await add_delivery(database, event, at, status=status, ended=ended)
            await add_attempt(database, delivery, at)
            await add_key(database, f"{status} {day}", event, at)
    tables = (Event, Delivery, Attempt, IdempotencyKey)
    before = [await number_of(database, table) for table in tables]

    dry = await run(database, dry_run=True)

    assert [await number_of(database, table) for table in tables] == before
    real = await run(database)
    # the attempts of dead letters are deleted with them, but here by their own age before
    assert dry == real
    assert [real[name].deleted for name in ("attempts", "dead_letters", "deliveries")] == [7, 3, 3]
    assert (real["events"].deleted, real["events"].kept) == (6, 1)
    if daily and database.kind == "postgresql":
        # three days each, except the one that the paused delivery keeps
        assert (real["attempts"].partitions, real["events"].partitions) == (3, 2)


async def test_crash_between_batches_neither_loses_nor_doubles_a_count(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activities.retention, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(activities.retention, "_BATCHES_AT_ONCE", 3)
    for number in range(9):
        event = await add_event(database, BEFORE)
        if number % 3 == 0:
            await add_delivery(database, event, BEFORE, status="paused")
    crashed = []

    async def crash(connection: Any, name: str, *args: Any, **options: Any) -> Batch:
        """Run each batch twice: the first time, everything it did is rolled back."""
        batch = await sweep_batch(connection, name, *args, **options)
        if name == "events" and options["after"] not in crashed:
            crashed.append(options["after"])
            raise RuntimeError("the worker dies")
        return batch

    monkeypatch.setattr(activities.retention, "sweep_batch", crash)
    retention = RetentionActivities(database=database, ages=AGES, clock=lambda: NOW)
    input = RetentionRunInput(new_id("ret", NOW), dry_run=False)
    environment = activity_at(NOW)
    await environment.run(retention.begin_retention, input)
    swept = Swept("events", done=False)
    while not swept.done:
        try:
            swept = await environment.run(
                retention.sweep_rows, SweepInput(input.run_id, "events", False)
            )
        except RuntimeError:
            continue
    assert len(crashed) == 5
    assert (swept.deleted, swept.kept) == (6, 3)
    assert await number_of(database, Event) == 3


@pytest.mark.parametrize("off_by", [timedelta(hours=-2), timedelta(hours=2), 400 * DAY])
async def test_a_run_whose_clock_disagrees_with_temporals_deletes_nothing(
    database: Database, off_by: timedelta
) -> None:
    retention = RetentionActivities(database=database, ages=AGES, clock=lambda: NOW + off_by)
    input = RetentionRunInput(new_id("ret", NOW), dry_run=False)
    with pytest.raises(ApplicationError, match="apart; nothing is deleted"):
        await activity_at(NOW).run(retention.begin_retention, input)
    async with database.read() as connection:
        assert await retention_runs.list_newest(connection, limit=10) == []
    await activity_at(NOW + off_by).run(retention.begin_retention, input)


async def test_a_run_keeps_the_cutoffs_of_its_beginning(database: Database) -> None:
    input = RetentionRunInput(new_id("ret", NOW), dry_run=False)
    first = RetentionActivities(database=database, ages=AGES, clock=lambda: NOW)
    await activity_at(NOW).run(first.begin_retention, input)
    later = RetentionActivities(database=database, ages=AGES, clock=lambda: NOW + 9 * DAY)
    environment = activity_at(NOW + 9 * DAY)
    await environment.run(later.begin_retention, input)
    event = await add_event(database, CUTOFF)
    await environment.run(later.sweep_rows, SweepInput(input.run_id, "events", False))
    assert await left(database, Event) == {event}


async def test_runs_are_kept_for_a_year(database: Database) -> None:
    for now in (NOW - 370 * DAY, NOW - 360 * DAY, NOW):
        await run(database, now=now, only=())
    async with database.read() as connection:
        runs = await retention_runs.list_newest(connection, limit=10)
        sweeps = await connection.execute(
            select(func.count(distinct(RetentionSweep.__table__.c.run_id)))
        )
    assert [one.run.started_at for one in runs] == [NOW, NOW - 360 * DAY]
    assert sweeps.scalar_one() == 2
    assert all([sweep.name for sweep in one.sweeps] == list(SWEEPS) for one in runs)
    assert await number_of(database, RetentionRun) == 2


async def test_delivery_being_created_keeps_its_event(
    postgresql_url: str,
) -> None:
    """A replay locks the event's row and adds a delivery. Retention skips locked rows, and checks
    for deliveries again once it has the lock. (SQLite has one writer at a time.)"""
    async with Database(postgresql_url) as database:
        event = await add_event(database, BEFORE, deliveries=0)
        async with database.write() as connection:
            c = Event.__table__.c
            await connection.execute(select(c.id).where(c.id == event).with_for_update())
            swept = await run(database, only=("events",))
            assert (swept["events"].deleted, swept["events"].kept) == (0, 1)
        assert await left(database, Event) == {event}


async def test_writers_wait_for_one_batch_at_most(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL an open batch holds no lock that emitting or recording needs, so they succeed
    meanwhile; on SQLite they run between two batches."""
    monkeypatch.setattr(activities.retention, "_ROWS_AT_ONCE", 50)
    await add_endpoint(database)
    async with database.write() as connection:
        await connection.execute(
            text(
                "INSERT INTO events (id, type, body, traceparent, deliveries, created_at, "
                "position) WITH RECURSIVE n(i) AS "
                "(SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 399) "
                "SELECT 'evt_0100000000007' || (1000000000000000000 + i), 'a.b.c', :body, '00', 0, "
                "CREATED, i FROM n".replace("CREATED", _moment(database))
            ),
            {"body": b"{}"},
        )
    began: list[str] = []
    written: list[str] = []
    sizes: list[int] = []
    writers: list[asyncio.Task[None]] = []

    async def write() -> None:
        event = await add_event(database, NOW)
        began.append(event)
        delivery = await add_delivery(database, event, NOW, status="pending")
        await add_attempt(database, delivery, NOW)
        written.append(event)

    async def watched(connection: Any, name: str, *args: Any, **options: Any) -> Batch:
        batch = await sweep_batch(connection, name, *args, **options)
        if name == "events":
            sizes.append(batch.deleted)
            writer = asyncio.create_task(write())
            writers.append(writer)
            if database.kind == "postgresql":
                await writer  # the batch's transaction is still open
            else:
                # the writer that waited for the previous batch ran before this batch
                assert len(began) >= len(writers) - 1
        return batch

    monkeypatch.setattr(activities.retention, "sweep_batch", watched)
    swept = await run(database, only=("events",))
    await asyncio.gather(*writers)
    assert swept["events"].deleted == 400
    assert sizes == [50] * 8 + [0]
    assert await left(database, Event) == set(written)


async def test_run_deletes_the_counts_of_events_of_days_that_are_over(database: Database) -> None:
    days = {NOW.date() - n * DAY: n for n in range(4)}
    async with database.write() as connection:
        await tenant_days.add(connection, {("tnt_1", day): 5 for day in days})
    await run(database, dry_run=True)
    assert len(await left(database, TenantDay, column="day")) == 4
    await run(database)
    # yesterday's stay, for a request that was received before midnight and is stored after it
    assert sorted(days[day] for day in await left(database, TenantDay, column="day")) == [0, 1]


async def test_run_deletes_tests_after_seven_days_and_a_dry_run_none(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activities.retention, "_ROWS_AT_ONCE", 2)
    midnight = NOW.replace(hour=0) - 7 * DAY
    old = [midnight - timedelta(microseconds=1000 * n) for n in range(1, 6)]
    for at in old:
        await add_test(database, at)
    kept = {await add_test(database, at) for at in (midnight, NOW)}
    await run(database, only=(), dry_run=True)
    assert await number_of(database, SentTest) == 7
    await run(database, only=())
    assert await left(database, SentTest) == kept


async def test_run_adds_figures_up_and_corrects_gauges_and_says_so(database: Database) -> None:
    await add_endpoint(database)
    event = await add_event(database, NOW)
    held = await add_delivery(database, event, NOW - 3 * HOUR, status="held")
    await add_attempt(database, held, NOW - 3 * HOUR)
    await add_delivery(database, event, NOW - 3 * HOUR, status="dead", ended=NOW - HOUR)
    for minutes in range(5):
        at = NOW - 3 * DAY + timedelta(minutes=minutes)
        await add_delivery(database, event, at, ended=at)
    await count_rows(database)
    await folding.fold(database)
    gauges, figures, sums = Gauge.__table__, Figure.__table__, GaugeTotal.__table__
    async with database.write() as connection:
        for table, kind, number in ((gauges, "held", 9), (gauges, "dead:", 0), (sums, "held", 9)):
            wrong = update(table).where(table.c.kind == kind).values(number=number)
            await connection.execute(wrong)
        attempts = figures.c.kind.startswith("attempt")
        await connection.execute(delete(figures).where(attempts))
    with capture_logs() as lines:
        await run(database, only=())
    async with database.read() as connection:
        [first] = await retention_runs.list_newest(connection, limit=10)
        [days] = await reading.steps(connection, Scope(), [MIDNIGHT - 4 * DAY, MIDNIGHT - 2 * DAY])
    # five minutes of three scopes, by two kinds
    assert first.run.rolled_up == 5 * 3 * 2
    assert days.deliveries == {"delivered": 5}
    # of the totals, those of dead letters were right, which the gauge was not: of a tenant and of
    # all, each by kind, endpoint, event type and hour
    assert (first.run.endpoints_compared, first.run.gauges_corrected) == (1, 2 + 2 * 4)
    assert (first.run.hours_different, first.run.figures_deleted) == (1, 0)
    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert [set(line) - {"event", "log_level"} for line in warnings] == [
        {"run_id", "endpoint_id", "gauges"},
        {"run_id", "count"},
        {"run_id", "hour", "figures"},
    ]
    assert warnings[0]["gauges"] == ["dead: +1", "held -8"]
    assert warnings[1]["count"] == 2 * 4
    assert warnings[2]["hour"] == "2026-11-20T00:00:00.000000Z"
    assert warnings[2]["figures"] == ["attempts 0, rows 1", "deliveries 2, rows 2"]

    with capture_logs() as lines:
        await run(database, now=NOW + MINUTE, only=())
    async with database.read() as connection:
        [second, _] = await retention_runs.list_newest(connection, limit=10)
    assert (second.run.rolled_up, second.run.gauges_corrected) == (0, 0)
    assert second.run.hours_different == 1  # reported, not corrected


async def test_run_deletes_figures_past_their_age(database: Database) -> None:
    await add_endpoint(database)
    for days in (420, 380):
        at = NOW - days * DAY
        await add_delivery(database, "evt_1", at, ended=at)
    await count_rows(database)
    await folding.fold(database)
    await run(database, ages=AGES | {"figures": timedelta(0)}, only=())
    rows = await number_of(database, Figure)
    await run(database, now=NOW + MINUTE, only=())
    async with database.read() as connection:
        [second, first] = await retention_runs.list_newest(connection, limit=10)
    assert (first.run.figures_deleted, second.run.figures_deleted) == (0, rows // 2)
    assert await number_of(database, Figure) == rows // 2


def _moment(database: Database) -> str:
    at = "'2026-01-01T00:00:00.000000Z'"
    return at if database.kind == "sqlite" else f"{at}::timestamptz"


async def test_run_that_the_database_does_not_know_ends_without_deleting(
    database: Database,
) -> None:
    """The database was restored from a backup older than the run; its workflow goes on."""
    event = await add_event(database, BEFORE)
    retention = RetentionActivities(database=database, ages=AGES, clock=lambda: NOW)
    environment = activity_at(NOW)
    input = RetentionRunInput(new_id("ret", NOW), False)
    await environment.run(retention.prepare_retention, input)
    for name in SWEEPS:
        sweep = SweepInput(input.run_id, name, False)
        assert await environment.run(retention.sweep_rows, sweep) == Swept(name, done=True)
    assert (await environment.run(retention.finish_retention, input)).swept == ()
    assert await left(database, Event) == {event}
