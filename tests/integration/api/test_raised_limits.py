"""Deliveries that wait for an endpoint's limits are woken when these are raised."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from sqlalchemy import update

from api.context.context import Context
from hookfast.storage.tables import Delivery
from tests.support.api_client import Json, Make, MakeEventType

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"


@pytest.fixture
async def endpoint(make_event_type: MakeEventType, make_tenant: Make, make_endpoint: Make) -> Json:
    """An endpoint with limits that is subscribed to all events."""
    await make_event_type(TYPE)
    tenant_id = (await make_tenant())["id"]
    return await make_endpoint(
        tenant_id=tenant_id, events=["**"], rate_limit_per_second=1, max_in_flight=2
    )


async def waiting(client: httpx2.AsyncClient, context: Context, endpoint: Json, count: int) -> str:
    """Create `count` deliveries that wait for the endpoint's limits, and return the last id."""
    for _ in range(count):
        event = {"type": TYPE, "data": 1, "tenant_id": endpoint["tenant_id"]}
        assert (await client.post("/events", json=event)).status_code == 202
    c = Delivery.__table__.c
    async with context.database.write() as connection:
        await connection.execute(
            update(Delivery.__table__)
            .where(c.endpoint_id == endpoint["id"])
            .values(reason="endpoint_limit", started_at=context.clock())
        )
    found = await client.get("/deliveries", params={"endpoint_id": endpoint["id"]})
    return str(found.json()["data"][0]["id"])


async def patch(client: httpx2.AsyncClient, endpoint: Json, **limits: Any) -> list[Json]:
    """Change the endpoint's limits, and return its jobs, newest first."""
    answer = await client.patch(f"/endpoints/{endpoint['id']}", json=limits)
    assert answer.status_code == 200, answer.text
    jobs = (await client.get("/jobs")).json()["data"]
    return [job for job in jobs if job["filter"].get("endpoint_id") == endpoint["id"]]


@pytest.mark.parametrize(
    ("limits", "rate"),
    [
        ({"rate_limit_per_second": 5}, 5),
        ({"rate_limit_per_second": None}, 50),  # the default rate of jobs
        ({"rate_limit_per_second": 1_000}, 50),
        ({"max_in_flight": 3}, 1),  # the rate limit is unchanged
        ({"max_in_flight": None, "rate_limit_per_second": 0.01}, 0.1),  # the slowest job
    ],
)
async def test_raised_limit_wakes_waiting_deliveries_at_the_new_rate(
    client: httpx2.AsyncClient, context: Context, endpoint: Json, limits: Json, rate: float
) -> None:
    await waiting(client, context, endpoint, 3)
    [job] = await patch(client, endpoint, **limits)
    assert (job["kind"], job["action"], job["total"]) == ("limits", "ask_again", 3)
    assert job["rate_per_second"] == rate
    assert job["filter"]["reason"] == "endpoint_limit"


@pytest.mark.parametrize("status", ["retrying", "paused"])
async def test_raised_limit_also_wakes_waiting_resends(
    client: httpx2.AsyncClient, context: Context, endpoint: Json, status: str
) -> None:
    """The delivery waits for something else, or not at all."""
    delivery, now = await waiting(client, context, endpoint, 3), context.clock()
    c = Delivery.__table__.c
    async with context.database.write() as connection:
        await connection.execute(update(Delivery.__table__).values(status=status, reason=None))
        await connection.execute(
            update(Delivery.__table__)
            .where(c.id == delivery)
            .values(resend_asked_at=now, resend_not_before=now)
        )
    [job] = await patch(client, endpoint, rate_limit_per_second=5)
    assert (job["action"], job["total"]) == ("ask_again", 1)


@pytest.mark.parametrize(
    "change",
    [
        {"rate_limit_per_second": 0.5},
        {"rate_limit_per_second": 1, "max_in_flight": 2},
        {"description": "The same limits."},
    ],
)
async def test_limit_that_is_not_raised_creates_no_job(
    client: httpx2.AsyncClient, context: Context, endpoint: Json, change: Json
) -> None:
    await waiting(client, context, endpoint, 1)
    assert await patch(client, endpoint, **change) == []


async def test_raised_limit_without_waiting_deliveries_creates_no_job(
    client: httpx2.AsyncClient, endpoint: Json
) -> None:
    assert await patch(client, endpoint, rate_limit_per_second=5) == []


async def test_limits_job_cannot_be_created_through_the_api(
    client: httpx2.AsyncClient,
) -> None:
    body = {"action": "ask_again", "all": True}
    assert (await client.post("/deliveries/actions", json=body)).status_code == 422
