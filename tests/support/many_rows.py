"""A database with 30,000 rows in each growing table, and values that many or few of them have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from hookfast.deliveries.answer import AnswerFilter
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.storage.database.engine import Database

ROWS = 30_000
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
DELIVERY_PAGES = (None, "dlv_115000")

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
    "dashboard_sessions": {
        "token_sha256": "'token_' || n",
        "key_id": "'key_0'",
        "scope": "'tenant'",
        "tenant_id": _TENANT,
        "begun_with": "CASE WHEN n % 10 < 8 THEN 'link_0' ELSE 'link_' || n END",
        "created_at": "'2026-11-20T00:00:00.000000Z'",
        "expires_at": "'2999-11-20T00:00:00.000000Z'",
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


async def fill(url: str) -> None:
    """Fill a migrated database. Its statistics are those of a real one: none on SQLite, those of
    autovacuum on PostgreSQL."""
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
