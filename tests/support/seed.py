"""Rows that tests start from: a tenant with endpoints and subscriptions, and their events."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import utc_now
from hookfast.deliveries.messages import PlanSpec
from hookfast.deliveries.retry_plan import DEFAULT_PLAN, parse_plan
from hookfast.events.envelope import full_body
from hookfast.ids import new_id
from hookfast.signing.keyring import Keyring
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import outbox
from hookfast.storage.deliveries.fair_claim import FairClaim
from hookfast.storage.deliveries.outbox import PendingDelivery
from hookfast.storage.tables import (
    Attempt,
    Delivery,
    Endpoint,
    Event,
    Subscription,
    Tenant,
)
from hookfast.telemetry.traceparent import new as new_traceparent

KEY = bytes(range(32))
KEYRING = Keyring([KEY])
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVENT_TYPE = "order.invoice.paid"


async def seed_endpoint(
    database: Database,
    url: str,
    *,
    plan: PlanSpec = DEFAULT_PLAN,
    timeout: float | None = None,
    signatures: tuple[str, ...] = ("hook", "standard"),
    payload: str = "full",
    **columns: Any,
) -> str:
    """Store a tenant with an endpoint that is subscribed to everything; return the endpoint's id.
    `columns` are other columns of the endpoint's row."""
    now = utc_now()
    tenant_id, endpoint_id = new_id("tnt"), new_id("ep")
    async with database.write() as connection:
        await connection.execute(
            insert(Tenant.__table__),
            {"id": tenant_id, "name": "Acme", "meta": {}, "created_at": now, "updated_at": now},
        )
        await connection.execute(
            insert(Endpoint.__table__),
            {
                "id": endpoint_id,
                "tenant_id": tenant_id,
                "url": url,
                "description": "",
                "owner_emails": [],
                "signatures": list(signatures),
                "signature_hash": "sha256",
                "secrets": [
                    {
                        "sealed": KEYRING.seal(SECRET, context=endpoint_id),
                        "created_at": now.isoformat(),
                        "expires_at": None,
                    }
                ],
                "retry_plan": plan,
                "timeout_seconds": parse_plan(plan).timeout if timeout is None else timeout,
                "headers": {},
                "allowed_networks": [],
                "circuit": {},
                "verification": "none",
                "meta": {},
                "state": "enabled",
                "created_at": now,
                "updated_at": now,
            }
            | columns,
        )
        await connection.execute(
            insert(Subscription.__table__),
            {
                "id": new_id("sub"),
                "endpoint_id": endpoint_id,
                "tenant_id": tenant_id,
                "events": ["**"],
                "payload": payload,
                "active": True,
                "created_at": now,
                "updated_at": now,
            },
        )
    return endpoint_id


async def seed_delivery(database: Database, endpoint_id: str, **options: Any) -> str:
    """Store an event and its delivery to this endpoint, as if just emitted; return the delivery's
    id. The options are those of `seed_deliveries`."""
    [delivery_id] = await seed_deliveries(database, endpoint_id, **options)
    return delivery_id


async def seed_deliveries(
    database: Database,
    endpoint_id: str,
    count: int = 1,
    *,
    data: Any = None,
    deliver_at: datetime | None = None,
    **columns: Any,
) -> list[str]:
    """Store an event and so many deliveries of it to this endpoint, as if just emitted; return the
    deliveries' ids, oldest first. `columns` are other columns of the deliveries' rows."""
    now = utc_now()
    event_id = new_id("evt", now)
    # a millisecond apart, so that they sort in the order in which they are listed here
    ids = [new_id("dlv", now + timedelta(milliseconds=number)) for number in range(count)]
    async with database.write() as connection:
        subscription = (
            await connection.execute(
                select(Subscription.__table__).where(
                    Subscription.__table__.c.endpoint_id == endpoint_id
                )
            )
        ).one()
        await connection.execute(
            insert(Event.__table__),
            {
                "id": event_id,
                "type": EVENT_TYPE,
                "tenant_id": subscription.tenant_id,
                "body": full_body(
                    event_id=event_id,
                    event_type=EVENT_TYPE,
                    created_at=now,
                    tenant_id=subscription.tenant_id,
                    data=json.dumps(data),
                ),
                "traceparent": new_traceparent(),
                "deliveries": count,
                "created_at": now,
            },
        )
        delivery = {
            "event_id": event_id,
            "subscription_id": subscription.id,
            "endpoint_id": endpoint_id,
            "tenant_id": subscription.tenant_id,
            "event_type": EVENT_TYPE,
            "payload": subscription.payload,
            "status": "pending",
            "attempts": 0,
            "retries": 0,
            "next_attempt_at": deliver_at or now,
            "due_at": deliver_at or now,
            "deliver_at": deliver_at,
            "created_at": now,
            "updated_at": now,
        }
        await connection.execute(
            insert(Delivery.__table__), [delivery | columns | {"id": id} for id in ids]
        )
    return ids


async def delivery_row(database: Database, delivery_id: str) -> Any:
    """Return the delivery's row."""
    async with database.read() as connection:
        table = Delivery.__table__
        return (await connection.execute(select(table).where(table.c.id == delivery_id))).one()


async def attempt_rows(database: Database, delivery_id: str) -> list[Any]:
    """Return the rows of the delivery's attempts, in order."""
    async with database.read() as connection:
        table = Attempt.__table__
        rows = await connection.execute(
            select(table).where(table.c.delivery_id == delivery_id).order_by(table.c.number)
        )
        return list(rows)


async def claim(
    connection: AsyncConnection, *, limit: int, lease: timedelta, now: datetime, **urgencies: int
) -> list[PendingDelivery]:
    """Find free rows and lease them, as a relay with no deliveries in progress does."""
    free = await FairClaim().find(connection, limit=limit, now=now, **urgencies)
    await outbox.lease(connection, [row.delivery_id for row in free.rows], until=now + lease)
    return free.rows
