"""Creates a tenant's endpoints and deliveries through the API, for pages to show."""

from __future__ import annotations

import httpx2
from sqlalchemy import update

from api.context.context import Context
from hookfast.storage.tables import Delivery
from tests.support.api_client import endpoint_maker, event_type_maker
from tests.support.figures import count_rows

EVENT_TYPE = "order.invoice.paid"


async def new_tenant(client: httpx2.AsyncClient, name: str = "Acme") -> str:
    created = await client.post("/tenants", json={"name": name})
    tenant_id: str = created.json()["id"]
    return tenant_id


async def new_endpoint(client: httpx2.AsyncClient, tenant_id: str, **members: object) -> str:
    created = await endpoint_maker(client)(tenant_id=tenant_id, events=["order.**"], **members)
    endpoint_id: str = created["id"]
    return endpoint_id


async def emit(client: httpx2.AsyncClient, tenant_id: str) -> str:
    """Emit an event, and return the id of its delivery."""
    await event_type_maker(client)(EVENT_TYPE)
    event = await client.post(
        "/events", json={"tenant_id": tenant_id, "type": EVENT_TYPE, "data": {"amount": 42}}
    )
    found = await client.get("/deliveries", params={"event_id": event.json()["id"]})
    delivery_id: str = found.json()["data"][0]["id"]
    return delivery_id


async def end(
    context: Context, *delivery_ids: str, status: str = "dead", **columns: object
) -> None:
    now = context.clock()
    ended = {"status": status, "finished_at": now, "started_at": now, "next_attempt_at": None}
    rows = Delivery.__table__
    async with context.database.write() as connection:
        await connection.execute(
            update(rows)
            .where(rows.c.id.in_(delivery_ids))
            .values(ended | {"attempts": 1} | columns)
        )
    await count_rows(context.database)
