"""The overview: how deliveries go, whether anything goes out, and what a new tenant does next."""

from __future__ import annotations

import httpx2
import pytest
from fastapi import FastAPI

from api.process.context import Context
from hookfast.storage.figures import workers
from tests.integration.dashboard.belongings import emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import tenant_visitor, text_of

pytestmark = pytest.mark.anyio


async def test_the_first_pages_of_a_new_tenant_teach_the_next_step(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    async with tenant_visitor(app, client, tenant) as visitor:
        told = text_of((await visitor.get("/dashboard")).text)
        assert "Nothing was delivered in the last hour" in told
        assert "no endpoint yet" in told
        assert "There is no endpoint yet. Create the first one" in told
        assert "answers" not in told
        assert "Create the first one" in (await visitor.get("/dashboard/endpoints")).text
        deliveries = (await visitor.get("/dashboard/deliveries")).text
        assert "No deliveries yet" in deliveries
        assert f"--tenant {tenant}" in deliveries
        assert "No jobs yet" in (await visitor.get("/dashboard/jobs")).text


async def test_the_overview_says_whether_anything_goes_out(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    async with tenant_visitor(app, client, tenant) as visitor:
        told = text_of((await visitor.get("/dashboard")).text)
        assert "No worker is running, so nothing is sent." in told
        assert "goes out once a worker runs" in told
        assert "hookfast worker" not in told  # which is the operator's to start
        async with context.database.write() as connection:
            await workers.record_heartbeat(connection, "worker_1", version="1", now=context.clock())
        try:
            told = text_of((await visitor.get("/dashboard")).text)
        finally:
            async with context.database.write() as connection:
                await workers.remove(connection, "worker_1")
    assert "No worker" not in told
    assert "It shows here as it goes out." in told
    assert "Every endpoint is enabled and answers." in told


@pytest.mark.parametrize("window", ["1h", "24h", "7d", "30d"])
async def test_the_overview_counts_what_became_of_deliveries(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, window: str
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    made = [await emit(client, tenant) for _ in range(5)]
    await end(context, *made[:3], status="delivered")
    await end(context, made[3])
    async with tenant_visitor(app, client, tenant) as visitor:
        page = await visitor.get(f"/dashboard?window={window}")
    told = text_of(page.text)
    assert "Delivered 3" in told
    assert "Failed 1" in told
    assert "Success rate 75 %" in told
    assert "Waiting 1 1 pending" in told
    assert "Dead letters 1" in told
    assert "3 delivered, 1 failed, 1 in progress" in told  # by the bar that holds them


async def test_the_overview_says_that_every_receiver_answers_only_where_it_is_so(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant)
    async with tenant_visitor(app, client, tenant) as visitor:
        assert "every receiver answers" in text_of((await visitor.get("/dashboard")).text)
        await client.post(f"/endpoints/{endpoint}/pause")
        told = text_of((await visitor.get("/dashboard")).text)
        assert "Open circuits 0 see what needs attention" in told
        assert "every receiver answers" not in told
