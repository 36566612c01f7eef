"""The newest failures: grouped by endpoint and cause, the latest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from hookfast.storage.database.engine import Database
from hookfast.storage.figures import newest_failures
from hookfast.storage.figures.newest_failures import FailureGroup
from hookfast.storage.tables import Delivery
from tests.support.rows import delivery_row
from tests.support.seed import seed_endpoint

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
DOWN, GONE = "The server answered 503 Service Unavailable.", "The server answered 410 Gone."


async def fail(database: Database, endpoint_id: str, *, ago: timedelta, **columns: Any) -> str:
    """Insert a delivery, created three days before it failed, and return its id."""
    at = NOW - ago
    ended = columns.get("status", "dead") in ("dead", "gone", "delivered")
    failed = {
        "status": "dead",
        "reason": "retries_exhausted" if ended else None,
        "last_error": DOWN,
        "attempts": 3,
        "updated_at": at,
        "finished_at": at if ended else None,
    }
    row = delivery_row(at - 72 * HOUR, endpoint_id=endpoint_id, **(failed | columns))
    async with database.write() as connection:
        await connection.execute(insert(Delivery.__table__), row)
    return str(row["id"])


async def read(database: Database, tenant_id: str | None = None, **more: Any) -> list[FailureGroup]:
    given = {"since": NOW - HOUR, "outages": [], "limit": 10} | more
    async with database.read() as connection:
        return await newest_failures.read(connection, tenant_id=tenant_id, **given)


async def test_newest_failures_are_grouped_by_endpoint_and_cause(database: Database) -> None:
    shop = await seed_endpoint(database, "https://shop.example", description="Shop")
    other = await seed_endpoint(database, "https://other.example")
    await fail(database, shop, ago=9 * MINUTE)
    latest = await fail(database, shop, ago=2 * MINUTE)
    gone = await fail(database, shop, ago=5 * MINUTE, status="gone", reason="gone", last_error=GONE)
    failing = await fail(database, shop, ago=3 * MINUTE, status="retrying")
    held = await fail(database, other, ago=MINUTE, status="held", reason="circuit_open")
    elsewhere = await fail(database, "ep_of_another", ago=4 * MINUTE, tenant_id="tnt_2")
    # no failures of the last hour: too old, delivered, not tried yet
    await fail(database, shop, ago=2 * HOUR, last_error="old")
    await fail(database, shop, ago=MINUTE, status="delivered")
    await fail(database, shop, ago=MINUTE, status="held", attempts=0, last_error=None)
    found = await read(database, outages=[other, shop])
    assert not any(each.has_more for each in found)
    assert [(each.delivery_id, each.count, each.endpoint_name) for each in found] == [
        (held, 1, "https://other.example"),
        (latest, 2, "Shop"),
        (failing, 1, "Shop"),
        (elsewhere, 1, "ep_of_another"),
        (gone, 1, "Shop"),
    ]
    assert [each.at for each in found[:2]] == [NOW - MINUTE, NOW - 2 * MINUTE]
    its_own = await read(database, "tnt_1")
    assert [each.delivery_id for each in its_own] == [latest, failing, gone]
    assert await read(database, "tnt_of_nobody") == []
    assert [each.delivery_id for each in await read(database, limit=1)] == [latest]


async def test_groups_of_which_only_a_part_was_read_say_so(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest_failures, "MAX_READ", 3)
    monkeypatch.setattr(newest_failures, "MAX_HELD", 2)
    for place in range(4):
        await fail(database, "ep_1", ago=place * MINUTE)
        await fail(database, "ep_2", ago=place * MINUTE, status="held")
    await fail(database, "ep_3", ago=9 * MINUTE, status="retrying")
    groups = {each.endpoint_id: each for each in await read(database, outages=["ep_1", "ep_2"])}
    assert (groups["ep_1"].count, groups["ep_1"].has_more) == (3, True)
    assert (groups["ep_2"].count, groups["ep_2"].has_more) == (2, True)
    assert (groups["ep_3"].count, groups["ep_3"].has_more) == (1, False)
