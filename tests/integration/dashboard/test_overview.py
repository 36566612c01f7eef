"""The overview: counts of deliveries, whether a worker runs, and the next step of a new tenant."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import insert, update

from api.context.context import Context
from hookfast.storage.figures import workers
from hookfast.storage.tables import Attempt, Delivery, EndpointHealth
from tests.integration.dashboard.resources import EVENT_TYPE, emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Visitor, tenant_visitor, text_of
from tests.support.api_client import event_type_maker
from tests.support.figures import count_rows
from tests.support.rows import attempt_row

pytestmark = pytest.mark.anyio


async def test_pages_of_a_new_tenant_explain_the_next_step(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    await event_type_maker(client)(EVENT_TYPE)
    async with tenant_visitor(app, client, tenant) as visitor:
        text = text_of((await visitor.get("/dashboard")).text)
        # the operator registered an event type; without an endpoint, the next step is to create one
        assert "Get to your first delivery" in text
        assert "Create a tenant" not in text  # this is one
        assert "Create an endpoint next" in text
        assert "hookfast emit " in text
        assert f"--tenant {tenant}" in text
        assert "Time to delivery" not in text  # no figures of nothing
        assert "Create the first one" in (await visitor.get("/dashboard/endpoints")).text
        deliveries = (await visitor.get("/dashboard/deliveries")).text
        assert "No deliveries yet" in deliveries
        assert f"--tenant {tenant}" in deliveries
        assert "No jobs yet" in (await visitor.get("/dashboard/jobs")).text


async def test_first_steps_are_done_one_after_the_other(
    app: FastAPI, client: httpx2.AsyncClient, operator: Visitor
) -> None:
    tenant = await new_tenant(client)
    await event_type_maker(client)(EVENT_TYPE)
    await operator.submit("/dashboard/settings/tenant", tenant_id=tenant)
    try:
        page = (await operator.get("/dashboard")).text
        assert "Register an event type done" in text_of(page)
        assert '<a class="button main" href="/dashboard/endpoints/new">' in page
        await new_endpoint(client, tenant)
        text = text_of((await operator.get("/dashboard")).text)
        assert "Create an endpoint done" in text
        assert "Emit an event next" in text
        await event_type_maker(client)("classroom.note.added")
        event = {"tenant_id": tenant, "type": "classroom.note.added", "data": {}}
        assert (await client.post("/events", json=event)).status_code == 202
        text = text_of((await operator.get("/dashboard")).text)
        assert "no subscription matched it" in text
        await client.post("/events", json=event | {"type": EVENT_TYPE})
        text = text_of((await operator.get("/dashboard")).text)
        assert "Get to your first delivery" not in text
        assert "1 in progress" in text  # the bar of its minute
        assert "There are figures since" in text
    finally:
        await operator.submit("/dashboard/settings/tenant", tenant_id="")


async def test_overview_warns_if_no_worker_runs(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    async with tenant_visitor(app, client, tenant) as visitor:
        text = text_of((await visitor.get("/dashboard")).text)
        assert "No worker is running, so nothing is sent." in text
        assert "Emitted events are stored and wait" in text
        assert "hookfast worker" not in text  # only the operator can start one
        async with context.database.write() as connection:
            await workers.record_heartbeat(connection, "worker_1", version="1", now=context.clock())
        try:
            text = text_of((await visitor.get("/dashboard")).text)
        finally:
            async with context.database.write() as connection:
                await workers.remove(connection, "worker_1")
    assert "No worker" not in text
    assert "which shows here as it goes out" in text
    assert "The endpoint is healthy." in text


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
    assert re.search(r"Delivered 3 (3(\.0)?|[12](\.\d)?) a minute since the first Failed 1", text)
    assert "Deliveries succeeded 75 % of those that ended" in text
    assert "Waiting 1 1 pending" in text
    assert "Dead letters 1" in text
    # the tooltips of their bars, which may be two: the steps of a new installation are short
    tooltips = re.findall(r'class="step"[^>]*><title>[^<]* UTC: (\d) delivered', page.text)
    assert sum(map(int, tooltips)) == 3


async def test_overview_says_whose_an_endpoint_with_failures_is_where_there_are_several_tenants(
    client: httpx2.AsyncClient, context: Context, operator: Visitor
) -> None:
    links = []
    for name in ("Own", "Other"):
        tenant = await new_tenant(client, name)
        endpoint = await new_endpoint(client, tenant)
        await end(context, await emit(client, tenant))
        assert (await client.post(f"/endpoints/{endpoint}/disable")).status_code == 200
        links.append(f'<a href="/dashboard/tenants/{tenant}" title="{tenant}">{name}</a>')
    page = (await operator.get("/dashboard")).text
    for heading in ("attention-heading", "failures-heading"):
        section = page.partition(f'id="{heading}"')[2].partition("</section>")[0]
        for link in links:
            assert link in section, heading


async def test_overview_says_that_every_endpoint_is_healthy_only_if_true(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant)
    async with tenant_visitor(app, client, tenant) as visitor:
        text = text_of((await visitor.get("/dashboard")).text)
        assert "The endpoint is healthy." in text
        await emit(client, tenant)  # before, the first steps are shown
        text = text_of((await visitor.get("/dashboard")).text)
        assert "Endpoints 1 1 healthy" in text
        await client.post(f"/endpoints/{endpoint}/pause")
        text = text_of((await visitor.get("/dashboard")).text)
        assert "1 of 1 endpoint is paused." in text
        assert "Endpoints 1 1 paused" in text
        assert "healthy" not in text
        # a person disabled it: that is no failure
        await client.post(f"/endpoints/{endpoint}/disable")
        page = (await visitor.get("/dashboard")).text
        assert '<span class="badge off" title="Nothing is sent' in page
        assert "1 of 1 endpoint is disabled." in text_of(page)
        assert "Endpoints 1 1 disabled" in text_of(page)
        page = (await visitor.get(f"/dashboard/endpoints/{endpoint}")).text
        assert "Disabled by request. Nothing is sent" in text_of(page)
        assert text_of(page).count("Disabled") == 1
        assert "flash bad" not in page
        assert "Held deliveries" not in page


async def test_overview_is_red_while_a_third_of_the_endpoints_is_down(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    """Although 9,995 of 10,000 attempts succeed, as a success rate alone would show."""
    tenant = await new_tenant(client)
    broken, *others = [await new_endpoint(client, tenant) for _ in range(3)]
    for endpoint in others[1:]:
        await client.post(f"/endpoints/{endpoint}/pause")
    deliveries = [await emit(client, tenant) for _ in range(4)]
    await end(context, *deliveries[:3], status="delivered")
    await open_circuit(context, broken)
    await hold(context, deliveries[3], since=context.clock() - timedelta(minutes=59))
    await add_attempts(context, deliveries[0], {"success": 9_995, "status": 5})
    async with tenant_visitor(app, client, tenant) as visitor:
        page = (await visitor.get("/dashboard")).text
        text = text_of(page)
        assert "1 of 3 endpoints is down, 1 is paused; 1 delivery is held." in text
        assert classes_of(page, "Deliveries succeeded") == {"tile"}
        assert "Deliveries succeeded 100 % of those that ended; 1 held" in text
        assert "Attempts succeeded 99.95 % of 10,000 attempts" in text
        assert classes_of(page, "Endpoints") == {"tile", "bad"}
        assert "Endpoints 1 of 3 down 1 healthy 1 circuit open 1 paused" in text
        assert classes_of(page, "Held") == {"tile", "warn"}
        await hold(context, deliveries[3], since=context.clock() - timedelta(minutes=61))
        page = (await visitor.get("/dashboard")).text
        assert classes_of(page, "Held") == {"tile", "bad"}
        assert "verdict bad" in page
        for path in ("/dashboard", f"/dashboard/endpoints/{broken}", "/dashboard/endpoints"):
            [badge] = set(re.findall(BADGE, (await visitor.get(path)).text)) - OTHER_BADGES
            assert badge == ("bad", "circuit open")
        listed = text_of((await visitor.get("/dashboard/endpoints?health=circuit_open")).text)
        assert listed.count("circuit open") == 1
        assert "paused" not in listed.partition("Created")[2]


def classes_of(page: str, tile: str) -> set[str]:
    """Return the classes of the tile with this name."""
    [found] = re.findall(rf'<div class="([^"]*)"[^>]*><dt>{tile}</dt>', page)
    return set(found.split())


BADGE = re.compile(r'<span class="badge (\w+)" title="[^"]+">([^<]+)</span>')
OTHER_BADGES = {("good", "healthy"), ("hold", "paused")}


async def open_circuit(context: Context, endpoint_id: str) -> None:
    now = context.clock()
    async with context.database.write() as connection:
        await connection.execute(
            insert(EndpointHealth.__table__),
            {
                "endpoint_id": endpoint_id,
                "circuit": "open",
                "consecutive_failures": 5,
                "first_failure_at": now,
                "opened_at": now,
            },
        )


async def hold(context: Context, delivery_id: str, *, since: datetime) -> None:
    rows = Delivery.__table__
    async with context.database.write() as connection:
        held = {"status": "held", "waiting_since": since}
        await connection.execute(update(rows).where(rows.c.id == delivery_id).values(held))
    await count_rows(context.database)


async def add_attempts(context: Context, delivery_id: str, numbers: dict[str, int]) -> None:
    now = context.clock()
    attempts = [
        attempt_row(now, delivery_id, result=result)
        for result, number in numbers.items()
        for _ in range(number)
    ]
    async with context.database.write() as connection:
        await connection.execute(insert(Attempt.__table__), attempts)
    await count_rows(context.database)
