"""The charts: what their bars open, and the way from the overview to why a delivery failed."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import insert, update

from api.context.context import Context
from hookfast.storage.tables import Attempt, Delivery
from tests.integration.dashboard.resources import emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import tenant_visitor, text_of
from tests.support.figures import count_rows
from tests.support.rows import attempt_row

pytestmark = pytest.mark.anyio

ERROR = "The server answered 503 Service Unavailable."
STEP = re.compile(r'<a class="(step|part)" href="([^"]+)"[^>]*><title>([^<]+)</title>')


def bars(html: str) -> dict[str, tuple[str, str]]:
    """Return the links of bars that are not empty: kind → (address, label)."""
    return {
        kind: (unescape(address), unescape(label))
        for kind, address, label in STEP.findall(html)
        if re.search(r"[1-9]\d* (delivered|failed|in progress|attempt)", label)
    }


async def attempt(context: Context, delivery_id: str, endpoint_id: str) -> None:
    """Insert a failed attempt of a delivery, made now."""
    now = context.clock()
    row = attempt_row(
        *(now, delivery_id, endpoint_id),
        duration_ms=120.0,
        status_code=503,
        error=ERROR,
        response_excerpt="<h1>Down for repair</h1>",
    )
    rows = Delivery.__table__
    changed = {"last_error": ERROR, "reason": "retries_exhausted", "attempts": 1, "updated_at": now}
    async with context.database.write() as connection:
        await connection.execute(insert(Attempt.__table__), row)
        await connection.execute(update(rows).where(rows.c.id == delivery_id).values(changed))
    await count_rows(context.database)


async def test_overview_leads_to_why_a_delivery_failed(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant, description="Warehouse")
    failed, fine = [await emit(client, tenant) for _ in range(2)]
    await end(context, fine, status="delivered")
    await end(context, failed)
    await attempt(context, failed, endpoint)
    async with tenant_visitor(app, client, tenant) as visitor:
        overview = (await visitor.get("/dashboard")).text
        found = bars(overview)
        # a bar opens the deliveries of its step; its failed part, those that failed. The two
        # deliveries have one bar, or two that follow each other
        address, label = found["step"]
        assert re.search(r": (1 delivered, 1 failed|1 delivered|1 failed)$", label)
        since, until = (parse_qs(urlsplit(address).query)[name][0] for name in ("since", "until"))
        assert since < until
        listed = (await visitor.get(address)).text
        assert (failed in listed) == ("failed" in label)
        assert (fine in listed) == ("delivered" in label)
        address, label = found["part"]
        assert "only those that failed" in label
        listed = (await visitor.get(address)).text
        assert failed in listed
        assert fine not in listed
        # and a row of the newest failures opens the delivery
        text = text_of(overview)
        assert f"All retries are used up: {ERROR} Warehouse dead letter" in text
        assert f'<a href="/dashboard/deliveries/{failed}">' in overview
        page = text_of((await visitor.get(f"/dashboard/deliveries/{failed}")).text)
    sentence = (
        "Dead letter: all retries are used up; 1 attempt; the answer was 503 Service Unavailable "
        "after 120 ms: <h1>Down for repair</h1> ."
    )
    assert page.index(sentence) < page.index("Timeline")


async def test_list_has_a_chart_of_the_deliveries_that_match(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant)
    await new_endpoint(client, tenant)
    delivery = await emit(client, tenant)
    await end(context, delivery, status="delivered")
    await end(context, await emit(client, tenant))
    path = "/dashboard/deliveries"
    async with tenant_visitor(app, client, tenant) as visitor:
        text = text_of((await visitor.get(path)).text)
        assert "4 deliveries created from" in text
        assert "delivered 1 in progress 2 failed 1" in text
        dead = text_of((await visitor.get(f"{path}?status=dead")).text)
        assert "1 delivery created from" in dead
        narrowed = (await visitor.get(f"{path}?endpoint_id={endpoint}&within=1h")).text
        address, _ = bars(narrowed)["step"]
        address = urljoin(path, address)
        query = parse_qs(urlsplit(address).query)
        assert set(query) == {"endpoint_id", "since", "until"}  # `within` is replaced
        assert query["endpoint_id"] == [endpoint]
        assert (await visitor.get(address)).status_code == 200
        # an event has few deliveries, and a minute is too short
        found = await client.get(f"/deliveries/{delivery}")
        event = await visitor.get(f"{path}?event_id={found.json()['event_id']}")
        assert "created from" not in text_of(event.text)


@pytest.mark.parametrize("window", ["1h", "24h", "7d"])
async def test_endpoint_page_shows_its_attempts_by_result(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, window: str
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant)
    path = f"/dashboard/endpoints/{endpoint}?window={window}"
    async with tenant_visitor(app, client, tenant) as visitor:
        assert "No attempts in the last" in text_of((await visitor.get(path)).text)
        await attempt(context, await emit(client, tenant), endpoint)
        page = (await visitor.get(path)).text
        text = text_of(page)
        assert "success 0 4xx 0 5xx 1 timeout 0 other failure 0" in text
        assert "1 attempt: 1 5xx" in text  # the tooltip of its bar
        # the middle of the bucket that 120 ms are in
        assert "half answered within 121 ms, 95 % within 121 ms" in text
        assert "1 0 0 1 0 0 121 ms 121 ms" in text  # the table
        address, _ = bars(page)["step"]
        assert f"endpoint_id={endpoint}" in address
        assert (await visitor.get(address)).status_code == 200
        assert f'data-live="/dashboard/live/endpoints/{endpoint}?window={window}"' in page


async def test_newest_failures_show_only_the_own_tenants(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenants = [await new_tenant(client) for _ in range(2)]
    failed = []
    for tenant in tenants:
        await new_endpoint(client, tenant)
        failed.append(await emit(client, tenant))
    await end(context, *failed)
    async with tenant_visitor(app, client, tenants[0]) as visitor:
        page = (await visitor.get("/dashboard")).text
        assert failed[0] in page
        assert failed[1] not in page
        assert "No error was recorded" in page
        # failures before the window are no news
        earlier = context.clock() - timedelta(hours=2)
        rows = Delivery.__table__
        async with context.database.write() as connection:
            changed = {"finished_at": earlier}
            await connection.execute(update(rows).where(rows.c.id == failed[0]).values(changed))
        assert "Newest failures" not in (await visitor.get("/dashboard")).text
        assert "Newest failures" in (await visitor.get("/dashboard?window=24h")).text
