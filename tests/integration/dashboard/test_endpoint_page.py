"""The page of an endpoint as the answer to a form: it shows the result and working forms."""

from __future__ import annotations

import httpx2
import pytest
from fastapi import FastAPI

from tests.integration.dashboard.resources import EVENT_TYPE, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Forms, tenant_visitor, text_of
from tests.support.api_client import event_type_maker

pytestmark = pytest.mark.anyio


async def test_buttons_beside_a_test_result_return_to_the_endpoint(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    await event_type_maker(client)(EVENT_TYPE)
    tenant = await new_tenant(client)
    path = f"/dashboard/endpoints/{await new_endpoint(client, tenant)}"
    async with tenant_visitor(app, client, tenant) as visitor:
        for button in ("pause", "resume", "enable"):
            if button == "enable":
                await visitor.post(f"{path}/disable")
            tested = await visitor.post(f"{path}/test", type=EVENT_TYPE, back=path)
            assert "Test: order.invoice.paid" in text_of(tested.text)
            [fields] = [
                fields for _, to, fields in Forms(tested.text).found if to == f"{path}/{button}"
            ]
            text = await visitor.post(f"{path}/{button}", back=fields["back"])
            assert text.headers["location"] == path


async def test_rejected_subscription_keeps_the_typed_input(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    path = f"/dashboard/endpoints/{await new_endpoint(client, tenant)}"
    fields = {"events": "user.team.*, User.Account", "payload": "thin", "back": path}
    async with tenant_visitor(app, client, tenant) as visitor:
        rejected = await visitor.post(f"{path}/subscriptions", **fields)
        assert rejected.status_code == 422
        assert 'value="user.team.*, User.Account"' in rejected.text
        assert 'value="thin" selected' in rejected.text
        assert "Events/1: a pattern is an event type" in text_of(rejected.text)
        assert 'aria-describedby="events-error"' in rejected.text
