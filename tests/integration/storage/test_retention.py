"""What retention deletes, what keeps a row, and what a crash in between leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import distinct, func, select, text
from temporalio.testing import ActivityEnvironment

import activities.retention
from activities.retention import RetentionActivities
from hookfast.audit import SYSTEM, Change
from hookfast.clock import rfc3339
from hookfast.ids import new_id
from hookfast.retention import SWEEPS, RunOrder, SweepOrder, Swept
from hookfast.storage import audit, retention, retention_runs
from hookfast.storage.audit_table import AuditEntry
from hookfast.storage.control_tables import InFlight, Job, Notice
from hookfast.storage.engine import Database
from hookfast.storage.inbox_tables import InboxEntry, InboxKey
from hookfast.storage.retention import ById
from hookfast.storage.retention_tables import RetentionRun, RetentionSweep
from hookfast.storage.tables import Attempt, Delivery, Event, IdempotencyKey
from tests.integration.storage.old_rows import (
    AGES,
    BEFORE,
    CUTOFF,
    DAY,
    NOW,
    add,
    add_attempt,
    add_delivery,
    add_endpoint,
    add_event,
    add_job,
    add_key,
    add_notice,
    in_daily_partitions,
    left,
    number_of,
)

pytestmark = pytest.mark.anyio


async def run(
    database: Database,
    *,
    ages: Mapping[str, timedelta] = AGES,
    now: datetime = NOW,
    dry_run: bool = False,
    only: Collection[str] = SWEEPS,
) -> dict[str, Swept]:
    """A whole run, as the workflow does it, or only some of its sweeps."""
    done = RetentionActivities(database=database, ages=ages, clock=lambda: now)
    environment = ActivityEnvironment()
    order = RunOrder(new_id("ret", now), dry_run)
    await environment.run(done.begin_retention, order)
    if not dry_run:
        await environment.run(done.prepare_retention, order)
    for name in (one for one in SWEEPS if one in only):
        while not (
            await environment.run(done.sweep_rows, SweepOrder(order.run_id, name, dry_run))
        ).done:
            pass
    state = await environment.run(done.finish_retention, order)
    assert [swept.name for swept in state.swept] == list(SWEEPS)
    return {swept.name: swept for swept in state.swept}


async def test_a_row_goes_on_the_day_it_is_past_its_age_and_not_before(database: Database) -> None:
    await add_endpoint(database)
    kept: dict[Any, set[str]] = {Event: set(), Delivery: set(), Attempt: set()}
    for at in (CUTOFF - 40 * DAY, BEFORE, CUTOFF, NOW - DAY, NOW):
        event = await add_event(database, at)
        delivery = await add_delivery(database, event, at, ended=at)
        attempt = await add_attempt(database, delivery, at)
        await add_key(database, f"key {at}", event, at)
        if at >= CUTOFF:
            kept[Event].add(event)
            kept[Delivery].add(delivery)
            kept[Attempt].add(attempt)

    swept = await run(database)

    for table, ids in kept.items():
        assert await left(database, table) == ids
    assert await left(database, IdempotencyKey, "event_id") == kept[Event]
    names = ("attempts", "deliveries", "idempotency_keys", "events")
    assert [(swept[name].deleted, swept[name].kept) for name in names] == [(2, 0)] * 4
    assert sum(one.deleted for one in swept.values()) == 8


async def test_what_has_not_ended_for_long_enough_keeps_itself_and_its_event(
    database: Database,
) -> None:
    kept_events, kept_deliveries = set(), set()
    for status, ended in (
        ("pending", None),
        ("held", None),
        ("paused", None),
        ("delivered", CUTOFF),  # forty days after it was made
        ("cancelled", NOW),
        ("dead", CUTOFF),
        ("gone", CUTOFF),
    ):
        event = await add_event(database, CUTOFF - 40 * DAY)
        kept_events.add(event)
        kept_deliveries.add(
            await add_delivery(database, event, CUTOFF - 40 * DAY, status=status, ended=ended)
        )
        # its neighbour in the same event ended long ago
        await add_delivery(database, event, CUTOFF - 40 * DAY, ended=BEFORE)
    for status in ("delivered", "cancelled", "dead", "gone"):
        event = await add_event(database, BEFORE)
        await add_delivery(database, event, BEFORE, status=status, ended=BEFORE)
    await add_event(database, BEFORE, deliveries=0)

    swept = await run(database)

    assert await left(database, Event) == kept_events
    assert await left(database, Delivery) == kept_deliveries
    assert (swept["deliveries"].deleted, swept["dead_letters"].deleted) == (7 + 2, 2)
    assert (swept["events"].deleted, swept["events"].kept) == (5, 7)


async def test_dead_letters_that_are_kept_for_longer_keep_their_events(database: Database) -> None:
    event = await add_event(database, BEFORE)
    dead = await add_delivery(database, event, BEFORE, status="dead", ended=BEFORE)
    sweeps = ("dead_letters", "deliveries", "events")
    await run(database, ages=AGES | {"dead_letters": 90 * DAY}, only=sweeps)
    assert (await left(database, Event), await left(database, Delivery)) == ({event}, {dead})
    await run(database, ages=AGES | {"dead_letters": timedelta(0)}, only=sweeps)
    assert (await left(database, Event), await left(database, Delivery)) == ({event}, {dead})
    await run(database, only=sweeps)
    assert (await left(database, Event), await left(database, Delivery)) == (set(), set())


async def test_an_age_of_zero_keeps_everything(database: Database) -> None:
    event = await add_event(database, CUTOFF - 900 * DAY)
    delivery = await add_delivery(database, event, CUTOFF - 900 * DAY, ended=CUTOFF - 900 * DAY)
    await add_attempt(database, delivery, CUTOFF - 900 * DAY)
    swept = await run(database, ages=dict.fromkeys(AGES, timedelta(0)))
    assert sum(one.deleted for one in swept.values()) == 0
    assert [await number_of(database, table) for table in (Event, Delivery, Attempt)] == [1, 1, 1]


async def test_notices_jobs_and_places_in_flight_go_once_they_are_over(database: Database) -> None:
    long_ago, recently = NOW - 91 * DAY, NOW - 89 * DAY
    notices = {
        await add_notice(database, long_ago, status="pending"),
        await add_notice(database, recently),
    }
    await add_notice(database, long_ago)
    jobs = {
        await add_job(database, long_ago, ended=None),
        await add_job(database, long_ago, ended=recently),
        await add_job(database, recently, ended=recently),
    }
    await add_job(database, long_ago, ended=long_ago)
    for name, until in (("dlv_lost", NOW - 2 * DAY), ("dlv_now", NOW)):
        await add(database, InFlight, delivery_id=name, endpoint_id="ep_1", until=until)

    swept = await run(database, only=("notices", "jobs"))

    assert await left(database, Notice) == notices
    assert await left(database, Job) == jobs
    assert await left(database, InFlight, "delivery_id") == {"dlv_now"}
    assert (swept["notices"].deleted, swept["notices"].kept) == (1, 1)
    assert (swept["jobs"].deleted, swept["jobs"].kept) == (1, 2)


async def test_the_audit_log_goes_by_its_horizon(database: Database) -> None:
    async with database.write() as connection:
        for at in (NOW - 366 * DAY, NOW - 400 * DAY, NOW - 364 * DAY):
            change = Change(
                action="tenant.create", resource="tenant", resource_id=rfc3339(at), tenant_id=None
            )
            await audit.record(connection, change, actor=SYSTEM, now=at)
    dry, real = [await run(database, dry_run=dry, only=("audit",)) for dry in (True, False)]
    assert (dry["audit"].deleted, real["audit"].deleted) == (2, 2)
    assert await left(database, AuditEntry, "resource_id") == {
        rfc3339(NOW - 364 * DAY),
        "audit",  # that it was done
    }
    # nothing more is old: nothing is done, and nothing logged
    await run(database, now=NOW + timedelta(hours=1), only=("audit",))
    assert await number_of(database, AuditEntry) == 2


async def add_received(database: Database, at: datetime, *, event_id: str | None) -> str:
    return await add(
        database,
        InboxEntry,
        id=new_id("inb", at),
        source_id="src_1",
        tenant_id="tnt_1",
        key="d:1",
        event_type="github.push.received",
        payload_sha256="0",
        content_type="application/json",
        headers=[],
        body=b"{}",
        status="accepted",
        event_id=event_id,
        duplicates=0,
        conflicts=0,
        received_at=at,
        last_seen_at=at,
    )


async def test_a_received_request_goes_after_its_event(database: Database) -> None:
    paused = await add_event(database, BEFORE)
    await add_delivery(database, paused, BEFORE, status="paused")
    kept = {
        await add_received(database, BEFORE, event_id=paused),
        await add_received(database, CUTOFF, event_id=None),
    }
    await add_received(database, BEFORE, event_id=await add_event(database, BEFORE))
    await add_received(database, BEFORE, event_id=None)
    key = {"source_id": "src_1", "inbox_id": "inb_1", "payload_sha256": "0", "seen_at": BEFORE}
    await add(database, InboxKey, id=None, key="d:old", expires_at=NOW, **key)
    await add(database, InboxKey, id=None, key="b:1", expires_at=NOW + DAY, **key)

    sweeps = ("events", "inbox", "inbox_keys")
    dry, real = [await run(database, dry_run=dry, only=sweeps) for dry in (True, False)]

    assert await left(database, InboxEntry) == kept
    assert await left(database, InboxKey, "key") == {"b:1"}
    for swept in (dry, real):
        assert (swept["inbox"].deleted, swept["inbox"].kept) == (2, 1)
        assert swept["inbox_keys"].deleted == 1


@pytest.mark.parametrize("daily", [False, True], ids=["one partition", "daily partitions"])
async def test_a_dry_run_says_what_a_run_then_does_and_does_nothing(
    database: Database, daily: bool
) -> None:
    if daily:
        await in_daily_partitions(database, CUTOFF - 3 * DAY, CUTOFF + DAY)
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
    # with the dead letters go their attempts, which are past their own age and went before
    assert dry == real
    assert [real[name].deleted for name in ("attempts", "dead_letters", "deliveries")] == [7, 3, 3]
    assert (real["events"].deleted, real["events"].kept) == (6, 1)
    if daily and database.kind == "postgresql":
        # three days each, but for the one that the paused delivery keeps
        assert (real["attempts"].partitions, real["events"].partitions) == (3, 2)


async def test_a_crash_between_two_batches_neither_loses_nor_doubles_a_count(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activities.retention, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(activities.retention, "_BATCHES_AT_ONCE", 3)
    for number in range(9):
        event = await add_event(database, BEFORE)
        if number % 3 == 0:
            await add_delivery(database, event, BEFORE, status="paused")
    batch = ById.batch
    crashed = []

    async def crash(self: ById, connection: Any, *args: Any, **options: Any) -> retention.Batch:
        """Each batch is made twice: the first time, everything it did is rolled back."""
        made = await batch(self, connection, *args, **options)
        if self.name == "events" and options["after"] not in crashed:
            crashed.append(options["after"])
            raise RuntimeError("the worker dies")
        return made

    monkeypatch.setattr(ById, "batch", crash)
    done = RetentionActivities(database=database, ages=AGES, clock=lambda: NOW)
    order = RunOrder(new_id("ret", NOW), dry_run=False)
    environment = ActivityEnvironment()
    await environment.run(done.begin_retention, order)
    swept = Swept("events", done=False)
    while not swept.done:
        try:
            swept = await environment.run(
                done.sweep_rows, SweepOrder(order.run_id, "events", False)
            )
        except RuntimeError:
            continue
    assert len(crashed) == 5
    assert (swept.deleted, swept.kept) == (6, 3)
    assert await number_of(database, Event) == 3


async def test_a_run_keeps_the_cutoffs_of_its_beginning(database: Database) -> None:
    order = RunOrder(new_id("ret", NOW), dry_run=False)
    environment = ActivityEnvironment()
    first = RetentionActivities(database=database, ages=AGES, clock=lambda: NOW)
    await environment.run(first.begin_retention, order)
    later = RetentionActivities(database=database, ages=AGES, clock=lambda: NOW + 9 * DAY)
    await environment.run(later.begin_retention, order)
    event = await add_event(database, CUTOFF)
    await environment.run(later.sweep_rows, SweepOrder(order.run_id, "events", False))
    assert await left(database, Event) == {event}


async def test_runs_are_remembered_for_a_year(database: Database) -> None:
    for now in (NOW - 370 * DAY, NOW - 360 * DAY, NOW):
        await run(database, now=now, only=())
    async with database.read() as connection:
        runs = await retention_runs.newest(connection, limit=10)
        sweeps = await connection.execute(
            select(func.count(distinct(RetentionSweep.__table__.c.run_id)))
        )
    assert [one.run.started_at for one in runs] == [NOW, NOW - 360 * DAY]
    assert sweeps.scalar_one() == 2
    assert all([sweep.name for sweep in one.sweeps] == list(SWEEPS) for one in runs)
    assert await number_of(database, RetentionRun) == 2


async def test_a_delivery_that_is_made_of_an_event_right_now_keeps_it(
    postgresql_url: str,
) -> None:
    """A replay locks the event's row and adds a delivery. Retention passes by what is locked, and
    asks again for deliveries once it has the lock. (SQLite has one writer at a time.)"""
    async with Database(postgresql_url) as database:
        event = await add_event(database, BEFORE, deliveries=0)
        async with database.write() as connection:
            c = Event.__table__.c
            await connection.execute(select(c.id).where(c.id == event).with_for_update())
            swept = await run(database, only=("events",))
            assert (swept["events"].deleted, swept["events"].kept) == (0, 1)
        assert await left(database, Event) == {event}


async def test_nobody_waits_for_more_than_a_batch(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL the batch under way holds no lock that emitting or recording needs, so they
    come through while it is open; on SQLite it is over before they begin, and they come between
    two batches."""
    monkeypatch.setattr(activities.retention, "_ROWS_AT_ONCE", 50)
    await add_endpoint(database)
    async with database.write() as connection:
        await connection.execute(
            text(
                "INSERT INTO events (id, type, body, traceparent, deliveries, created_at) "
                "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 399) "
                "SELECT 'evt_0100000000007' || (1000000000000000000 + i), 'a.b.c', :body, '00', 0, "
                "CREATED FROM n".replace("CREATED", _moment(database))
            ),
            {"body": b"{}"},
        )
    batch = ById.batch
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

    async def watched(self: ById, *args: Any, **options: Any) -> retention.Batch:
        made = await batch(self, *args, **options)
        if self.name == "events":
            sizes.append(made.deleted)
            writer = asyncio.create_task(write())
            writers.append(writer)
            if database.kind == "postgresql":
                await writer  # the batch's transaction is still open
            else:
                # what was waiting for the batch before came in after it, ahead of this one
                assert len(began) >= len(writers) - 1
        return made

    monkeypatch.setattr(ById, "batch", watched)
    swept = await run(database, only=("events",))
    await asyncio.gather(*writers)
    assert swept["events"].deleted == 400
    assert sizes == [50] * 8 + [0]
    assert await left(database, Event) == set(written)


def _moment(database: Database) -> str:
    at = "'2026-01-01T00:00:00.000000Z'"
    return at if database.kind == "sqlite" else f"{at}::timestamptz"
