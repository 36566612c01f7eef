"""Customers see the figures of what their link leads to, and nobody else's."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from hookfast.deliveries.figures import Owner, State, Tally, minute_of
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.storage.counting import entries
from tests.integration.dashboard.resources import new_endpoint, new_tenant
from tests.integration.dashboard.visitor import text_of
from tests.integration.portal.links import customer

pytestmark = pytest.mark.anyio


async def _endpoint(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    *,
    delivered: int,
    failed: int = 0,
    hours_ago: int = 1,
) -> str:
    """Create an endpoint with so many messages of this many hours ago; return its id."""
    endpoint = await new_endpoint(client, tenant)
    owner = Owner(tenant, endpoint, "order.invoice.paid")
    at = context.clock() - timedelta(hours=hours_ago)
    tally = Tally()
    for number in range(delivered + failed):
        worked = number < delivered
        status = DeliveryStatus.DELIVERED if worked else DeliveryStatus.DEAD
        state = State(status, None if worked else "retries_exhausted", at)
        tally.delivery(owner, minute_of(at), None, state)
        tally.ended(owner, state, took=timedelta(seconds=1) if worked else None)
        if not worked:
            tally.ended(owner, state, took=None)  # sent again, and failed again: still one message
        result, code = (Result.SUCCESS, 200) if worked else (Result.STATUS, 503)
        tally.attempt(owner, at, result, code, 80, first=True)
    async with context.database.write() as connection:
        await entries.write(connection, tally.numbers())
    return endpoint


def _tiles(html: str) -> dict[str, str]:
    """Return the values of a page's tiles by their names."""
    return dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", html))


async def test_a_customer_sees_the_figures_of_all_endpoints_and_of_each(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    first = await _endpoint(client, context, tenant, delivered=18, failed=2)
    await _endpoint(client, context, tenant, delivered=1_200)
    # not in the 24 hours that end with this one
    await _endpoint(client, context, tenant, delivered=9, hours_ago=24)
    await _endpoint(client, context, await new_tenant(client), delivered=5_000)
    async with customer(app, client, tenant, scope="tenant:read") as visitor:
        every = (await visitor.get("/portal/endpoints")).text
        one = (await visitor.get(f"/portal/endpoints/{first}")).text
    tiles = _tiles(every)
    assert (tiles["Delivered"], tiles["Failed"]) == ("1,218", "2")
    assert tiles["Attempts"] == "1,220"
    assert "99.83 % succeeded" in text_of(every)
    assert _tiles(one)["Delivered, 24 hours"] == "18"
    text = text_of(one)
    assert "90 % of finished" in text
    assert "20 attempts, of which 18 succeeded" in text
    assert "20 attempts: 18 success, 2 5xx" in text
    assert re.search(r"Response time 7\d ms 95 % within 7\d ms", text)


async def test_a_link_to_one_endpoint_shows_its_figures_only(
    app: FastAPI, client: httpx2.AsyncClient, context: Context
) -> None:
    tenant = await new_tenant(client)
    own = await _endpoint(client, context, tenant, delivered=7)
    other = await _endpoint(client, context, tenant, delivered=1_200)
    async with customer(app, client, tenant, endpoint_id=own) as visitor:
        shown = (await visitor.get(f"/portal/endpoints/{own}")).text
        assert (await visitor.get(f"/portal/endpoints/{other}")).status_code == 404
        assert (await visitor.get(f"/portal/live/endpoints/{other}")).status_code == 404
    assert _tiles(shown)["Delivered, 24 hours"] == "7"
    assert "1,20" not in shown


async def test_without_attempts_there_is_no_chart(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    async with customer(app, client, shop["tenant_id"]) as visitor:
        for path in ("/portal/endpoints", f"/portal/endpoints/{shop['endpoint_id']}"):
            page = (await visitor.get(path)).text
            assert _tiles(page)["Response time"] == "–"
            assert '<svg class="plot"' not in page
