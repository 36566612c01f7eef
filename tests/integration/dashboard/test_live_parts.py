"""Live parts of pages: which messages they send, and when they end."""

from __future__ import annotations

from datetime import timedelta

import httpx2
import pytest
from fastapi import FastAPI, Request

from api.access.authentication import Principal
from api.context.context import Context
from api.dashboard.site import DASHBOARD
from api.http.pagination import Page
from api.routes.deliveries import list_deliveries
from api.site import live
from api.site.page import View
from tests.integration.dashboard.resources import emit, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Visitor, signed_in
from tests.support.api_client import OPERATOR_KEY

pytestmark = pytest.mark.anyio


async def test_live_part_does_not_change_with_time_alone(
    app: FastAPI, context: Context, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    await new_endpoint(client, tenant)
    await emit(client, tenant)
    operator = Principal(scope="operator", tenant_id=None, key_id="key_1")
    listing = await list_deliveries(Page(10, None), context, operator, tenant_id=tenant)
    request = Request({"type": "http", "query_string": b"", "path": "/", "headers": []})

    def rendered(*, live: bool, later: timedelta) -> str:
        now = context.clock() + later
        view = View(
            site=DASHBOARD, request=request, context=context, now=now, visitor=None, live=live
        )
        return view.html("delivery_rows.html", listing=listing, names={})

    hour = timedelta(hours=1)
    assert rendered(live=False, later=hour) != rendered(live=False, later=2 * hour)
    assert rendered(live=True, later=hour) == rendered(live=True, later=2 * hour)


async def test_live_part_sends_changes_and_ends_with_the_session(
    app: FastAPI, operator: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ["<p>one\ntwo</p>", "<p>one\ntwo</p>", "<p>three</p>", "<p>four</p>"]
    looks: list[float] = []

    def refresh_delay(every: float, *, took: float) -> float:
        looks.append(took)
        return every

    monkeypatch.setattr(live, "refresh_delay", refresh_delay)
    async with signed_in(app, OPERATOR_KEY) as visitor:
        request = visitor.client.build_request("GET", "/dashboard/live/overview")
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/dashboard/live/overview",
            "query_string": b"",
            "headers": [(b"cookie", request.headers["cookie"].encode())],
            "scheme": "http",
            "server": ("hookfast.test", 80),
            "app": app,
            "state": {},
        }
        context: Context = app.state.context
        view = View(
            site=DASHBOARD,
            request=Request(scope),
            context=context,
            now=context.clock(),
            visitor=None,
        )

        async def render() -> str:
            if len(said) == 1:
                await visitor.post("/dashboard/sign-out")
            return said.pop(0)

        messages = [message async for message in live.messages(view, render, every=0.001)]
    assert messages == [
        b"retry: 2000\n\n",
        b"data: <p>one\ndata: two</p>\n\n",
        b":\n\n",
        b"data: <p>three</p>\n\n",
    ]  # the session ended while the last one was rendered
    assert len(looks) == 3
