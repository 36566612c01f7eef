"""Query plans: lists stay fast at any size, because each reads one ordered range of an index."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.answer import AnswerFilter
from hookfast.deliveries.figures import time_of_minute
from hookfast.deliveries.messages import Urgency
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.endpoints.health import Health
from hookfast.ids import Prefix
from hookfast.storage.circuits import circuits
from hookfast.storage.counting import reading
from hookfast.storage.counting.reading import Scope as Counted
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import (
    dead_letters,
    deliveries,
    life_rows,
    outbox,
    selection,
    sent_tests,
)
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.deliveries.sent_tests import SentTestFilter
from hookfast.storage.endpoints import endpoints
from hookfast.storage.events import event_types, events, lanes, recent
from hookfast.storage.events.events import EventFilter
from hookfast.storage.events.fan_out import matching
from hookfast.storage.feed import attempt_feed, feed
from hookfast.storage.feed.attempt_feed import SCAN_MOST
from hookfast.storage.feed.cursor import AttemptCursor
from hookfast.storage.figures import (
    endpoint_counts,
    endpoint_summaries,
    newest_failures,
    overview,
    reconciliation,
    tenant_health,
)
from hookfast.storage.search import ids, keys, names
from hookfast.storage.search.hit import SCANNED, Scope
from hookfast.storage.tables import Attempt, Delivery
from tests.support.query_plan import explain, sent_by
from tests.support.seed import claim

pytestmark = pytest.mark.anyio

ROWS = 30_000
MOST_READ = 1_500
DEAD = DeliveryStatus.DEAD
DELIVERED = DeliveryStatus.DELIVERED
EVENT, SUB, ENDPOINT = "evt_100007", "sub_7", "ep_7"
TENANT, SMALL_TENANT = "tnt_0", "tnt_44"
COMMON, RARE = "order.invoice.paid", "order.t7.paid"
MOMENT = datetime(2026, 11, 20, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
FAILED, TIMED_OUT = AnswerFilter(lowest=500, highest=599), AnswerFilter(Result.TIMEOUT)
SUCCEEDED = AnswerFilter(lowest=200, highest=200)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FUTURE = datetime(3000, 1, 1, tzinfo=UTC)
"""After the times in all ids of the rows."""

# One tenant and one event type have most of the rows, as in practice: there, a wrong index is slow.
# Each event has three deliveries; one delivery in 50 is dead.
_FILL = """
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})
INSERT INTO {table} ({columns}) SELECT {values} FROM numbers
"""
_TENANT = "'tnt_' || CASE WHEN n % 10 < 8 THEN 0 ELSE n % 199 END"
_TYPE = "CASE WHEN n % 7 < 5 THEN 'order.invoice.paid' ELSE 'order.t' || (n % 83) || '.paid' END"
_TABLES = {
    "events": {
        "position": "n",
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
        "last_result": "CASE WHEN n % 100 = 0 THEN 'status' WHEN n % 5000 IN (7, 50) "
        "THEN 'timeout' ELSE 'success' END",
        "last_status_code": "CASE WHEN n % 100 = 0 THEN 503 WHEN n % 5000 IN (7, 50) "
        "THEN NULL ELSE 200 END",
        "retries": "0",
        "created_at": "'2026-11-20T00:00:00.000000Z'",
        "updated_at": "'2026-11-20T00:00:00.000000Z'",
        "started_at": "'2026-11-20T00:00:00.000000Z'",
        # two lanes with long lines
        "lane": "CASE WHEN n % 10 = 0 THEN 'sub_7/' || (n % 20) END",
        "lane_position": "n",
        "place": "CASE WHEN n % 10 = 0 THEN 'queued' END",
    },
    "lanes": {
        "id": "'sub_7/' || n",
        "head": "CASE WHEN n % 3 = 0 THEN 'dlv_' || (100000 + n) END",
        "needs_head": "CASE WHEN n % 1000 = 1 THEN {true} ELSE {false} END",
        "last_position": "n",
        "updated_at": "'2026-11-20T00:00:00.000000Z'",
    },
    "endpoints": {
        "id": "'ep_' || n",
        "tenant_id": _TENANT,
        "url": "'https://example.com'",
        "description": "''",
        **dict.fromkeys(["owner_emails", "signatures", "secrets", "allowed_networks"], "'[]'"),
        **dict.fromkeys(["retry_plan", "headers", "credentials", "circuit", "meta"], "'[]'"),
        "signature_hash": "'sha256'",
        "timeout_seconds": "5",
        "verification": "'none'",
        "state": "CASE WHEN n % 211 = 1 THEN 'paused' WHEN n % 307 = 2 THEN 'disabled' "
        "ELSE 'enabled' END",
        "created_at": "'2026-11-20T00:00:00.000000Z'",
        "updated_at": "'2026-11-20T00:00:00.000000Z'",
    },
    # few endpoints are not healthy
    "endpoint_health": {
        "endpoint_id": "'ep_' || n",
        "consecutive_failures": "CASE WHEN n % 1200 IN (4, 7) THEN 3 ELSE 0 END",
        "first_failure_at": "CASE WHEN n % 1200 IN (4, 7) THEN '2026-11-20T00:00:00.000000Z' END",
        "circuit": "CASE n % 2400 WHEN 4 THEN 'open' WHEN 8 THEN 'draining' ELSE 'closed' END",
    },
    # few deliveries are late, and nothing is left to add up
    "gauge_totals": {
        "scope": "'tnt_' || n",
        "kind": "CASE WHEN n % 3 = 0 THEN 'dead:gone' WHEN n % 3 = 1 THEN 'retrying' "
        "ELSE 'pending' END",
        "number": "CASE WHEN n % 30 = 1 THEN n ELSE 0 END",
    },
    "tenants": {
        "id": "'tnt_' || n",
        "name": "'Acme'",
        "meta": "'[]'",
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
    "event_types": {
        "name": "'order.t' || n",
        "description": "''",
        "created_at": "'2026-11-20T00:00:00.000000Z'",
        "updated_at": "'2026-11-20T00:00:00.000000Z'",
    },
    "subscription_patterns": {
        "pattern": _TYPE,
        "tenant_id": _TENANT,
        "subscription_id": "'sub_' || n",
    },
    "idempotency_keys": {
        "scope": _TENANT,
        "key": "'key-' || n",
        "event_id": "'evt_' || (100000 + n)",
        "sha256": "''",
        "created_at": "'2026-11-20T00:00:00.000000Z'",
    },
    "inbox_keys": {
        "source_id": "'src_' || (n % 499)",
        "key": "'d:id:' || n",
        "inbox_id": "'inb_' || (100000 + n)",
        "payload_sha256": "''",
        "seen_at": "'2026-11-20T00:00:00.000000Z'",
        "expires_at": "'2026-11-20T00:00:00.000000Z'",
    },
    "attempts": {
        "id": "'att_' || (100000 + n)",
        "delivery_id": "'dlv_' || (100000 + n / 2)",
        "endpoint_id": "'ep_' || (n / 2 % 499)",
        "number": "1 + n % 2",
        "trigger": "'first'",
        "started_at": "'2026-11-20T00:00:00.000000Z'",
        "duration_ms": "12.5",
        "result": "'success'",
        "status_code": "200",
        "position": "n / 5",
    },
    "sent_tests": {
        "id": "'dlv_' || (100000 + n)",
        "tenant_id": _TENANT,
        "endpoint_id": "'ep_' || (n % 499)",
        "event_type": _TYPE,
        "payload": "'full'",
        "url": "'https://example.com'",
        "started_at": "'2026-11-20T00:00:00.000000Z'",
        "duration_ms": "12.5",
        "result": "CASE WHEN n % 10 = 0 THEN 'status' ELSE 'success' END",
        "status_code": "CASE WHEN n % 10 = 0 THEN 503 ELSE 200 END",
        "request_body": "'{}'",
    },
    # a minute, or an hour of an event type, is in one scope each
    "figures": {
        "scope": "CASE n % 4 WHEN 0 THEN 'all' WHEN 1 THEN 'all/types' WHEN 2 THEN 'tnt_0' "
        "ELSE 'ep_' || (n % 499) END",
        "at": "CASE n % 4 WHEN 1 THEN n - n % 60 ELSE n END",
        "event_type": "CASE n % 4 WHEN 1 THEN 'order.t' || n || '.paid' ELSE '' END",
        "kind": "'delivery:delivered'",
        "bucket": "-1",
        "number": "1",
    },
}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a database with 30,000 rows in each table, and the statistics of a real database:
    none on SQLite, those of autovacuum on PostgreSQL."""
    if request.param == "sqlite":
        path: Path = tmp_path_factory.mktemp("filled") / "hookfast.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        borrowed = nullcontext(f"sqlite+aiosqlite:///{path}")
    else:
        borrowed = request.getfixturevalue("postgresql_server").borrowed()
    with borrowed as url:
        asyncio.run(_fill(url))
        yield url


@pytest.fixture
async def connection(filled: str) -> AsyncIterator[AsyncConnection]:
    async with Database(filled) as database, database.read() as connection:
        yield connection


async def _fill(url: str) -> None:
    async with Database(url) as database:
        on_sqlite = database.kind == "sqlite"
        replacements = {
            "{body}": "x'7b7d'" if on_sqlite else "'\\x7b7d'::bytea",
            "{true}": "1" if on_sqlite else "true",
            "{false}": "0" if on_sqlite else "false",
        }
        async with database.write() as connection:
            for table, columns in _TABLES.items():
                values = ", ".join(columns.values())
                for placeholder, value in replacements.items():
                    values = values.replace(placeholder, value)
                if not on_sqlite:
                    values = values.replace("Z'", "Z'::timestamptz").replace("'[]'", "'[]'::json")
                statement = _FILL.format(
                    last=ROWS - 1, table=table, columns=", ".join(columns), values=values
                )
                await connection.exec_driver_sql(statement)
            if not on_sqlite:
                await connection.execute(text("ANALYZE"))


DELIVERY_LISTS = [
    # the filter, and the index whose range SQLite reads
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
    # by the last answer: one range per status if it is a failure
    (DeliveryFilter(answer=FAILED), "ix_deliveries_delivered_failing"),
    (DeliveryFilter(answer=TIMED_OUT, event_type=COMMON), "ix_deliveries_delivered_failing"),
    (DeliveryFilter(answer=FAILED, since=MOMENT), "ix_deliveries_undelivered"),
    (DeliveryFilter(answer=FAILED, tenant_id=TENANT), "ix_deliveries_tenant_undelivered"),
    (DeliveryFilter(answer=FAILED, endpoint_id=ENDPOINT), "ix_deliveries_endpoint_undelivered"),
    (DeliveryFilter(answer=FAILED, subscription_id=SUB), "ix_deliveries_endpoint_undelivered"),
    (DeliveryFilter(answer=FAILED, status=DEAD), "ix_deliveries_undelivered"),
    (DeliveryFilter(answer=FAILED, status=DELIVERED), "ix_deliveries_delivered_failing"),
    (
        DeliveryFilter(answer=TIMED_OUT, status=DELIVERED, tenant_id=TENANT),
        "ix_deliveries_delivered_failing",
    ),
    (DeliveryFilter(answer=FAILED, event_id=EVENT), "ix_deliveries_event"),
    (DeliveryFilter(answer=FAILED, event_id=EVENT, status=DELIVERED), "ix_deliveries_event"),
    (DeliveryFilter(answer=SUCCEEDED), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(answer=SUCCEEDED, tenant_id=TENANT), "ix_deliveries_tenant"),
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


UNFINISHED = tuple(status for status in DeliveryStatus if not status.finished)
FINISHED = tuple(status for status in DeliveryStatus if status.finished)
IDS = tuple(f"dlv_{100000 + n * 50}" for n in range(500))

SELECTIONS = [
    # the deliveries that a job acts on, and the index whose range SQLite reads
    (DeliverySelection(), "sqlite_autoindex_deliveries_1"),
    (DeliverySelection(up_to="dlv_129000", since=MOMENT), "sqlite_autoindex_deliveries_1"),
    (DeliverySelection(statuses=(DELIVERED,)), "sqlite_autoindex_deliveries_1"),
    (DeliverySelection(statuses=(DEAD,)), "ix_deliveries_undelivered"),
    (DeliverySelection(statuses=dead_letters.DEAD), "ix_deliveries_undelivered"),
    (DeliverySelection(statuses=UNFINISHED), "ix_deliveries_undelivered"),
    (DeliverySelection(statuses=dead_letters.DEAD, event_type=RARE), "ix_deliveries_undelivered"),
    (
        DeliverySelection(statuses=dead_letters.DEAD, tenant_id=TENANT, up_to="dlv_129000"),
        "ix_deliveries_tenant_undelivered",
    ),
    (
        DeliverySelection(statuses=UNFINISHED, tenant_id=SMALL_TENANT),
        "ix_deliveries_tenant_undelivered",
    ),
    (
        DeliverySelection(
            statuses=dead_letters.DEAD,
            endpoint_id=ENDPOINT,
            tenant_id=TENANT,
            finished_since=MOMENT,
            finished_until=MOMENT,
        ),
        "ix_deliveries_endpoint_undelivered",
    ),
    (
        DeliverySelection(statuses=dead_letters.DEAD, subscription_id=SUB),
        "ix_deliveries_endpoint_undelivered",
    ),
    (DeliverySelection(endpoint_id=ENDPOINT, tenant_id=TENANT), "ix_deliveries_endpoint"),
    (
        DeliverySelection(endpoint_id=ENDPOINT, statuses=FINISHED, since=MOMENT, until=MOMENT),
        "ix_deliveries_endpoint",
    ),
    (DeliverySelection(subscription_id=SUB, statuses=FINISHED), "ix_deliveries_subscription"),
    (DeliverySelection(event_id=EVENT, tenant_id=TENANT), "ix_deliveries_event"),
    (DeliverySelection(event_id=EVENT, statuses=FINISHED), "ix_deliveries_event"),
    (DeliverySelection(event_id=EVENT, statuses=dead_letters.DEAD), "ix_deliveries_event"),
    (
        DeliverySelection(ids=IDS, tenant_id=TENANT, statuses=(DEAD,)),
        "sqlite_autoindex_deliveries_1",
    ),
    (DeliverySelection(answer="5xx"), "ix_deliveries_delivered_failing"),
    (DeliverySelection(answer="timeout", tenant_id=TENANT), "ix_deliveries_tenant_undelivered"),
    (DeliverySelection(answer="5xx", statuses=UNFINISHED), "ix_deliveries_undelivered"),
    (DeliverySelection(answer="5xx", ids=IDS), "sqlite_autoindex_deliveries_1"),
    (DeliverySelection(answer="200", endpoint_id=ENDPOINT), "ix_deliveries_endpoint"),
    (
        # except what two other jobs have still to process
        DeliverySelection(
            statuses=dead_letters.DEAD,
            tenant_id=TENANT,
            without=(
                DeliverySelection(statuses=dead_letters.DEAD, reason="gone", after="dlv_125000"),
                DeliverySelection(ids=IDS),
            ),
        ),
        "ix_deliveries_tenant_undelivered",
    ),
]

DEAD_LETTER_LISTS = [
    (DeliveryFilter(), "ix_deliveries_undelivered"),
    (DeliveryFilter(since=MOMENT, until=MOMENT), "ix_deliveries_undelivered"),
    (DeliveryFilter(event_type=COMMON), "ix_deliveries_undelivered"),
    (DeliveryFilter(reason="retries_exhausted"), "ix_deliveries_undelivered"),
    (DeliveryFilter(answer=FAILED), "ix_deliveries_undelivered"),
    (DeliveryFilter(answer=TIMED_OUT, endpoint_id=ENDPOINT), "ix_deliveries_endpoint_undelivered"),
    (DeliveryFilter(tenant_id=TENANT), "ix_deliveries_tenant_undelivered"),
    (DeliveryFilter(tenant_id=SMALL_TENANT, event_type=RARE), "ix_deliveries_tenant_undelivered"),
    (DeliveryFilter(endpoint_id=ENDPOINT), "ix_deliveries_endpoint_undelivered"),
    (
        DeliveryFilter(endpoint_id=ENDPOINT, tenant_id=TENANT, reason="gone"),
        "ix_deliveries_endpoint_undelivered",
    ),
]


ENDPOINT_LISTS: list[tuple[dict[str, Any], str]] = [
    ({}, "sqlite_autoindex_endpoints_1"),
    ({"tenant_id": TENANT}, "ix_endpoints_tenant"),
    ({"health": Health.HEALTHY}, "sqlite_autoindex_endpoints_1"),
    ({"health": Health.HEALTHY, "tenant_id": TENANT}, "ix_endpoints_tenant"),
    # all that are not healthy are few: of those, one health only filters
    ({"health": Health.FAILING}, "ix_endpoint_health_unhealthy"),
    ({"health": Health.CIRCUIT_OPEN}, "ix_endpoint_health_unhealthy"),
    ({"health": Health.DRAINING}, "ix_endpoint_health_unhealthy"),
    ({"health": Health.CIRCUIT_OPEN, "tenant_id": SMALL_TENANT}, "ix_endpoints_tenant"),
    ({"health": Health.PAUSED}, "ix_endpoints_stopped"),
    ({"health": Health.DISABLED}, "ix_endpoints_stopped"),
    ({"health": Health.DISABLED, "tenant_id": SMALL_TENANT}, "ix_endpoints_tenant"),
    ({"state": "disabled"}, "ix_endpoints_stopped"),
    ({"state": "enabled"}, "sqlite_autoindex_endpoints_1"),
]

ENDPOINT_PAGES = (None, "ep_21000")
DELIVERY_PAGES = (None, "dlv_115000")
EVENT_PAGES = (None, "evt_115000")


async def test_a_page_of_deliveries_is_one_range_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(DELIVERY_LISTS, DELIVERY_PAGES):
        query = deliveries.list_page(connection, chosen, after=after, limit=51)
        # several statuses are one range each, whose pages are merged by sorting
        await check(connection, query, index=index, may_sort=chosen.merges_statuses)


async def test_a_page_of_events_is_one_range_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(EVENT_LISTS, EVENT_PAGES):
        query = events.list_page(connection, chosen, after=after, limit=51)
        # a tenant's own events and broadcasts are one range each: two pages, merged by sorting
        await check(connection, query, index=index, may_sort=chosen.broadcasts)
    chosen = EventFilter(tenant_id=TENANT, broadcasts=True)
    tried = events.page_statement(chosen, after=None, limit=recent.SCANNED)
    await check(connection, tried, index="ix_events_tenant", may_sort=True)


async def test_a_jobs_next_deliveries_are_ranges_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(SELECTIONS, DELIVERY_PAGES):
        query = selection.next_ids(connection, chosen, after=after, limit=50)
        # several statuses are one range each, whose few rows are merged by sorting
        await check(connection, query, index=index, may_sort=len(chosen.ranges()) > 1)


async def test_a_page_of_dead_letters_is_two_ranges_of_an_index(
    connection: AsyncConnection,
) -> None:
    for (chosen, index), after in product(DEAD_LETTER_LISTS, DELIVERY_PAGES):
        query = dead_letters.list_page(connection, chosen, after=after, limit=51)
        # the pages of the two statuses are merged by sorting
        await check(connection, query, index=index, may_sort=True)
    for chosen, index in DEAD_LETTER_LISTS:
        await check(connection, dead_letters.count_statement(chosen, limit=500), index=index)


ATTEMPT_LISTS = [
    # the filter of the attempts, and the index that SQLite reads their deliveries by
    (DeliveryFilter(), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(status=DEAD, event_type=RARE), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(tenant_id=TENANT, answer=FAILED), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(endpoint_id=ENDPOINT, since=MOMENT), "sqlite_autoindex_deliveries_1"),
    (DeliveryFilter(subscription_id=SUB, until=MOMENT), "sqlite_autoindex_deliveries_1"),
]


TEST_LISTS = [
    # the filter of the tests, and the index whose range SQLite reads
    (SentTestFilter(), "sqlite_autoindex_sent_tests_1"),
    (SentTestFilter(event_type=COMMON, succeeded=True), "sqlite_autoindex_sent_tests_1"),
    (SentTestFilter(since=MOMENT, until=MOMENT), "sqlite_autoindex_sent_tests_1"),
    (SentTestFilter(tenant_id=TENANT), "ix_sent_tests_tenant"),
    (SentTestFilter(tenant_id=SMALL_TENANT, answer=FAILED), "ix_sent_tests_tenant"),
    (SentTestFilter(tenant_id=TENANT, event_type=COMMON, succeeded=False), "ix_sent_tests_tenant"),
    (SentTestFilter(endpoint_id=ENDPOINT), "ix_sent_tests_endpoint"),
    (
        SentTestFilter(endpoint_id=ENDPOINT, tenant_id=TENANT, event_type=RARE),
        "ix_sent_tests_endpoint",
    ),
]


async def test_a_page_of_tests_is_one_range_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(TEST_LISTS, DELIVERY_PAGES):
        query = sent_tests.list_page(connection, chosen, after=after, limit=51)
        await check(connection, query, index=index)
    for column, value in (("endpoint_id", ENDPOINT), ("tenant_id", SMALL_TENANT)):
        trimming = sent_tests.beyond_newest(column, value, most=40)
        await check(connection, trimming, index=f"ix_sent_tests_{column.removesuffix('_id')}")


async def test_a_page_of_attempts_scans_one_range_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(ATTEMPT_LISTS, (None, "att_115000")):
        end = attempt_feed.scan_end(chosen, after=after)
        await check(connection, end, index="sqlite_autoindex_attempts_1", most=SCAN_MOST)
        last = "att_128000" if after is None else "att_113000"
        statement = attempt_feed.page_statement(chosen, after=after, last=last, limit=51)
        for name in ("sqlite_autoindex_attempts_1", index):
            # SQLite sorts those that match
            await check(connection, statement, index=name, may_sort=True, most=3 * SCAN_MOST)
    of_event = DeliveryFilter(event_id=EVENT, tenant_id=TENANT)
    statement = attempt_feed.page_statement(of_event, after=None, last=None, limit=51)
    for index in ("ix_deliveries_event", "ix_attempts_delivery"):
        await check(connection, statement, index=index, may_sort=True)


async def test_a_page_of_a_tail_scans_one_range_of_an_index(connection: AsyncConnection) -> None:
    for chosen, index in ATTEMPT_LISTS:
        for after in (AttemptCursor(3000, EPOCH), AttemptCursor(3000, EPOCH, "att_115003")):
            edge = None if connection.dialect.name == "sqlite" else 6000
            end = attempt_feed.tail_end(after, edge=edge)
            await check(connection, end, index="ix_attempts_position", most=SCAN_MOST)
            last = AttemptCursor(3400, EPOCH, "att_117001")
            statement = attempt_feed.tail_statement(
                chosen, after=after, last=last, edge=edge, limit=51
            )
            for name in ("ix_attempts_position", index):
                await check(connection, statement, index=name, may_sort=True, most=3 * SCAN_MOST)


async def test_dead_letters_are_counted_from_totals_and_three_hours_of_rows(
    connection: AsyncConnection,
) -> None:
    for owners in ({}, {"tenant_id": TENANT}, {"endpoint_id": ENDPOINT}):
        query = dead_letters.stats(connection, **owners, now=MOMENT)
        plan = await explain(connection, query)
        assert plan.count("ix_deliveries_dead_finished") == 3, plan
        assert not re.search(r"Seq Scan on deliveries|SCAN deliveries", plan), plan
        table = "gauges" if "endpoint_id" in owners else "gauge_totals"
        read = re.findall(rf"(?:Scan on|Scan using \S+ on|SCAN|SEARCH) {table}\b", plan)
        assert len(read) == 4, plan  # one for each group
        if table == "gauge_totals":
            assert not re.search(rf"Seq Scan on {table}|SCAN {table}|\bgauges\b", plan), plan


async def test_a_page_of_endpoints_is_one_range_of_an_index(connection: AsyncConnection) -> None:
    for (chosen, index), after in product(ENDPOINT_LISTS, ENDPOINT_PAGES):
        given = {"tenant_id": None, "state": None, "health": None} | chosen
        query = endpoints.list_page(connection, **given, after=after, limit=51)
        await check(connection, query, index=index)


async def test_subscribers_are_found_by_their_patterns(connection: AsyncConnection) -> None:
    for tenants in ([SMALL_TENANT], [SMALL_TENANT, "tnt_55"]):
        statement, parameters = matching(RARE, tenants)
        statement = statement.params(**parameters)
        await check(connection, statement, index="sqlite_autoindex_subscription_patterns_1")
    # 127 patterns, which SQLite probes one by one
    statement, parameters = matching("order.line_item.created.v2.a.b", [SMALL_TENANT])
    assert len(parameters["patterns"]) == 127
    statement = statement.params(**parameters)
    await check(connection, statement, index="sqlite_autoindex_subscription_patterns_1")


async def test_names_of_event_types_are_one_range_of_an_index(connection: AsyncConnection) -> None:
    for after in (None, "order.t21"):
        query = event_types.list_names(connection, after=after, limit=1_000)
        await check(connection, query, index="sqlite_autoindex_event_types_1")


async def test_rows_of_a_chart_are_a_part_of_a_range_of_an_index(
    connection: AsyncConnection,
) -> None:
    for chosen, index in DELIVERY_LISTS:
        if not chosen.merges_statuses:  # then it reads a range per status
            chosen = replace(chosen, since=EPOCH, until=FUTURE)
            statement = deliveries.range_statement(chosen, limit=500)
            await check(connection, statement, index=index)


async def test_figures_are_ranges_of_the_primary_key(connection: AsyncConnection) -> None:
    for scope in (Counted(), Counted(TENANT), Counted(endpoint_id=ENDPOINT)):
        await check(connection, reading.oldest(connection, scope), index="PRIMARY", most=1)
        edges = [time_of_minute(minute) for minute in (6_000, 6_600, 7_200)]
        steps = reading.steps(connection, scope, edges)
        await check(connection, steps, index="PRIMARY", may_sort=True)
        of_type = reading.steps_by_type(connection, scope, edges, only=[RARE])
        await check(connection, of_type, index="PRIMARY", may_sort=True)


async def test_newest_deliveries_of_endpoints_are_ranges_of_an_index(
    connection: AsyncConnection,
) -> None:
    statement = endpoint_summaries.newest_statement([f"ep_{n}" for n in range(20)])
    # the few rows are merged by sorting
    await check(connection, statement, index="ix_deliveries_endpoint", may_sort=True)


async def test_newest_failures_are_ranges_of_indexes(
    connection: AsyncConnection,
) -> None:
    for tenant_id, found_by in (
        (None, ("dead_finished", "undelivered", "endpoint_undelivered")),
        (TENANT, ("tenant_undelivered", "tenant_undelivered", "endpoint_undelivered")),
    ):
        query = newest_failures.read(
            connection, tenant_id=tenant_id, since=EPOCH, outages=[ENDPOINT, "ep_8"], limit=5
        )
        indexes = [f"ix_deliveries_{name}" for name in found_by]
        # dead letters of a tenant are the pages of two statuses, merged by sorting
        await check(connection, query, index=indexes, may_sort=tenant_id is not None)


async def test_figures_of_the_overview_read_ranges_of_indexes(
    connection: AsyncConnection,
) -> None:
    for tenant_id, index in (
        (None, "ix_deliveries_undelivered"),
        (TENANT, "ix_deliveries_tenant_undelivered"),
    ):
        held = overview.oldest_held(connection, tenant_id=tenant_id)
        await check(connection, held, index=index)
    for statement, index in (
        (endpoint_counts.of_tenant(SMALL_TENANT), "ix_endpoints_tenant"),
        (endpoint_counts.UNHEALTHY_ENDPOINTS, "ix_endpoint_health_unhealthy"),
        (endpoint_counts.STOPPED_ENDPOINTS, "ix_endpoints_stopped"),
    ):
        # the few groups are sorted
        await check(connection, statement, index=index, may_sort=True)


async def test_comparison_of_gauges_reads_the_deliveries_that_they_count(
    connection: AsyncConnection,
) -> None:
    ids = {"ids": [f"ep_{number}" for number in range(40)]}
    waiting = connection.execute(reconciliation.WAITING_ROWS, ids)
    await check(connection, waiting, index="ix_deliveries_endpoint_undelivered")
    dead = connection.execute(reconciliation.DEAD_ROWS[connection.dialect.name], ids)
    # sorted by event type, reason and hour
    await check(connection, dead, index="ix_deliveries_endpoint_undelivered", may_sort=True)
    tenants = connection.execute(reconciliation.TENANTS, ids)
    await check(connection, tenants, index="sqlite_autoindex_endpoints_1")
    following = connection.execute(reconciliation.NEXT_ENDPOINTS, {"after": "ep_1"})
    await check(connection, following, index="sqlite_autoindex_endpoints_1", may_sort=True)


async def test_comparison_of_an_hour_counts_a_range_of_ids(connection: AsyncConnection) -> None:
    for prefix, table in (("att", Attempt), ("dlv", Delivery)):
        query = reconciliation.rows_of_hour(prefix, table.__table__.c.id, MOMENT)
        await check(connection, query, index=f"sqlite_autoindex_{table.__tablename__}_1")


async def test_tenants_that_need_attention_are_found_without_reading_the_others(
    connection: AsyncConnection,
) -> None:
    statements = (
        (tenant_health.LATE, ["ix_gauge_totals_late"]),
        (
            tenant_health.UNHEALTHY,
            [
                "ix_endpoint_health_unhealthy",
                "sqlite_autoindex_endpoints_1",
                "ix_endpoints_stopped",
            ],
        ),
        (tenant_health.DEAD, ["ix_deliveries_dead_finished", "sqlite_autoindex_tenants_1"]),
        (
            tenant_health.unhealthy_of([TENANT, SMALL_TENANT]),
            ["ix_endpoint_health_unhealthy", "ix_endpoints_stopped"],
        ),
        (
            reading.GAUGES_OF_TENANTS.params(owners=[SMALL_TENANT, "tnt_55"]),
            ["PRIMARY"],
        ),
    )
    for statement, indexes in statements:
        for index in indexes:
            # the tenants found are sorted
            await check(connection, statement, index=index, may_sort=True)


async def test_deliveries_of_a_page_of_events_are_found_by_event(
    connection: AsyncConnection,
) -> None:
    """Not by the endpoint, which may have millions."""
    event_ids = [f"evt_{100_000 + n}" for n in range(500)]
    conditions = feed.deliveries_to(ENDPOINT, event_ids)
    statement = select(Delivery.__table__.c.event_id).where(*conditions)
    await check(connection, statement, index="ix_deliveries_event")


NAMES = [
    # the texts and the scope of a search, and the index whose range SQLite reads
    (["shop"], Scope(), "sqlite_autoindex_endpoints_1"),
    (["shop"], Scope(tenant_id=TENANT), "ix_endpoints_tenant"),
    (["a", "b"], Scope(tenant_id=SMALL_TENANT), "ix_endpoints_tenant"),
]
SHORTENED: list[tuple[Prefix, Scope, list[str]]] = [
    # the prefix of a shortened id, and the index of each of its tables
    ("dlv", Scope(), ["sqlite_autoindex_deliveries_1", "sqlite_autoindex_sent_tests_1"]),
    (
        "dlv",
        Scope(endpoint_id=ENDPOINT),
        ["ix_deliveries_endpoint", "ix_sent_tests_endpoint"],
    ),
    ("evt", Scope(tenant_id=TENANT), ["ix_events_tenant"]),
    ("ep", Scope(tenant_id=TENANT), ["ix_endpoints_tenant"]),
]


async def test_search_reads_a_bounded_number_of_rows(connection: AsyncConnection) -> None:
    # the subquery counts a second time; of a partitioned table, a scan reads some more
    for texts, scope, index in NAMES:
        named = names.find(connection, "endpoint", texts, scope=scope, limit=10)
        await check(connection, named, index=index, may_sort=True, most=3 * SCANNED)
    for prefix, scope, indexes in SHORTENED:
        ending = ids.find_shortened(connection, prefix, "0007", scope=scope)
        await check(connection, ending, index=indexes, may_sort=True, most=3 * ids.NEWEST)
    emitted = keys.event_keys_statement([f"tnt_{n}" for n in range(SCANNED)], ["key-7", '"key-7"'])
    await check(connection, emitted, index="sqlite_autoindex_idempotency_keys_1", most=30)
    received = keys.inbox_keys_statement([f"src_{n}" for n in range(499)], ["7", "8"])
    await check(connection, received, index="sqlite_autoindex_inbox_keys_1", most=30)


async def _claim(connection: AsyncConnection) -> None:
    await claim(connection, limit=50, lease=MINUTE, now=MOMENT)


async def _claim_few(connection: AsyncConnection) -> None:
    await claim(connection, limit=9, lease=MINUTE, now=MOMENT, most_urgent=Urgency.FIRST)


async def _find_lost(connection: AsyncConnection) -> None:
    await outbox.wake_lost(connection, overdue_since=MOMENT, limit=50)


async def _find_unreleased(connection: AsyncConnection) -> None:
    await circuits.unreleased_ids(connection, ENDPOINT, limit=50)


async def _count_held(connection: AsyncConnection) -> None:
    await circuits.count_held(connection, ENDPOINT)


async def _lock(connection: AsyncConnection) -> None:
    await life_rows.lock(connection, [f"dlv_{100_000 + n}" for n in range(500)])


async def _find_under_way(connection: AsyncConnection) -> None:
    ids = [f"dlv_{100_000 + n}" for n in range(100)]
    await selection.resends_under_way(connection, ids, patience=MINUTE, now=MOMENT)


LANES = [f"sub_7/{n}" for n in range(100)]


async def _find_next_of_lanes(connection: AsyncConnection) -> None:
    assert set(await lanes.first_queued(connection, LANES)) == {"sub_7/0", "sub_7/10"}


async def _find_lanes_that_need_a_head(connection: AsyncConnection) -> None:
    await lanes.needing_head(connection, limit=500)


async def _inspect_lanes(connection: AsyncConnection) -> None:
    await lanes.inspect(connection, unused_since=MOMENT, after="sub_7/2", limit=500)


async def _count_queued(connection: AsyncConnection) -> None:
    assert await lanes.count_queued(connection, "sub_7/10", most=100) == 100


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (_find_next_of_lanes, "ix_deliveries_queued"),
        (_find_lanes_that_need_a_head, "ix_lanes_needs_head"),
        (_inspect_lanes, "sqlite_autoindex_lanes_1"),
        (_count_queued, "ix_deliveries_queued"),
        (_claim, "ix_deliveries_outbox"),
        (_claim_few, "ix_deliveries_outbox"),
        (_find_lost, "ix_deliveries_due"),
        (_find_unreleased, "ix_deliveries_endpoint_undelivered"),
        (_count_held, "ix_deliveries_endpoint_undelivered"),
        (_lock, "sqlite_autoindex_deliveries_1"),
        (_find_under_way, "sqlite_autoindex_deliveries_1"),
    ],
)
async def test_frequent_queries_of_workers_read_ranges_of_an_index(
    filled: str, query: Callable[[AsyncConnection], Awaitable[None]], index: str
) -> None:
    """Some of them also write."""
    async with Database(filled) as database, database.write() as connection:
        await check(connection, query(connection), index=index)
        await connection.rollback()


async def check(
    connection: AsyncConnection,
    query: Select[Any] | Awaitable[object],
    *,
    index: str | list[str],
    may_sort: bool = False,
    most: int = MOST_READ,
) -> None:
    """Assert that SQLite reads `index` and does not sort, and that PostgreSQL, which has statistics
    and may choose among several good plans, reads few rows. A query is explained as it was sent,
    with parameters; a list has the index of each of its statements."""
    if isinstance(query, Select):
        literal = {"literal_binds": True}
        compiled = query.compile(dialect=connection.dialect, compile_kwargs=literal)
        sent: list[tuple[str, Any]] = [(str(compiled), None)]
    else:
        sent = await sent_by(connection, query)
    assert sent
    indexes = [index] * len(sent) if isinstance(index, str) else index
    for (statement, parameters), name in zip(sent, indexes, strict=True):
        plan = await explained(connection, statement, parameters)
        assert_good(statement, plan, index=name, may_sort=may_sort, most=most)


Plan = list[str] | dict[str, Any]


async def explained(connection: AsyncConnection, statement: str, parameters: Any = None) -> Plan:
    """Return SQLite's plan as a list of steps, or PostgreSQL's plan as it was executed."""
    if connection.dialect.name == "sqlite":
        rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        return [row[-1] for row in rows]
    rows = await connection.exec_driver_sql(
        f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters
    )
    plan: dict[str, Any] = rows.scalar_one()[0]["Plan"]
    return plan


def assert_good(
    statement: str, plan: Plan, *, index: str, may_sort: bool = False, most: int = MOST_READ
) -> None:
    """Assert what `check` documents about a statement's plan."""
    shown = f"{statement}\n{plan}"
    if isinstance(plan, list):
        assert any(index in step.split() for step in plan), shown
        assert may_sort or not any("TEMP B-TREE" in step for step in plan), shown
    else:
        # empty partitions of future days are scanned sequentially, which is best
        assert not sequentially_read(plan), shown
        assert rows_read(plan) <= most, shown


def sequentially_read(node: dict[str, Any]) -> bool:
    """Return whether a sequential scan at or below `node` reads rows."""
    scans = node["Node Type"] == "Seq Scan" and rows_read(node) > 0
    return scans or any(sequentially_read(child) for child in node.get("Plans", []))


def rows_read(node: dict[str, Any]) -> float:
    """Return how many rows the scans at or below `node` read, including the filtered ones."""
    read = 0.0
    if "Scan" in node["Node Type"]:
        removed = node.get("Rows Removed by Filter", 0)
        read = float((node["Actual Rows"] + removed) * node["Actual Loops"])
    return read + sum(rows_read(child) for child in node.get("Plans", []))
