"""Deliveries created through the API, and changed to the state that a test needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
from sqlalchemy import insert, update

from api.context.context import Context
from hookfast.deliveries.job import JobStatus
from hookfast.storage.deliveries import jobs
from hookfast.storage.tables import Delivery, EndpointHealth
from tests.support.api_client import Json
from tests.support.figures import count_rows

TYPE = "order.invoice.paid"


async def emit(client: httpx2.AsyncClient, tenant_id: str, event_type: str = TYPE) -> Json:
    """Emit an event and return its only delivery."""
    event = {"type": event_type, "data": 1, "tenant_id": tenant_id}
    answer = await client.post("/events", json=event)
    assert answer.status_code == 202, answer.text
    answer = await client.get(f"/events/{answer.json()['id']}/deliveries")
    [delivery] = answer.json()["data"]
    return dict(delivery)


async def listed(client: httpx2.AsyncClient, **filters: Any) -> list[str]:
    """Return the ids of a page of deliveries, newest first."""
    answer = await client.get("/deliveries", params=filters)
    assert answer.status_code == 200, answer.text
    return [delivery["id"] for delivery in answer.json()["data"]]


async def change(context: Context, delivery_id: str, **values: Any) -> None:
    """Update columns of a delivery's row, as a worker does."""
    table = Delivery.__table__
    async with context.database.write() as connection:
        await connection.execute(update(table).where(table.c.id == delivery_id).values(values))
    await count_rows(context.database)


async def hold(context: Context, delivery_id: str, endpoint_id: str, *, circuit: str) -> None:
    """Hold a delivery since an hour ago, for an endpoint whose circuit has this state now and was
    open when the delivery last checked."""
    now = context.clock()
    check_at = now + timedelta(hours=5, minutes=1)
    await change(
        context,
        delivery_id,
        status="held",
        reason="circuit_open",
        waiting_since=now - timedelta(hours=1),
        recheck_at=check_at,
        next_attempt_at=check_at,
    )
    health = {"endpoint_id": endpoint_id, "consecutive_failures": 5, "circuit": circuit}
    async with context.database.write() as connection:
        await connection.execute(insert(EndpointHealth).values(health))


async def emit_as(
    client: httpx2.AsyncClient, context: Context, tenant_id: str, status: str, **values: Any
) -> Json:
    """Emit an event, set the status of its only delivery, and return the delivery."""
    delivery = await emit(client, tenant_id)
    await change(context, delivery["id"], status=status, **values)
    return delivery | {"status": status}


async def finish(context: Context, job: Json) -> None:
    """End a job as its worker does, so that another job may select its deliveries."""
    async with context.database.write() as connection:
        ended = await jobs.finish(connection, job["id"], status=JobStatus.DONE, now=context.clock())
    assert ended is not None
