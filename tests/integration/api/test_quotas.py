"""Quotas of a tenant: what is rejected, what the answer says, and where usage is shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from api.app import create_app
from api.context.context import Context
from hookfast.events.operational import SYSTEM_TENANT
from hookfast.settings.settings import Settings
from hookfast.telemetry import instruments
from tests.integration.api.inbound import send
from tests.integration.api.shared.sources import make_source
from tests.support.api_client import (
    OPERATOR_KEY,
    Json,
    KeyClient,
    Make,
    MakeEventType,
    assert_problem,
    client_with,
    event_type_maker,
    maker,
    started,
)

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"
URL = "http://127.0.0.1:4/hook"


async def set_quotas(client: httpx2.AsyncClient, tenant: str, **quotas: int | None) -> Json:
    answer = await client.patch(f"/tenants/{tenant}", json={"quotas": quotas})
    assert answer.status_code == 200, answer.text
    document: Json = answer.json()
    return document


async def usage_of(client: httpx2.AsyncClient, tenant: str) -> dict[str, tuple[int | None, ...]]:
    """Return what a tenant uses of each quota, and the quota."""
    answer = await client.get(f"/tenants/{tenant}/usage")
    assert answer.status_code == 200, answer.text
    document: Json = answer.json()
    return {
        name: (part["used"], part["limit"])
        for name, part in document.items()
        if isinstance(part, dict)
    }


async def create(client: httpx2.AsyncClient, tenant: str, kind: str, endpoint: str) -> Any:
    """Create an endpoint, a subscription or a source, and return the answer."""
    forms: dict[str, Json] = {
        "endpoints": {"tenant_id": tenant, "url": URL, "verification": "none"},
        "subscriptions": {"endpoint_id": endpoint, "events": ["order.**"]},
        "sources": {"tenant_id": tenant, "name": "x", "provider": "github"},
    }
    return await client.post(f"/{kind}", json=forms[kind])


@pytest.mark.both_databases
@pytest.mark.parametrize("kind", ["endpoints", "subscriptions", "sources"])
async def test_requests_that_race_for_the_last_place_create_exactly_the_quota(
    client: httpx2.AsyncClient,
    make_tenant: Make,
    make_endpoint: Make,
    key_client: KeyClient,
    kind: str,
) -> None:
    tenant, other = (await make_tenant())["id"], (await make_tenant())["id"]
    endpoint = (await make_endpoint(tenant_id=tenant))["id"]
    await set_quotas(client, tenant, **{kind: 3})
    async with key_client(tenant) as theirs:
        answers = await asyncio.gather(
            *(create(one, tenant, kind, endpoint) for one in (client, theirs) for _ in range(4))
        )
    created = 2 if kind == "endpoints" else 3
    assert sorted(answer.status_code for answer in answers) == [201] * created + [409] * (
        8 - created
    )
    for answer in answers:
        if answer.status_code == 409:
            problem = assert_problem(answer, 409, code="quota_exceeded")
            assert problem["detail"] == (
                f"The tenant's quota of 3 {kind} is used up: it has 3. Delete some, or ask the "
                "operator to raise the quota."
            )
    assert (await usage_of(client, tenant))[kind] == (3, 3)
    others = (await make_endpoint(tenant_id=other))["id"]
    assert (await create(client, other, kind, others)).status_code == 201


async def test_place_is_free_again_after_a_deletion(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant = (await make_tenant(quotas={"endpoints": 1, "subscriptions": 1}))["id"]
    endpoint = await make_endpoint(tenant_id=tenant, events=["order.**"])
    assert_problem(await create(client, tenant, "endpoints", ""), 409, code="quota_exceeded")
    await client.delete(f"/endpoints/{endpoint['id']}")
    assert await usage_of(client, tenant) == {
        "endpoints": (0, 1),
        "subscriptions": (0, 1),
        "sources": (0, 100),
        "events_per_day": (None, None),
    }
    await make_endpoint(tenant_id=tenant, events=["order.**"])


async def test_endpoint_is_not_created_without_its_first_subscription(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant = (await make_tenant(quotas={"subscriptions": 1}))["id"]
    await make_endpoint(tenant_id=tenant, events=["order.**"])
    second = {"tenant_id": tenant, "url": URL, "verification": "none"}
    answer = await client.post("/endpoints", json=second | {"events": ["invoice.**"]})
    problem = assert_problem(answer, 409, code="quota_exceeded")
    assert "quota of 1 subscriptions" in problem["detail"]
    assert (await usage_of(client, tenant))["endpoints"] == (1, None)
    assert (await client.post("/endpoints", json=second)).status_code == 201


async def test_own_quota_below_the_usage_deletes_nothing_and_null_resets_it(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant = (await make_tenant())["id"]
    for _ in range(3):
        await make_endpoint(tenant_id=tenant)
    changed = await set_quotas(client, tenant, endpoints=1, events_per_day=5)
    own = {"endpoints": 1, "subscriptions": None, "sources": None, "events_per_day": 5}
    assert changed["quotas"] == own
    assert (await usage_of(client, tenant))["endpoints"] == (3, 1)
    assert_problem(await create(client, tenant, "endpoints", ""), 409, code="quota_exceeded")
    changed = await set_quotas(client, tenant, endpoints=None)
    assert changed["quotas"] == own | {"endpoints": None}
    assert (await create(client, tenant, "endpoints", "")).status_code == 201
    log = (await client.get("/audit", params={"resource_id": tenant})).json()["data"]
    assert [entry["changes"]["quotas"] for entry in log if entry["action"] == "tenant.update"] == [
        {"before": {"endpoints": 1, "events_per_day": 5}, "after": {"events_per_day": 5}},
        {"before": None, "after": {"endpoints": 1, "events_per_day": 5}},
    ]


@pytest.mark.parametrize(
    ("quotas", "pointer"),
    [
        ({"endpoints": -1}, "/quotas/endpoints"),
        ({"sources": 10_000_000_000}, "/quotas/sources"),
        ({"events_per_day": "many"}, "/quotas/events_per_day"),
        ({"keys": 3}, "/quotas/keys"),
    ],
)
async def test_invalid_quotas_are_rejected(
    common_client: httpx2.AsyncClient, common_tenant: str, quotas: Json, pointer: str
) -> None:
    answer = await common_client.patch(f"/tenants/{common_tenant}", json={"quotas": quotas})
    assert_problem(answer, 422, code="invalid_input", pointer=pointer)


async def test_tenant_reads_its_own_usage_and_sets_no_quota(
    client: httpx2.AsyncClient, make_tenant: Make, key_client: KeyClient
) -> None:
    tenant, other = (await make_tenant())["id"], (await make_tenant())["id"]
    async with key_client(tenant, scope="tenant:read") as theirs:
        assert (await theirs.get(f"/tenants/{tenant}/usage")).status_code == 200
        assert_problem(await theirs.get(f"/tenants/{other}/usage"), 404, code="not_found")
    async with key_client(tenant) as theirs:
        answer = await theirs.patch(f"/tenants/{tenant}", json={"quotas": {"endpoints": 9}})
        assert_problem(answer, 403, code="forbidden")
    unknown = "tnt_019a0b3c5d6e7f8091a2b3c4d5e6f708"
    assert_problem(await client.get(f"/tenants/{unknown}/usage"), 404, code="not_found")


@asynccontextmanager
async def at(settings: Settings, moment: datetime, **changes: Any) -> AsyncIterator[Any]:
    """Run an application at this time with changed settings, and yield the operator's client."""
    settings = settings.model_copy(update=changes)
    app = create_app(settings, clock=lambda: moment)
    async with started(app, settings), client_with(app, OPERATOR_KEY) as client:
        yield client


async def test_settings_limit_every_tenant_but_hookfasts_own(settings: Settings) -> None:
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    limits = {
        "max_endpoints_per_tenant": 1,
        "max_subscriptions_per_tenant": 2,
        "max_sources_per_tenant": 0,
        "max_events_per_tenant_per_day": 4,
    }
    async with at(settings, noon, **limits) as client:
        tenant = (await maker(client, "/tenants", name="Acme")())["id"]
        answer = await client.get(f"/tenants/{tenant}/usage")
        assert answer.json() == {
            "tenant_id": tenant,
            "endpoints": {"used": 0, "limit": 1},
            "subscriptions": {"used": 0, "limit": 2},
            "sources": {"used": 0, "limit": None},
            "events_per_day": {
                "used": 0,
                "limit": 4,
                "day": "2026-11-20",
                "resets_at": "2026-11-21T00:00:00.000000Z",
            },
        }
        for expected in (201, 201):
            made = await create(client, SYSTEM_TENANT, "endpoints", "")
            assert made.status_code == expected


async def test_events_beyond_the_quota_get_429_until_midnight(settings: Settings) -> None:
    before_midnight = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
    quota = {"max_events_per_tenant_per_day": 3}
    rejections = instruments.QUOTA_REJECTIONS._totals
    key = (("quota", "events_per_day"),)
    counted = rejections[key]
    async with at(settings, before_midnight, **quota) as client:
        await event_type_maker(client)(TYPE)
        tenant = (await maker(client, "/tenants", name="Acme")())["id"]
        source = (await make_source(client, tenant))["id"]
        event = {"type": TYPE, "data": {}, "tenant_id": tenant}
        assert (await client.post("/events", json=event)).status_code == 202
        assert (await send(client, source, {"n": 1}, delivery="first")).status_code == 202
        batch = await client.post("/events/batch", json={"events": [event, event]})
        first, second = batch.json()["data"]
        assert (first["status"], second["status"]) == (202, 429)
        assert second["problem"]["code"] == "daily_quota_exceeded"

        for answer in (
            await client.post("/events", json=event),
            await send(client, source, {"n": 2}, delivery="second"),
        ):
            problem = assert_problem(answer, 429, code="daily_quota_exceeded")
            assert "quota of 3 events per day is used up" in problem["detail"]
            assert answer.headers["retry-after"] == "1800"
        again = await send(client, source, {"n": 1}, delivery="first")
        assert (again.status_code, again.json()["duplicate"]) == (200, True)
        broadcast = {"type": TYPE, "data": {}}
        assert (await client.post("/events", json=broadcast)).status_code == 202
        assert (await usage_of(client, tenant))["events_per_day"] == (3, 3)
        assert rejections[key] - counted == 3
        entries = (await client.get("/inbox", params={"source_id": source})).json()["data"]
        assert [entry["key"] for entry in entries] == ["id:first"]
    async with at(settings, datetime(2026, 11, 21, tzinfo=UTC), **quota) as client:
        assert (await client.post("/events", json=event)).status_code == 202
        assert (await send(client, source, {"n": 2}, delivery="second")).status_code == 202
        assert (await usage_of(client, tenant))["events_per_day"] == (2, 3)


async def test_changed_quota_of_events_applies_at_once_in_this_process(
    client: httpx2.AsyncClient, context: Context, make_tenant: Make, make_event_type: MakeEventType
) -> None:
    await make_event_type(TYPE)
    tenant = (await make_tenant())["id"]
    event = {"type": TYPE, "data": {}, "tenant_id": tenant}
    assert (await client.post("/events", json=event)).status_code == 202
    for limit, expected in ((1, [202, 429]), (2, [202, 429]), (0, [202, 202])):
        await set_quotas(client, tenant, events_per_day=limit)
        got = [(await client.post("/events", json=event)).status_code for _ in expected]
        assert got == expected, limit
