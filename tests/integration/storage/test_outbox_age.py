"""The age of the outbox: one look-up for each endpoint that waits, however many deliveries do."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from hookfast.deliveries.messages import Urgency
from hookfast.storage.database.engine import Database
from hookfast.storage.figures.gauges import OLDEST
from hookfast.storage.tables import Delivery
from tests.support.query_plan import explain

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
STEPS = {
    "sqlite": "ix_deliveries_outbox ((urgency,tenant_id,endpoint_id)>(?,?,?))",
    "postgresql": "Index Cond: (ROW(urgency, tenant_id, endpoint_id) > ROW(",
}
"""The step that skips the other deliveries of an endpoint."""


def _row(number: int, endpoint: str, **members: Any) -> dict[str, Any]:
    return {
        "id": f"dlv_{number:09}",
        "event_id": "evt_1",
        "subscription_id": "sub_1",
        "endpoint_id": endpoint,
        "tenant_id": "tnt_1",
        "event_type": "order.invoice.paid",
        "payload": "full",
        "status": "pending",
        "attempts": 0,
        "retries": 0,
        "created_at": NOW,
        "updated_at": NOW,
        "started_at": None,
        "urgency": Urgency.FIRST,
    } | members


async def _oldest(database: Database, rows: list[dict[str, Any]]) -> datetime | None:
    async with database.write() as connection:
        await connection.execute(Delivery.__table__.insert(), rows)
    async with database.read() as connection:
        found: datetime | None = await connection.scalar(OLDEST)
    return found


async def test_oldest_is_found_behind_the_long_lines_of_others(database: Database) -> None:
    rows = [_row(number, f"ep_{number % 3}", urgency=Urgency.RETRY) for number in range(1, 2_000)]
    rows += [_row(number, "ep_4") for number in range(2_000, 2_500)]
    # of the endpoint and urgency that the relays reach last
    rows += [
        _row(2_500, "ep_5", urgency=Urgency.JOB, updated_at=NOW - HOUR),
        _row(2_501, "ep_5", urgency=Urgency.JOB),
        # has been started
        _row(2_502, "ep_6", updated_at=NOW - 2 * HOUR, started_at=NOW),
    ]
    assert await _oldest(database, rows) == NOW - HOUR


async def test_each_urgency_of_an_endpoint_has_an_oldest(database: Database) -> None:
    waiting = [
        _row(number, "ep_1", urgency=urgency, updated_at=NOW - number * HOUR)
        for number, urgency in enumerate((Urgency.PERSON, Urgency.FIRST, Urgency.JOB), 1)
    ]
    assert await _oldest(database, waiting) == NOW - 3 * HOUR


async def test_oldest_skips_the_other_deliveries_of_an_endpoint(database: Database) -> None:
    await _oldest(database, [_row(number, f"ep_{number % 20}") for number in range(5_000)])
    async with database.write() as connection:
        await connection.execute(text("ANALYZE deliveries"))
    async with database.read() as connection:
        plan = await explain(connection, OLDEST)
    assert STEPS[database.kind] in plan
    assert not re.search(r"Seq Scan|SCAN deliveries$|\bSort\b|TEMP B-TREE", plan, re.MULTILINE), (
        plan
    )
