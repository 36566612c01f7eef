"""A form does not revert a change that was made after it was opened, and keeps its input."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from tests.integration.api.inbound import SECRET
from tests.integration.dashboard.resources import new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Forms, Visitor, tenant_visitor, text_of

pytestmark = pytest.mark.anyio

CHOSEN = {"verification": "none", "plan": "hourly", "signatures": ["hook", "standard"]}
PATCH = {"content-type": "application/merge-patch+json"}
CHANGED = "Somebody changed this after you opened the form."


def sent_by(page: str, action: str) -> dict[str, Any]:
    """Return the typed and hidden fields of the form with this action."""
    [hidden] = [fields for _, found, fields in Forms(page).found if found == action]
    typed = re.findall(r'<input type="(?:text|url)" name="(\w+)" value="([^"]*)"', page)
    areas = re.findall(r'<textarea name="(\w+)"[^>]*>([^<]*)</textarea>', page)
    return hidden | {name: unescape(value) for name, value in (*typed, *areas)}


async def test_stale_endpoint_settings_conflict(app: FastAPI, client: httpx2.AsyncClient) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant, description="Old", owner_emails=["a@b.example"])
    path = f"/dashboard/endpoints/{endpoint}/settings"
    async with tenant_visitor(app, client, tenant) as visitor:
        form = sent_by((await visitor.get(path)).text, path) | CHOSEN
        await client.patch(
            f"/endpoints/{endpoint}", json={"owner_emails": ["new@b.example"]}, headers=PATCH
        )
        rejected = await visitor.post(path, **form | {"description": "New"})
        assert rejected.status_code == 409
        assert CHANGED in text_of(rejected.text)
        assert 'value="New"' in rejected.text
        stored = (await client.get(f"/endpoints/{endpoint}")).json()
        assert (stored["description"], stored["owner_emails"]) == ("Old", ["new@b.example"])
        # sending the new form overwrites the change
        again = sent_by(rejected.text, path) | CHOSEN
        assert "The settings are saved." in await visitor.submit(path, **again)
    stored = (await client.get(f"/endpoints/{endpoint}")).json()
    assert (stored["description"], stored["owner_emails"]) == ("New", ["a@b.example"])


async def test_stale_source_settings_conflict(app: FastAPI, client: httpx2.AsyncClient) -> None:
    tenant = await new_tenant(client)
    new = {"tenant_id": tenant, "name": "Old", "provider": "github", "secrets": [SECRET]}
    source = (await client.post("/sources", json=new)).json()["id"]
    path = f"/dashboard/sources/{source}/settings"
    async with tenant_visitor(app, client, tenant) as visitor:
        form = sent_by((await visitor.get(path)).text, path)
        await client.patch(f"/sources/{source}", json={"id_expression": "id"}, headers=PATCH)
        rejected = await visitor.post(path, **form | {"name": "New"})
        assert rejected.status_code == 409
        assert CHANGED in text_of(rejected.text)
        assert 'value="New"' in rejected.text
        stored = (await client.get(f"/sources/{source}")).json()
        assert (stored["name"], stored["id_expression"]) == ("Old", "id")
        await visitor.submit(path, **sent_by(rejected.text, path))
    stored = (await client.get(f"/sources/{source}")).json()
    assert (stored["name"], stored["id_expression"]) == ("New", None)


async def test_stale_event_type_form_conflicts(
    client: httpx2.AsyncClient, operator: Visitor
) -> None:
    name = "shop.basket.filled"
    await client.put(f"/event-types/{name}", json={"description": "Old"})
    path = f"/dashboard/event-types/{name}/edit"
    form = sent_by((await operator.get(path)).text, path)
    await client.put(f"/event-types/{name}", json={"description": "Old", "schema": True})
    rejected = await operator.post(path, **form | {"description": "New"})
    assert rejected.status_code == 409
    assert CHANGED in text_of(rejected.text)
    assert 'value="New"' in rejected.text
    assert (await client.get(f"/event-types/{name}")).json()["schema"] is True
    await operator.submit(path, **sent_by(rejected.text, path))
    stored = (await client.get(f"/event-types/{name}")).json()
    assert (stored["description"], stored["schema"]) == ("New", None)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (
            "/dashboard/endpoints/new",
            {"url": "http://127.0.0.1:4/hook", "verification": "none", "signatures": "hook"},
        ),
        ("/dashboard/sources/new", {"name": "Kept", "provider": "github"}),
    ],
)
async def test_unknown_tenant_keeps_the_typed_input(
    operator: Visitor, path: str, fields: dict[str, str]
) -> None:
    fields = fields | {"description": "Kept", "tenant_id": f"tnt_{'0' * 31}1"}
    rejected = await operator.post(path, **fields)
    assert rejected.status_code == 422
    assert "tenant id : there is no such tenant" in text_of(rejected.text)
    assert 'value="Kept"' in rejected.text
