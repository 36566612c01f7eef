"""Checks of an endpoint: test requests, another verification, and statistics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from sqlalchemy import insert, update

from api.context.context import Context
from api.limits.receiver_checks import ReceiverCheckLimit
from api.limits.token_bucket import TokenBuckets
from hookfast.clock import rfc3339, utc_now
from hookfast.ids import new_id
from hookfast.storage.counting import folding
from hookfast.storage.tables import Attempt, Delivery, Endpoint
from tests.support.api_client import Json, KeyClient, Make, MakeEventType, assert_problem
from tests.support.figures import count_rows
from tests.support.receiver import Receiver
from tests.support.rows import attempt_row

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
) -> str:
    """Store a delivery with these attempts: result, status code, milliseconds. Return its id."""
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
    async with context.database.write() as connection:
        await connection.execute(insert(Delivery.__table__).values(row.model_dump()))
    await _attempt(context, endpoint, delivery_id, *attempts, at=at)
    return delivery_id


async def _attempt(
    context: Context,
    endpoint: Json,
    delivery_id: str,
    *attempts: tuple[str, int | None, float],
    at: datetime | None = None,
) -> None:
    """Store attempts of a delivery."""
    at = at or utc_now() - timedelta(minutes=5)
    made = [
        attempt_row(
            *(at, delivery_id, endpoint["id"]),
            number=number,
            duration_ms=duration,
            result=result,
            status_code=status,
        )
        for number, (result, status, duration) in enumerate(attempts, 1)
    ]
    if made:
        async with context.database.write() as connection:
            await connection.execute(insert(Attempt.__table__), made)


async def test_statistics_count_the_deliveries_and_attempts_of_a_window(
    client: httpx2.AsyncClient, context: Context, endpoint: Json, make_endpoint: Make
) -> None:
    ok = ("success", 200, 10.0)
    for _ in range(3):
        await _store(context, endpoint, ok, status="delivered")
    await _store(context, endpoint, ("status", 503, 40.0), ok, status="delivered")
    await _store(context, endpoint, ("timeout", None, 5000.0), status="dead")
    await _store(context, endpoint, status="pending")
    two_days_ago = utc_now() - timedelta(days=2)
    await _store(context, endpoint, ok, status="delivered", at=two_days_ago)
    # created before the window, attempted in it
    earlier = await _store(context, endpoint, status="retrying", at=two_days_ago)
    await _attempt(context, endpoint, earlier, ("dns", None, 3.0), ("status", 302, 40.0))
    other = await make_endpoint(tenant_id=endpoint["tenant_id"])
    await _store(context, other, ok, status="delivered")
    await count_rows(context.database)
    path = f"/endpoints/{endpoint['id']}/stats"
    for folded in (False, True):
        if folded:
            await folding.fold(context.database)
        stats = (await client.get(path)).json()
        assert stats["deliveries"]["total"] == 6
        assert {name: n for name, n in stats["deliveries"]["by_status"].items() if n} == {
            "delivered": 4,
            "dead": 1,
            "pending": 1,
        }
        assert stats["success_rate"] == 4 / 5
        assert stats["attempts"]["total"] == 8
        assert {name: n for name, n in stats["attempts"]["by_result"].items() if n} == {
            "success": 4,
            "status": 2,
            "timeout": 1,
            "dns": 1,
        }
        # of 10 and 40 ms
        assert stats["latency_ms"] == {"p50": 10.4, "p95": 39.7, "p99": 39.7}
        longer = await client.get(path, params={"since": rfc3339(utc_now() - timedelta(days=3))})
        assert longer.json()["deliveries"]["total"] == 8
        assert longer.json()["attempts"]["total"] == 9


async def test_an_endpoint_without_deliveries_has_no_rate_and_no_latency(
    client: httpx2.AsyncClient, endpoint: Json
) -> None:
    stats = (await client.get(f"/endpoints/{endpoint['id']}/stats")).json()
    assert (stats["success_rate"], stats["latency_ms"]) == (None, None)
    assert (stats["deliveries"]["total"], stats["attempts"]["total"]) == (0, 0)


async def test_statistics_say_which_whole_minutes_hours_or_days_they_count(
    client: httpx2.AsyncClient, context: Context, endpoint: Json
) -> None:
    now = utc_now()
    path = f"/endpoints/{endpoint['id']}/stats"
    for length, since, until in (
        (timedelta(minutes=1), now - timedelta(hours=5), now - timedelta(minutes=7)),
        (timedelta(hours=1), now - timedelta(days=9), now - timedelta(days=3)),
        (timedelta(days=1), now - timedelta(days=90), now - timedelta(days=60)),
    ):
        await _store(context, endpoint, status="delivered", at=since)
        await _store(context, endpoint, status="delivered", at=since - length)  # not counted
        await count_rows(context.database)
        params = {"since": rfc3339(since), "until": rfc3339(until)}
        stats = (await client.get(path, params=params)).json()
        assert stats["deliveries"]["total"] == 1
        counted = [datetime.fromisoformat(stats[name]) for name in ("since", "until")]
        assert counted[0] <= since < counted[0] + length
        assert counted[1] - length < until <= counted[1]
        for each in counted:
            assert not (each - datetime(1970, 1, 1, tzinfo=UTC)) % length


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
