"""Retention's sweeps: which rows they delete, and what keeps an old row."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from hookfast.audit import SYSTEM, AuditedChange
from hookfast.clock import rfc3339
from hookfast.ids import new_id
from hookfast.storage.audit import audit_log
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import (
    Attempt,
    AuditEntry,
    Delivery,
    Event,
    IdempotencyKey,
    InboxEntry,
    InboxKey,
    InFlight,
    Job,
    Notice,
)
from tests.integration.storage.retention.old_rows import (
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
    left,
    number_of,
)
from tests.integration.storage.retention.retention_run import run

pytestmark = pytest.mark.anyio


async def test_row_is_deleted_on_the_day_its_age_is_over_and_not_before(database: Database) -> None:
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


async def test_open_and_recently_ended_deliveries_keep_their_events(
    database: Database,
) -> None:
    kept_events, kept_deliveries = set(), set()
    for status, ended in (
        ("pending", None),
        ("held", None),
        ("paused", None),
        ("delivered", CUTOFF),  # forty days after it was created
        ("cancelled", NOW),
        ("dead", CUTOFF),
        ("gone", CUTOFF),
    ):
        event = await add_event(database, CUTOFF - 40 * DAY)
        kept_events.add(event)
        kept_deliveries.add(
            await add_delivery(database, event, CUTOFF - 40 * DAY, status=status, ended=ended)
        )
        # another delivery of the same event ended long ago
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


async def test_dead_letters_kept_for_longer_keep_their_events(database: Database) -> None:
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


async def test_finished_notices_jobs_and_lost_requests_in_flight_are_deleted(
    database: Database,
) -> None:
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


async def test_old_audit_entries_are_deleted_by_moving_the_horizon(database: Database) -> None:
    async with database.write() as connection:
        for at in (NOW - 366 * DAY, NOW - 400 * DAY, NOW - 364 * DAY):
            change = AuditedChange(
                action="tenant.create", resource="tenant", resource_id=rfc3339(at), tenant_id=None
            )
            await audit_log.record(connection, change, actor=SYSTEM, now=at)
    dry, real = [await run(database, dry_run=dry, only=("audit",)) for dry in (True, False)]
    assert (dry["audit"].deleted, real["audit"].deleted) == (2, 2)
    assert await left(database, AuditEntry, "resource_id") == {
        rfc3339(NOW - 364 * DAY),
        "audit",  # the entry about the deletion
    }
    # no other entry is old, so nothing is deleted and nothing is logged
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


async def test_received_request_is_deleted_after_its_event(database: Database) -> None:
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
