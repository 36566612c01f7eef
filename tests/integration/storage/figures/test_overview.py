"""What the overview shows of now: what waits, and the endpoints that need attention."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.health import Health
from hookfast.storage.database.engine import Database
from hookfast.storage.figures import endpoint_summaries, overview
from hookfast.storage.tables import Delivery, EndpointHealth
from tests.support.rows import delivery_row
from tests.support.seed import seed_endpoint

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def deliver(database: Database, endpoint_id: str, **columns: Any) -> None:
    made = columns.pop("created_at", NOW)
    row = delivery_row(made, endpoint_id=endpoint_id, **({"finished_at": made} | columns))
    async with database.write() as connection:
        await connection.execute(insert(Delivery.__table__), row)


async def test_oldest_held_delivery_of_a_tenant_or_of_all(database: Database) -> None:
    for tenant_id, held_for in (("tnt_1", 2), ("tnt_1", 3), ("tnt_2", 5)):
        since = NOW - held_for * HOUR
        await deliver(database, "ep_1", status="held", waiting_since=since, tenant_id=tenant_id)
    async with database.read() as connection:
        found = [
            await overview.oldest_held(connection, tenant_id=tenant_id)
            for tenant_id in (None, "tnt_1", "tnt_nobody")
        ]
    assert found == [NOW - 5 * HOUR, NOW - 3 * HOUR, None]


async def test_endpoints_that_need_attention(database: Database) -> None:
    fine = await seed_endpoint(database, "https://fine.example")
    broken = await seed_endpoint(database, "https://broken.example")
    paused = await seed_endpoint(database, "https://paused.example", state="paused")
    shaky = await seed_endpoint(database, "https://shaky.example")
    gone = await seed_endpoint(database, "https://gone.example", deleted_at=NOW)
    failures = {"consecutive_failures": 9, "first_failure_at": NOW, "last_error": "Error 500."}
    async with database.write() as connection:
        for endpoint_id, circuit, more in (
            (shaky, "closed", {}),
            (broken, "open", {"opened_at": NOW + HOUR, "next_probe_at": NOW + 2 * HOUR}),
            (paused, "open", {"opened_at": NOW, "next_probe_at": NOW + 2 * HOUR}),
            (gone, "open", {"opened_at": NOW}),
        ):
            row = {"endpoint_id": endpoint_id, "circuit": circuit} | failures | more
            await connection.execute(insert(EndpointHealth.__table__), row)
    async with database.read() as connection:
        found = await overview.attention_items(connection, tenant_id=None, limit=10)
        fewer = await overview.attention_items(connection, tenant_id=None, limit=2)
        of_nobody = await overview.attention_items(connection, tenant_id="tnt_nobody", limit=10)
        summaries = await endpoint_summaries.read(connection, [fine, broken])
    assert [(each.endpoint_id, each.health, each.since) for each in found[:2]] == [
        (broken, Health.CIRCUIT_OPEN, NOW + HOUR),
        (shaky, Health.FAILING, NOW),
    ]
    assert [(each.endpoint_id, each.health) for each in found[2:]] == [(paused, Health.PAUSED)]
    assert [each.next_probe_at for each in found] == [NOW + 2 * HOUR, None, None]
    assert fewer == found[:2]
    assert of_nobody == []
    assert summaries[fine] == endpoint_summaries.EndpointSummary(newest=[])
    assert summaries[broken].last_error == "Error 500."


async def test_endpoint_summary_has_the_newest_deliveries_in_order(
    database: Database,
) -> None:
    for place in range(endpoint_summaries.MAX_NEWEST + 5):
        at = NOW + timedelta(seconds=place)
        await deliver(database, "ep_1", created_at=at, status="dead" if place < 6 else "delivered")
    async with database.read() as connection:
        summary = (await endpoint_summaries.read(connection, ["ep_1"]))["ep_1"]
    assert len(summary.newest) == endpoint_summaries.MAX_NEWEST
    assert summary.newest[:2] == [DeliveryStatus.DEAD, DeliveryStatus.DELIVERED]
