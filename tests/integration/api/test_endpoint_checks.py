"""Checks of an endpoint: test requests, another verification, and statistics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest
from sqlalchemy import insert, update

from api.context.context import Context
from api.limits.receiver_checks import ReceiverCheckLimit
from api.limits.token_bucket import TokenBuckets
from hookfast.clock import rfc3339, utc_now
from hookfast.ids import new_id
from hookfast.storage.figures import endpoint_stats, sample
from hookfast.storage.tables import Attempt, Delivery, Endpoint
from tests.support.api_client import Json, KeyClient, Make, MakeEventType, assert_problem
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"


@pytest.fixture
async def tenant_id(make_tenant: Make, make_event_type: MakeEventType) -> str:
    await make_event_type(TYPE)
    return str((await make_tenant())["id"])


@pytest.fixture
async def endpoint(make_endpoint: Make, receiver: Receiver, tenant_id: str) -> Json:
    """An endpoint with the path `/hook` and a custom header."""
    return await make_endpoint(
        tenant_id=tenant_id, url=receiver.url("/hook"), headers={"X-Token": "hush"}
    )


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest/", "http://metadata.google.internal/"]
)
async def test_test_request_is_blocked_like_deliveries(
    client: httpx2.AsyncClient, context: Context, endpoint: Json, url: str
) -> None:
    table = Endpoint.__table__  # written directly, because the API would reject it
    async with context.database.write() as connection:
        await connection.execute(update(table).where(table.c.id == endpoint["id"]).values(url=url))
    answer = await client.post(f"/endpoints/{endpoint['id']}/test", json={"type": TYPE})
    assert answer.json()["result"] == "address"
    refused = await client.post(f"/endpoints/{endpoint['id']}/verify")
    assert_problem(refused, 422, code="verification_failed", pointer="/url")


async def test_another_verification_covers_every_topic_and_changes_nothing(
    client: httpx2.AsyncClient, make_endpoint: Make, receiver: Receiver, tenant_id: str
) -> None:
    receiver.routes["/hook"] = "/challenge"
    endpoint = await make_endpoint(
        tenant_id=tenant_id,
        url=receiver.url("/hook"),
        verification="header",
        events=["a.b.c", "d.**"],
    )
    receiver.requests.clear()
    path = f"/endpoints/{endpoint['id']}"
    before = (await client.get(path)).json()
    answer = await client.post(f"{path}/verify")
    assert answer.json() == {
        "endpoint_id": endpoint["id"],
        "url": endpoint["url"],
        "verification": "header",
        "topics": ["a.b.c", "d.**"],
    }
    asked = [request.headers["x-hook-challenge"] for request in receiver.requests]
    assert asked == [f"{tenant_id}.a.b.c", f"{tenant_id}.d.**"]
    receiver.routes["/hook"] = "/status/404"
    refused = await client.post(f"{path}/verify")
    assert_problem(refused, 422, code="verification_failed", pointer="/url")
    assert (await client.get(path)).json() == before


# -- statistics


async def _store(
    context: Context, endpoint: Json, *attempts: tuple[str, int | None, float], **values: Any
) -> None:
    """Store a delivery with these attempts: result, status code, milliseconds."""
    now = utc_now() - timedelta(minutes=5)
    at = values.pop("at", now)
    delivery_id = new_id("dlv", at)
    row = Delivery(
        id=delivery_id,
        event_id=new_id("evt", at),
        subscription_id=new_id("sub", at),
        endpoint_id=endpoint["id"],
        tenant_id=endpoint["tenant_id"],
        event_type=TYPE,
        payload="full",
        created_at=at,
        updated_at=at,
        started_at=at,
        **values,
    )
    made = [
        Attempt(
            id=new_id("att", at),
            delivery_id=delivery_id,
            endpoint_id=endpoint["id"],
            number=number,
            trigger="plan",
            started_at=at,
            duration_ms=duration,
            result=result,
            status_code=status,
        ).model_dump()
        for number, (result, status, duration) in enumerate(attempts, 1)
    ]
    async with context.database.write() as connection:
        await connection.execute(insert(Delivery.__table__).values(row.model_dump()))
        if made:
            await connection.execute(insert(Attempt.__table__), made)


async def test_statistics_count_the_deliveries_of_a_window_and_their_attempts(
    client: httpx2.AsyncClient, context: Context, endpoint: Json, make_endpoint: Make
) -> None:
    ok = ("success", 200, 10.0)
    for _ in range(3):
        await _store(context, endpoint, ok, status="delivered")
    await _store(context, endpoint, ("status", 503, 40.0), ok, status="delivered")
    await _store(context, endpoint, ("timeout", None, 5000.0), status="dead")
    await _store(context, endpoint, status="pending")
    await _store(context, endpoint, ok, status="delivered", at=utc_now() - timedelta(days=2))
    other = await make_endpoint(tenant_id=endpoint["tenant_id"])
    await _store(context, other, ok, status="delivered")
    path = f"/endpoints/{endpoint['id']}/stats"
    stats = (await client.get(path)).json()
    assert stats["complete"] is True
    assert stats["deliveries"]["total"] == 6
    assert {name: n for name, n in stats["deliveries"]["by_status"].items() if n} == {
        "delivered": 4,
        "dead": 1,
        "pending": 1,
    }
    assert stats["success_rate"] == 4 / 5
    assert stats["attempts"]["total"] == 6
    assert {name: n for name, n in stats["attempts"]["by_result"].items() if n} == {
        "success": 4,
        "status": 1,
        "timeout": 1,
    }
    assert stats["latency_ms"] == {"p50": 10.0, "p95": 40.0, "p99": 40.0, "max": 40.0}
    since = rfc3339(utc_now() - timedelta(days=3))
    longer = (await client.get(path, params={"since": since})).json()
    assert (longer["deliveries"]["total"], longer["since"]) == (7, since)


async def test_an_endpoint_without_deliveries_has_no_rate_and_no_latency(
    client: httpx2.AsyncClient, endpoint: Json
) -> None:
    stats = (await client.get(f"/endpoints/{endpoint['id']}/stats")).json()
    assert (stats["success_rate"], stats["latency_ms"]) == (None, None)
    assert (stats["deliveries"]["total"], stats["attempts"]["total"]) == (0, 0)
    assert stats["complete"] is True


async def test_statistics_over_the_limit_count_the_newest_and_show_their_start(
    client: httpx2.AsyncClient,
    context: Context,
    endpoint: Json,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = utc_now()
    for minutes in (4, 3, 2, 1):
        at = now - timedelta(minutes=minutes)
        await _store(context, endpoint, ("success", 200, 1.0), status="delivered", at=at)
    path = f"/endpoints/{endpoint['id']}/stats"
    monkeypatch.setattr(endpoint_stats, "MAX_DELIVERIES", 2)
    stats = (await client.get(path)).json()
    assert (stats["complete"], stats["deliveries"]["total"]) == (False, 2)
    assert stats["since"] == rfc3339(now - timedelta(minutes=2))
    monkeypatch.setattr(endpoint_stats, "MAX_DELIVERIES", 100)
    monkeypatch.setattr(sample, "_IDS_AT_ONCE", 1)
    monkeypatch.setattr(endpoint_stats, "MAX_ATTEMPTS", 3)
    stats = (await client.get(path)).json()
    assert (stats["complete"], stats["attempts"]["total"]) == (False, 3)


async def test_statistics_window_that_ends_before_it_starts_is_rejected(
    client: httpx2.AsyncClient, endpoint: Json
) -> None:
    now = utc_now()
    params = {"since": rfc3339(now), "until": rfc3339(now - timedelta(seconds=1))}
    answer = await client.get(f"/endpoints/{endpoint['id']}/stats", params=params)
    assert_problem(answer, 422, code="invalid_input", pointer="since")


@pytest.mark.parametrize("until", ["0001-01-01T00:00:01Z", "9999-12-31T23:59:59Z"])
async def test_statistics_window_may_end_with_the_calendar(
    client: httpx2.AsyncClient, endpoint: Json, until: str
) -> None:
    answer = await client.get(f"/endpoints/{endpoint['id']}/stats", params={"until": until})
    assert answer.status_code == 200, answer.text
    assert answer.json()["since"] < answer.json()["until"]


async def test_read_key_sees_statistics_and_may_not_test_or_verify(
    endpoint: Json, key_client: KeyClient
) -> None:
    path = f"/endpoints/{endpoint['id']}"
    async with key_client(endpoint["tenant_id"], scope="tenant:read") as reading:
        assert (await reading.get(f"{path}/stats")).status_code == 200
        assert (await reading.post(f"{path}/test", json={"type": TYPE})).status_code == 403
        assert (await reading.post(f"{path}/verify")).status_code == 403


async def test_test_sends_and_verifications_of_a_tenant_share_a_limit(
    client: httpx2.AsyncClient,
    context: Context,
    receiver: Receiver,
    endpoint: Json,
    tenant_id: str,
    make_tenant: Make,
    make_endpoint: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    three = TokenBuckets(per_second=3 / 60, burst=3, clock=lambda: 0.0)
    monkeypatch.setattr(context.receiver_checks, "_sends", three)
    monkeypatch.setattr(context.receiver_checks, "_per_minute", 3)
    path = f"/endpoints/{endpoint['id']}"
    unwilling = {"tenant_id": tenant_id, "url": receiver.url("/status/500")}
    assert (await client.post(f"{path}/test", json={"type": TYPE})).status_code == 200
    assert (await client.post("/endpoints", json=unwilling)).status_code == 422
    assert (await client.patch(path, json={"url": receiver.url("/status/500")})).status_code == 200
    assert (await client.patch(path, json={"verification": "query"})).status_code == 422
    requests = len(receiver.requests)
    for answer in (
        await client.post(f"{path}/test", json={"type": TYPE}),
        await client.post("/endpoints", json=unwilling),
        await client.patch(path, json={"verification": "query"}),
    ):
        problem = assert_problem(answer, 429, code="too_many_test_sends")
        assert "Only 3 test sends and verifications a minute" in problem["detail"]
        assert answer.headers["retry-after"] == "20"
    assert len(receiver.requests) == requests
    other = (await make_tenant())["id"]
    theirs = await make_endpoint(tenant_id=other, url=receiver.url("/hook"))
    answer = await client.post(f"/endpoints/{theirs['id']}/test", json={"type": TYPE})
    assert answer.status_code == 200


def test_limit_of_test_sends_can_be_turned_off() -> None:
    limit = ReceiverCheckLimit(per_minute=0)
    for _ in range(1_000):
        limit.count("tnt_1")
