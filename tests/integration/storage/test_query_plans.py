"""Lists stay fast at any size: each is one ordered range of one index. The planners say so here."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Select, text

from hookfast.outcome import DeliveryStatus
from hookfast.storage import deliveries, events
from hookfast.storage.deliveries import DeliveryFilter
from hookfast.storage.engine import Database
from hookfast.storage.events import EventFilter
from hookfast.storage.fan_out import matching

pytestmark = pytest.mark.anyio

ROWS = 60_000
MOST_READ = 3_000
DEAD = DeliveryStatus.DEAD
DELIVERED = DeliveryStatus.DELIVERED
EVENT, SUB, ENDPOINT = "evt_100007", "sub_7", "ep_7"
TENANT, SMALL_TENANT = "tnt_0", "tnt_44"
COMMON, RARE = "order.invoice.paid", "order.t7.paid"
MOMENT = datetime(2026, 11, 20, tzinfo=UTC)

# One tenant and one event type have most of the rows, as in life: it is where a wrong index hurts.
# Each event has three deliveries; one delivery in 50 is dead.
_FILL = """
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})
INSERT INTO {table} ({columns}) SELECT {values} FROM numbers
"""
_TENANT = "'tnt_' || CASE WHEN n % 10 < 8 THEN 0 ELSE n % 199 END"
_TYPE = "CASE WHEN n % 7 < 5 THEN 'order.invoice.paid' ELSE 'order.t' || (n % 83) || '.paid' END"
_TABLES = {
    "events": {
        "id": "'evt_' || (100000 + n)",
        "type": _TYPE,
        "tenant_id": f"CASE WHEN n % 10 = 3 THEN NULL ELSE {_TENANT} END",
        "body": "{body}",
        "traceparent": "'00'",
        "deliveries": "3",
        "created_at": "'2026-11-20T00:00:00.000000Z'",
    },
    "deliveries": {
        "id": "'dlv_' || (100000 + n)",
        "event_id": "'evt_' || (100000 + n / 3)",
        "subscription_id": "'sub_' || (n % 997)",
        "endpoint_id": "'ep_' || (n % 499)",
        "tenant_id": _TENANT,
        "event_type": _TYPE,
        "payload": "'full'",
        "status": "CASE WHEN n % 50 = 0 THEN 'dead' ELSE 'delivered' END",
        "attempts": "1",
        "retries": "0",
        "reopened": "0",
        "created_at": "'2026-11-20T00:00:00.000000Z'",
        "updated_at": "'2026-11-20T00:00:00.000000Z'",
        "started_at": "'2026-11-20T00:00:00.000000Z'",
    },
    "endpoints": {
        "id": "'ep_' || n",
        "tenant_id": _TENANT,
        "url": "'https://example.com'",
        "description": "''",
        **dict.fromkeys(["owner_emails", "signatures", "secrets", "allowed_networks"], "'[]'"),
        **dict.fromkeys(["retry_plan", "headers", "circuit", "meta"], "'[]'"),
        "signature_hash": "'sha256'",
        "timeout_seconds": "5",
        "verification": "'none'",
        "state": "'enabled'",
        "created_at": "'2026-11-20T00:00:00.000000Z'",
        "updated_at": "'2026-11-20T00:00:00.000000Z'",
    },
    "subscriptions": {
        "id": "'sub_' || n",
        "endpoint_id": "'ep_' || n",
        "tenant_id": _TENANT,
        "events": "'[]'",
        "payload": "'full'",
        "active": "{true}",
        "created_at": "'2026-11-20T00:00:00.000000Z'",
        "updated_at": "'2026-11-20T00:00:00.000000Z'",
    },
    "subscription_patterns": {
        "pattern": _TYPE,
        "tenant_id": _TENANT,
        "subscription_id": "'sub_' || n",
    },
}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a database with 60,000 rows in each table, and the statistics a real one has:
    SQLite none, PostgreSQL those of autovacuum."""
    if request.param == "sqlite":
        path: Path = tmp_path_factory.mktemp("filled") / "hookfast.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        url = f"sqlite+aiosqlite:///{path}"
    else:
        server = request.getfixturevalue("postgresql_server")
        asyncio.run(_create_filled(server))
        url = server.replace("/postgres?", "/filled?").replace("://", "+asyncpg://", 1)
    asyncio.run(_fill(url))
    return url


async def _create_filled(server: str) -> None:
    connection = await asyncpg.connect(server)
    try:
        await connection.execute("CREATE DATABASE filled TEMPLATE template")
    finally:
        await connection.close()


async def _fill(url: str) -> None:
    async with Database(url) as database:
        on_sqlite = database.kind == "sqlite"
        words = {
            "{body}": "x'7b7d'" if on_sqlite else "'\\x7b7d'::bytea",
            "{true}": "1" if on_sqlite else "true",
        }
        async with database.write() as connection:
            for table, columns in _TABLES.items():
                values = ", ".join(columns.values())
                for word, meaning in words.items():
                    values = values.replace(word, meaning)
                if not on_sqlite:
                    values = values.replace("Z'", "Z'::timestamptz").replace("'[]'", "'[]'::json")
                statement = _FILL.format(
                    last=ROWS - 1, table=table, columns=", ".join(columns), values=values
                )
                await connection.exec_driver_sql(statement)
            if not on_sqlite:
                await connection.execute(text("ANALYZE"))


DELIVERY_LISTS = [
    # the filter, and the index whose range SQLite walks
    (DeliveryFilter(), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(status=DELIVERED), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(since=MOMENT, until=MOMENT), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(status=DEAD), "ix_deliveries_undelivered"),
    (DeliveryFilter(status=DEAD, until=MOMENT), "ix_deliveries_undelivered"),
    (DeliveryFilter(event_id=EVENT), "ix_deliveries_event"),
    (DeliveryFilter(event_id=EVENT, tenant_id=TENANT), "ix_deliveries_event"),
    (DeliveryFilter(event_id=EVENT, tenant_id=TENANT, status=DEAD), "ix_deliveries_event"),
    (DeliveryFilter(subscription_id=SUB), "ix_deliveries_subscription"),
    (DeliveryFilter(subscription_id=SUB, tenant_id=TENANT), "ix_deliveries_subscription"),
    (DeliveryFilter(subscription_id=SUB, status=DELIVERED), "ix_deliveries_subscription"),
    (DeliveryFilter(subscription_id=SUB, status=DEAD), "ix_deliveries_endpoint_undelivered"),
    (
        DeliveryFilter(subscription_id=SUB, tenant_id=TENANT, status=DEAD),
        "ix_deliveries_endpoint_undelivered",
    ),
    (
        DeliveryFilter(subscription_id=SUB, endpoint_id=ENDPOINT, status=DEAD),
        "ix_deliveries_endpoint_undelivered",
    ),
    (DeliveryFilter(endpoint_id=ENDPOINT), "ix_deliveries_endpoint"),
    (DeliveryFilter(endpoint_id=ENDPOINT, tenant_id=TENANT), "ix_deliveries_endpoint"),
    (DeliveryFilter(endpoint_id=ENDPOINT, event_type=COMMON), "ix_deliveries_endpoint"),
    (DeliveryFilter(endpoint_id=ENDPOINT, status=DELIVERED), "ix_deliveries_endpoint"),
    (DeliveryFilter(endpoint_id=ENDPOINT, status=DEAD), "ix_deliveries_endpoint_undelivered"),
    (
        DeliveryFilter(endpoint_id=ENDPOINT, tenant_id=TENANT, status=DEAD, since=MOMENT),
        "ix_deliveries_endpoint_undelivered",
    ),
    (DeliveryFilter(tenant_id=TENANT), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=SMALL_TENANT), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=TENANT, since=MOMENT, until=MOMENT), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=TENANT, status=DELIVERED), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=TENANT, event_type=COMMON), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=SMALL_TENANT, event_type=COMMON), "ix_deliveries_tenant"),
    (DeliveryFilter(tenant_id=TENANT, status=DEAD), "ix_deliveries_tenant_undelivered"),
    (DeliveryFilter(tenant_id=SMALL_TENANT, status=DEAD), "ix_deliveries_tenant_undelivered"),
    (
        DeliveryFilter(tenant_id=TENANT, event_type=RARE, status=DEAD),
        "ix_deliveries_tenant_undelivered",
    ),
    (DeliveryFilter(event_type=COMMON), "ix_deliveries_type"),
    (DeliveryFilter(event_type=RARE), "ix_deliveries_type"),
    (DeliveryFilter(event_type=COMMON, status=DEAD), "ix_deliveries_undelivered"),
]

EVENT_LISTS = [
    (EventFilter(), "sqlite_autoindex_events_1"),
    (EventFilter(since=MOMENT), "sqlite_autoindex_events_1"),
    (EventFilter(type=COMMON), "ix_events_type"),
    (EventFilter(type=RARE, since=MOMENT), "ix_events_type"),
    (EventFilter(tenant_id=TENANT), "ix_events_tenant"),
    (EventFilter(tenant_id=SMALL_TENANT, until=MOMENT), "ix_events_tenant"),
    (EventFilter(tenant_id=TENANT, type=COMMON), "ix_events_tenant"),
    (EventFilter(tenant_id=TENANT, broadcasts=True), "ix_events_tenant"),
    (EventFilter(tenant_id=SMALL_TENANT, type=COMMON, broadcasts=True), "ix_events_tenant"),
]


@pytest.mark.parametrize("after", [None, "dlv_150000"])
@pytest.mark.parametrize(("chosen", "index"), DELIVERY_LISTS)
async def test_a_page_of_deliveries_is_one_range_of_an_index(
    filled: str, chosen: DeliveryFilter, index: str, after: str | None
) -> None:
    statement = deliveries.page_statement(chosen, after=after, limit=51)
    await check(filled, statement, index=index)


@pytest.mark.parametrize("after", [None, "evt_150000"])
@pytest.mark.parametrize(("chosen", "index"), EVENT_LISTS)
async def test_a_page_of_events_is_one_range_of_an_index(
    filled: str, chosen: EventFilter, index: str, after: str | None
) -> None:
    statement = events.page_statement(chosen, after=after, limit=51)
    # a tenant's own events and everyone's are a range each: two pages, merged by sorting them
    await check(filled, statement, index=index, may_sort=chosen.broadcasts)


@pytest.mark.parametrize("tenants", [[SMALL_TENANT], [SMALL_TENANT, "tnt_55"]])
async def test_subscribers_are_found_by_their_patterns(filled: str, tenants: list[str]) -> None:
    statement, parameters = matching(RARE, tenants)
    statement = statement.params(**parameters)
    await check(filled, statement, index="sqlite_autoindex_subscription_patterns_1")


async def check(url: str, statement: Select[Any], *, index: str, may_sort: bool = False) -> None:
    """SQLite walks `index` and sorts nothing. PostgreSQL, which may choose among several good ways
    because it has statistics, reads few of the rows."""
    async with Database(url) as database, database.read() as connection:
        compiled = statement.compile(
            dialect=connection.dialect, compile_kwargs={"literal_binds": True}
        )
        if database.kind == "sqlite":
            rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}")
            steps = [row[-1] for row in rows]
            assert any(index in step.split() for step in steps), steps
            assert may_sort or not any("TEMP B-TREE" in step for step in steps), steps
        else:
            rows = await connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {compiled}")
            plan = rows.scalar_one()[0]["Plan"]
            assert "Seq Scan" not in str(plan), plan
            assert rows_read(plan) <= MOST_READ, plan


def rows_read(node: dict[str, Any]) -> float:
    """How many rows the scans below `node` really read, those they threw away included."""
    read = 0.0
    if "Scan" in node["Node Type"]:
        removed = node.get("Rows Removed by Filter", 0)
        read = (node["Actual Rows"] + removed) * node["Actual Loops"]
    return read + sum(rows_read(child) for child in node.get("Plans", []))
