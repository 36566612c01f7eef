"""No page links to a page that its visitor may not see."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from tests.integration.dashboard.resources import emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Visitor, tenant_visitor

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


@pytest.mark.parametrize("scope", ["tenant", "tenant:read"])
async def test_sessions_of_a_tenants_keys_see_no_dead_links(
    app: FastAPI, client: httpx2.AsyncClient, busy_shop: dict[str, str], scope: str
) -> None:
    async with tenant_visitor(app, client, busy_shop["tenant_id"], scope=scope) as visitor:
        found = [each async for each in pages(visitor, "/dashboard", busy_shop["job"])]
    assert [each for each in found if each[2] != 200] == []
    assert len(found) > 10
