"""A database that is filled with copies is consistent, and its figures agree with its rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Table, func, select

from bench import recount
from bench.pages import copying, verifying
from hookfast.clock import utc_now
from hookfast.deliveries.facts import AttemptPlan, Trigger
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.ids import is_id, time_of
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.storage.tables import Attempt, Delivery, Event
from tests.integration.storage.retention.ended import MINUTES, NO_RETRIES, ended
from tests.support.figures import count_rows
from tests.support.seed import seed_delivery, seed_endpoint

pytestmark = pytest.mark.anyio

_DELIVERIES: Table = Delivery.__table__
_ATTEMPTS: Table = Attempt.__table__
_EVENTS: Table = Event.__table__
_FIRST = AttemptPlan(number=1, trigger=Trigger.FIRST, round=0, in_plan=True)
_ANSWERS = ((200, MINUTES), (503, NO_RETRIES), (410, MINUTES), (500, MINUTES))
"""Delivered, dead, gone, retrying."""


async def _deliver(database: Database) -> None:
    """Store a delivery for each answer, and a pending one."""
    endpoint = await seed_endpoint(database, "https://example.com/hook")
    recorder = Recorder(database)
    for status, plan in _ANSWERS:
        delivery = await seed_delivery(database, endpoint)
        attempt = ended(_FIRST, status, utc_now(), plan=plan)
        await recorder.record(AttemptRecord(delivery_id=delivery, ended=attempt))
    await recorder.close()
    await seed_delivery(database, endpoint)
    await count_rows(database)


async def test_copies_are_counted_at_their_own_times(database: Database) -> None:
    await _deliver(database)
    await copying.fill(database, 200, days=1)
    assert await recount.differences(database) == {}
    async with database.read() as connection:
        rows = (await connection.execute(select(_DELIVERIES))).all()
        events = set((await connection.execute(select(_EVENTS.c.id))).scalars())
        attempts = (await connection.execute(select(_ATTEMPTS))).all()
    assert len(rows) >= 200
    assert {row.status for row in rows} == {"delivered", "dead", "gone", "retrying", "pending"}
    ids = {row.id: row for row in rows}
    for row in rows:
        assert is_id("dlv", row.id)
        assert row.event_id in events
        assert time_of(row.id) == row.created_at.replace(
            microsecond=row.created_at.microsecond // 1000 * 1000
        )
    for one in attempts:
        assert is_id("att", one.id)
        assert one.started_at >= ids[one.delivery_id].created_at
    newest, oldest = max(row.created_at for row in rows), min(row.created_at for row in rows)
    assert timedelta(hours=20) < newest - oldest < timedelta(days=1)


@pytest.mark.parametrize("days", [1, 45])
async def test_figures_of_copies_agree_with_the_rows_until_one_is_changed(
    database: Database, days: int
) -> None:
    await _deliver(database)
    await copying.fill(database, 200, days=days)
    checked = await verifying.verify(database)
    assert checked.compared > 10
    assert checked.wrong == []
    async with database.write() as connection:
        last = await connection.scalar(
            select(func.max(_DELIVERIES.c.id)).where(
                _DELIVERIES.c.status == DeliveryStatus.DELIVERED
            )
        )
        await connection.execute(
            _DELIVERIES.update().where(_DELIVERIES.c.id == last).values(status="cancelled")
        )
    assert (await verifying.verify(database)).wrong
