"""The overview: counts of deliveries, whether a worker runs, and the next step of a new tenant."""

from __future__ import annotations

import httpx2
import pytest
from fastapi import FastAPI

from api.process.context import Context
from hookfast.storage.figures import workers
from tests.integration.dashboard.resources import emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import tenant_visitor, text_of

pytestmark = pytest.mark.anyio


async def test_pages_of_a_new_tenant_explain_the_next_step(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    async with tenant_visitor(app, client, tenant) as visitor:
        text = text_of((await visitor.get("/dashboard")).text)
        assert "Nothing was delivered in the last hour" in text
        assert "no endpoint yet" in text
        assert "There is no endpoint yet. Create the first one" in text
        assert "answers" not in text
        assert "Create the first one" in (await visitor.get("/dashboard/endpoints")).text
        deliveries = (await visitor.get("/dashboard/deliveries")).text
        assert "No deliveries yet" in deliveries
        assert f"--tenant {tenant}" in deliveries
        assert "No jobs yet" in (await visitor.get("/dashboard/jobs")).text


async def test_overview_warns_if_no_worker_runs(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    async with tenant_visitor(app, client, tenant) as visitor:
        text = text_of((await visitor.get("/dashboard")).text)
        assert "No worker is running, so nothing is sent." in text
        assert "goes out once a worker runs" in text
        assert "hookfast worker" not in text  # only the operator can start one
        async with context.database.write() as connection:
            await workers.record_heartbeat(connection, "worker_1", version="1", now=context.clock())
        try:
            text = text_of((await visitor.get("/dashboard")).text)
        finally:
            async with context.database.write() as connection:
                await workers.remove(connection, "worker_1")
    assert "No worker" not in text
    assert "It shows here as it goes out." in text
    assert "Every endpoint is enabled and answers." in text


@pytest.mark.parametrize("window", ["1h", "24h", "7d", "30d"])
async def test_overview_counts_deliveries_by_status(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, window: str
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    delivery_ids = [await emit(client, tenant) for _ in range(5)]
    await end(context, *delivery_ids[:3], status="delivered")
    await end(context, delivery_ids[3])
    async with tenant_visitor(app, client, tenant) as visitor:
        page = await visitor.get(f"/dashboard?window={window}")
    text = text_of(page.text)
    assert "Delivered 3" in text
    assert "Failed 1" in text
    assert "Success rate 75 %" in text
    assert "Waiting 1 1 pending" in text
    assert "Dead letters 1" in text
    assert "3 delivered, 1 failed, 1 in progress" in text  # the tooltip of their bar


async def test_overview_says_that_every_receiver_answers_only_if_true(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant)
    async with tenant_visitor(app, client, tenant) as visitor:
        assert "every receiver answers" in text_of((await visitor.get("/dashboard")).text)
        await client.post(f"/endpoints/{endpoint}/pause")
        text = text_of((await visitor.get("/dashboard")).text)
        assert "Open circuits 0 see what needs attention" in text
        assert "every receiver answers" not in text
