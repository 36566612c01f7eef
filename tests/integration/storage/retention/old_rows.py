"""Helpers that add old rows, to test which of them retention deletes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select

from hookfast.ids import new_id
from hookfast.storage.database import partitions
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import (
    Attempt,
    Delivery,
    Endpoint,
    Event,
    IdempotencyKey,
    Job,
    Notice,
    SentTest,
)

NOW = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
DAY = timedelta(days=1)
CUTOFF = datetime(2026, 10, 21, tzinfo=UTC)
"""Thirty days before NOW, by the start of the day."""
BEFORE = CUTOFF - timedelta(microseconds=1000)
AGES = {
    "attempts": 30 * DAY,
    "dead_letters": 30 * DAY,
    "deliveries": 30 * DAY,
    "idempotency_keys": 30 * DAY,
    "events": 30 * DAY,
    "inbox": 30 * DAY,
    "notices": 90 * DAY,
    "jobs": 90 * DAY,
    "audit": 365 * DAY,
    "figures": 400 * DAY,
}
ENDPOINT, TENANT = "ep_1", "tnt_1"


async def create_partitions(database: Database, first: datetime, *, days: int) -> int:
    """Create PostgreSQL's partitions of this many days, and return how many. (Each of the seven
    days ahead would take 0.1 s.)"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "DAYS_AHEAD", days - 1)
        return await partitions.create_ahead(database, now=first)


async def drop_partitions(database: Database) -> None:
    """Drop all partitions, except those for the days without one."""
    async with database.write() as connection:
        for table in partitions.PARTITIONED:
            for one in await partitions.list_partitions(connection, table):
                if one.until is not None:
                    await partitions.drop(connection, one)


async def add(database: Database, table: Any, **columns: Any) -> str:
    """Add a row, and return its id."""
    async with database.write() as connection:
        await connection.execute(insert(table.__table__), columns)
    return str(columns.get("id") or columns.get("event_id"))


async def add_endpoint(database: Database) -> None:
    await add(
        database,
        Endpoint,
        id=ENDPOINT,
        tenant_id=TENANT,
        url="https://shop.example/hooks",
        description="",
        owner_emails=[],
        signatures=[],
        secrets=[],
        allowed_networks=[],
        headers={},
        circuit={},
        meta={},
        retry_plan="hourly",
        signature_hash="sha256",
        timeout_seconds=5,
        verification="none",
        state="enabled",
        created_at=NOW,
        updated_at=NOW,
    )


async def add_event(database: Database, at: datetime, **columns: Any) -> str:
    row = {
        "id": new_id("evt", at),
        "type": "order.invoice.paid",
        "body": b"{}",
        "traceparent": "00",
        "deliveries": 1,
        "created_at": at,
    }
    return await add(database, Event, **row | columns)


async def add_delivery(
    database: Database,
    event_id: str,
    at: datetime,
    *,
    status: str = "delivered",
    ended: datetime | None = None,
) -> str:
    return await add(
        database,
        Delivery,
        id=new_id("dlv", at),
        event_id=event_id,
        subscription_id="sub_1",
        endpoint_id=ENDPOINT,
        tenant_id=TENANT,
        event_type="order.invoice.paid",
        payload="full",
        status=status,
        attempts=1,
        retries=0,
        created_at=at,
        updated_at=at,
        finished_at=ended,
        started_at=at,
    )


async def add_attempt(database: Database, delivery_id: str, at: datetime, **columns: Any) -> str:
    row = {
        "id": new_id("att", at),
        "delivery_id": delivery_id,
        "endpoint_id": ENDPOINT,
        "number": 1,
        "trigger": "first",
        "started_at": at,
        "duration_ms": 12.5,
        "result": "success",
    }
    return await add(database, Attempt, **row | columns)


async def add_key(database: Database, key: str, event_id: str, at: datetime) -> str:
    row = {"scope": "op", "key": key, "event_id": event_id, "sha256": "0", "created_at": at}
    return await add(database, IdempotencyKey, **row)


async def add_notice(database: Database, at: datetime, *, status: str = "sent") -> str:
    return await add(
        database,
        Notice,
        id=new_id("ntc", at),
        endpoint_id=ENDPOINT,
        tenant_id=TENANT,
        episode=at.toordinal(),
        kind="opened",
        email=f"{status}@shop.example",
        owner_hash="0",
        facts={},
        status=status,
        tries=0,
        created_at=at,
    )


async def add_job(database: Database, at: datetime, *, ended: datetime | None) -> str:
    return await add(
        database,
        Job,
        id=new_id("job", at),
        kind="deliveries",
        action="cancel",
        filter={},
        rate_per_second=1.0,
        status="running" if ended is None else "done",
        total=0,
        done=0,
        skipped=0,
        failed=0,
        cancel_requested=False,
        requested_by="key_1",
        created_at=at,
        updated_at=at,
        finished_at=ended,
    )


async def left(database: Database, table: Any, column: str = "id") -> set[str]:
    """Return the ids of the rows that are left."""
    async with database.read() as connection:
        rows = await connection.execute(select(table.__table__.c[column]))
        return set(rows.scalars())


async def number_of(database: Database, table: Any) -> int:
    async with database.read() as connection:
        count = await connection.execute(select(func.count()).select_from(table.__table__))
        return int(count.scalar_one())


async def add_test(database: Database, at: datetime) -> str:
    return await add(
        database,
        SentTest,
        id=new_id("dlv", at),
        tenant_id=TENANT,
        endpoint_id=ENDPOINT,
        event_type="order.invoice.paid",
        payload="full",
        url="https://shop.example/hooks",
        started_at=at,
        duration_ms=1.0,
        result="success",
        request_body="{}",
    )
