"""Quotas and the limit of test sends, as the pages show them."""

from __future__ import annotations

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from api.limits.token_bucket import TokenBuckets
from tests.integration.dashboard.resources import EVENT_TYPE, emit, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Visitor, tenant_visitor, text_of
from tests.integration.portal.links import customer
from tests.support.api_client import event_type_maker

pytestmark = pytest.mark.anyio


async def test_form_says_that_a_quota_is_used_up_and_keeps_the_input(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    path = f"/dashboard/endpoints/{await new_endpoint(client, tenant)}"
    quotas = {"endpoints": 1, "subscriptions": 1, "sources": 0}
    await client.patch(f"/tenants/{tenant}", json={"quotas": quotas})
    new = {"url": "http://127.0.0.1:4/typed", "verification": "none", "signatures": "hook"}
    async with tenant_visitor(app, client, tenant) as visitor:
        rejected = await visitor.post("/dashboard/endpoints/new", **new)
        assert rejected.status_code == 409
        assert "The tenant's quota of 1 endpoints is used up" in text_of(rejected.text)
        assert "http://127.0.0.1:4/typed" in rejected.text
        shown = await visitor.submit(f"{path}/subscriptions", events="user.**", back=path)
        assert "The tenant's quota of 1 subscriptions is used up" in text_of(shown)
        source = {"name": "GitHub", "provider": "github", "fact_window_seconds": "86400"}
        assert (await visitor.post("/dashboard/sources/new", **source)).status_code == 200
        await client.patch(f"/tenants/{tenant}", json={"quotas": {"sources": 1}})
        rejected = await visitor.post("/dashboard/sources/new", **source)
        assert rejected.status_code == 409
        assert "The tenant's quota of 1 sources is used up" in text_of(rejected.text)


async def test_page_and_portal_say_that_there_were_too_many_test_sends(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    await event_type_maker(client)(EVENT_TYPE)
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant, verification="none")
    path = f"/dashboard/endpoints/{endpoint}"
    one_a_minute = TokenBuckets(per_second=1 / 60, burst=1, clock=lambda: 0.0)
    monkeypatch.setattr(context.receiver_checks, "_sends", one_a_minute)
    context.receiver_checks.count(tenant)
    async with (
        tenant_visitor(app, client, tenant) as visitor,
        customer(app, client, tenant, endpoint_id=endpoint) as guest,
    ):
        test = {"type": EVENT_TYPE, "data": "{}", "back": path}
        for one, at in ((visitor, path), (guest, f"/portal/endpoints/{endpoint}")):
            shown = (await one.post(f"{at}/test", **test)).text
            assert "test sends and verifications a minute are allowed" in text_of(shown)
            assert "try again in 60 s" in text_of(shown)
        changed = {"url": "http://127.0.0.1:4/new", "verification": "header", "signatures": "hook"}
        rejected = await visitor.post(f"{path}/settings", **changed)
        assert rejected.status_code == 429
        assert "Nothing was sent; try again" in text_of(rejected.text)
        assert "http://127.0.0.1:4/new" in rejected.text


async def test_tenants_and_the_operator_see_what_is_used(
    app: FastAPI, client: httpx2.AsyncClient, operator: Visitor
) -> None:
    tenant = await new_tenant(client)
    quotas = {"endpoints": 5, "events_per_day": 1_000}
    await client.patch(f"/tenants/{tenant}", json={"quotas": quotas})
    await new_endpoint(client, tenant)
    await emit(client, tenant)
    used = "1 of 5 endpoints · 1 subscription · 0 of 100 sources · 1 of 1,000 events today"
    async with tenant_visitor(app, client, tenant) as visitor:
        assert f"Quotas: {used}." in text_of((await visitor.get("/dashboard")).text)
    assert used in text_of((await operator.get("/dashboard/tenants")).text)
