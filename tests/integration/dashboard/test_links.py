"""No page links to a page that its visitor may not see."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape

import httpx2
import pytest
from fastapi import FastAPI
from tests.integration.dashboard.portal import link

from api.process.context import Context
from tests.integration.dashboard.resources import emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Visitor, browser, tenant_visitor

pytestmark = pytest.mark.anyio

LINK = re.compile(r'<a [^>]*?href="(/dashboard[^"]*)"')
LASTS = 200
"""More pages than exist: links to a list with different filters count as one page."""


@pytest.fixture
async def busy_shop(app: FastAPI, client: httpx2.AsyncClient, context: Context) -> dict[str, str]:
    """A tenant with an endpoint, a failed delivery, one in progress, and a job."""
    tenant = await new_tenant(client)
    endpoint_id = await new_endpoint(client, tenant)
    await end(context, await emit(client, tenant))
    await emit(client, tenant)
    async with tenant_visitor(app, client, tenant) as visitor:
        path = f"/dashboard/endpoints/{endpoint_id}/recover"
        job = await visitor.post(path, since="2020-01-01T00:00:00Z")
    return {"tenant_id": tenant, "endpoint_id": endpoint_id, "job": job.headers["location"]}


async def pages(visitor: Visitor, *starts: str) -> AsyncIterator[tuple[str, str, int]]:
    """Follow every link. Yield the page with the link, the linked path, and its status."""
    waiting = [("", start) for start in starts]
    seen: set[str] = set()
    while waiting and len(seen) < LASTS:
        origin, path = waiting.pop()
        place = path.partition("?")[0].partition("#")[0]
        if place in seen:
            continue
        seen.add(place)
        answer = await visitor.client.get(path, follow_redirects=True)
        yield origin, path, answer.status_code
        waiting += [(path, unescape(found)) for found in LINK.findall(answer.text)]


@pytest.mark.parametrize(
    ("scope", "of_one"), [("tenant", True), ("tenant:read", True), ("tenant", False)]
)
async def test_portal_link_sessions_see_no_dead_links(
    app: FastAPI, client: httpx2.AsyncClient, busy_shop: dict[str, str], scope: str, of_one: bool
) -> None:
    narrowed = {"endpoint_id": busy_shop["endpoint_id"]} if of_one else {}
    async with browser(app) as visitor:
        await visitor.get(await link(client, busy_shop["tenant_id"], scope=scope, **narrowed))
        found = [each async for each in pages(visitor, "/dashboard", busy_shop["job"])]
    assert [each for each in found if each[2] != 200] == []
    assert len(found) > 6


async def test_delivery_page_links_its_event_only_if_the_visitor_may_see_it(
    app: FastAPI, client: httpx2.AsyncClient, busy_shop: dict[str, str]
) -> None:
    found = await client.get("/deliveries", params={"endpoint_id": busy_shop["endpoint_id"]})
    delivery = found.json()["data"][0]
    for narrowed, linked in (({"endpoint_id": busy_shop["endpoint_id"]}, False), ({}, True)):
        async with browser(app) as visitor:
            await visitor.get(await link(client, busy_shop["tenant_id"], **narrowed))
            page = await visitor.get(f"/dashboard/deliveries/{delivery['id']}")
            assert delivery["event_id"] in page.text
            assert (f'href="/dashboard/events/{delivery["event_id"]}"' in page.text) is linked
