"""The catalogue, the audit log, API keys and retention on the pages."""

from __future__ import annotations

import re

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from api.dashboard.pages import filter_choices
from api.http.pagination import Page
from hookfast.clock import utc_now
from hookfast.ids import new_id
from hookfast.storage.retention import retention_runs
from hookfast.storage.tables import RetentionRun
from tests.integration.dashboard.resources import new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Visitor, signed_in, tenant_visitor, text_of
from tests.support.api_client import OPERATOR_KEY

pytestmark = pytest.mark.anyio


async def test_event_type_is_registered_edited_and_deleted(
    app: FastAPI, client: httpx2.AsyncClient, operator: Visitor
) -> None:
    tenant = await new_tenant(client)
    name = f"shop.k{tenant[-10:]}.emptied"
    path = f"/dashboard/event-types/{name}"
    schema = '{"type": "object", "properties": {"cart": {"type": "string"}}}'
    rejected = await operator.post("/dashboard/event-types/new-type", name=name, schema="{")
    assert "this is not JSON" in text_of(rejected.text)
    rejected = await operator.post("/dashboard/event-types/new-type", name=name, schema="[]")
    assert rejected.status_code == 422
    assert "a JSON Schema is an object" in rejected.text
    assert "dict" not in rejected.text
    rejected = await operator.post("/dashboard/event-types/new-type", name="Cart", schema=schema)
    assert rejected.status_code == 422
    await operator.submit("/dashboard/event-types/new-type", name=name, schema=schema)
    page = await operator.get(path)
    assert "Generated from the schema" in page.text
    assert "&#34;cart&#34;: &#34;text&#34;" in page.text
    await operator.submit(
        f"{path}/edit", description="Gone.", schema='{"examples": [{"cart": "c_1"}]}'
    )
    async with tenant_visitor(app, client, tenant) as owner:
        page = await owner.get(path)
        assert "c_1" in page.text
        assert f"{path}/edit" not in page.text
        assert (await owner.get(f"{path}/edit")).status_code == 403
    await operator.submit(f"{path}/delete")
    assert (await operator.get(path)).status_code == 404
    # a name that could be a page's
    text = await operator.submit("/dashboard/event-types/new-type", name="new", schema="")
    assert "new is registered." in text
    assert '<a class="button danger" href="/dashboard/event-types/new/delete">' in text
    # one part, which is picked before the types that have it as a part
    await client.put("/event-types/shop.cart.new", json={})
    picked = (await operator.get("/dashboard/deliveries", params={"event_type": "new"})).text
    assert ' name="event_type" value="new"' in picked
    assert "aria-invalid" not in picked
    await operator.submit("/dashboard/event-types/new/delete")


async def test_schema_is_shown_and_edited_with_its_digits(
    client: httpx2.AsyncClient, operator: Visitor
) -> None:
    schema = '{"multipleOf":0.010,"const":1.10}'
    name = "shop.price.digits"
    await operator.submit("/dashboard/event-types/new-type", name=name, schema=schema)
    page = f"/dashboard/event-types/{name}"
    for path in (page, f"{page}/edit"):
        assert "&#34;multipleOf&#34;: 0.010" in (await operator.get(path)).text
    assert f'"schema":{schema}' in (await client.get(f"/event-types/{name}")).text


async def test_new_event_type_form_rejects_a_taken_name(
    client: httpx2.AsyncClient, operator: Visitor
) -> None:
    kept = {"description": "Kept.", "schema": {"type": "object"}}
    name = (await client.put("/event-types/shop.cart.kept", json=kept)).json()["name"]
    rejected = await operator.post("/dashboard/event-types/new-type", name=name, description="New.")
    assert rejected.status_code == 422
    assert "an event type has this name already" in text_of(rejected.text)
    assert 'value="New."' in rejected.text  # the typed input is still there
    stored = (await client.get(f"/event-types/{name}")).json()
    assert {member: stored[member] for member in kept} == kept


async def test_hookfasts_own_event_types_cannot_be_edited(
    client: httpx2.AsyncClient, operator: Visitor
) -> None:
    name = "hookfast.endpoint.disabled"
    page = await operator.get(f"/dashboard/event-types/{name}")
    assert "emitted by Hookfast itself" in page.text
    assert "/edit" not in page.text
    rejected = await operator.post(f"/dashboard/event-types/{name}/edit", description="mine")
    assert rejected.status_code == 422


async def test_audit_log_shows_the_values_before_and_after(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant, description="Ledger")
    await client.patch(
        f"/endpoints/{endpoint}",
        json={"description": "Books"},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    async with tenant_visitor(app, client, tenant) as visitor:
        page = await visitor.get("/dashboard/audit", params={"action": "endpoint.update"})
        assert "before: Ledger after: Books" in text_of(page.text)
        assert f"/dashboard/endpoints/{endpoint}" in page.text
        assert "endpoint.create" not in page.text.partition("<tbody>")[2]
        created = await visitor.get("/dashboard/audit", params={"action": "endpoint.create"})
        assert re.search(r"<summary>(\w+, ){3}\w+ \+\d+ more</summary>", created.text)
        none = await visitor.get("/dashboard/audit", params={"resource_id": "ep_nothing"})
        assert "No change matches." in none.text


async def test_rejected_api_key_keeps_the_typed_input(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    fields = {"name": "Kept", "scope": "tenant:read", "expires_at": "2020-01-01"}
    async with tenant_visitor(app, client, tenant) as visitor:
        rejected = await visitor.post("/dashboard/api-keys", **fields, back="/dashboard/api-keys")
        assert rejected.status_code == 422
        assert 'value="Kept"' in rejected.text
        assert 'value="tenant:read" selected' in rejected.text
        assert 'name="expires_at" value="2020-01-01" aria-invalid="true"' in rejected.text
        assert "Must be in the future." in text_of(rejected.text)


async def test_api_key_is_created_shown_once_and_revoked(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant = await new_tenant(client)
    async with tenant_visitor(app, client, tenant) as visitor:
        visitor.client.cookies.set("hookfast-zone", "Asia/Kolkata")
        created = await visitor.post(
            "/dashboard/api-keys", name="reports", scope="tenant:read", expires_at="2999-01-31"
        )
        key = created.text.partition('id="key">')[2].partition("<")[0]
        assert key.startswith("hf_")
        listed = await visitor.get("/dashboard/api-keys")
        assert "reports" in listed.text
        assert key not in listed.text
        keys = (await client.get(f"/tenants/{tenant}/api-keys")).json()["data"]
        (one,) = (each for each in keys if each["name"] == "reports")
        # the end of the day in the reader's zone
        assert one["expires_at"].startswith("2999-01-31T18:29:59")
        async with signed_in(app, key) as reader:
            assert (await reader.get("/dashboard/api-keys")).status_code == 403
            await visitor.submit(f"/dashboard/api-keys/{one['id']}/revoke")
            assert (await reader.get("/dashboard")).status_code == 303


async def test_portal_link_is_created_on_its_page(
    app: FastAPI, client: httpx2.AsyncClient, operator: Visitor
) -> None:
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant)
    rejected = await operator.post("/dashboard/portal-links", span="900")
    assert "Choose a tenant first" in text_of(rejected.text)
    async with tenant_visitor(app, client, tenant) as visitor:
        created = await visitor.post(
            "/dashboard/portal-links", span="900", scope="tenant:read", endpoint_id=endpoint
        )
        assert "/portal/open?sig=" in created.text
        assert "read-only, for one endpoint only" in text_of(created.text)


async def test_retention_page_shows_the_ages(operator: Visitor) -> None:
    page = text_of((await operator.get("/dashboard/retention")).text)
    assert "Kept for Attempts 30 d Dead letters 30 d" in page
    asked = text_of((await operator.get("/dashboard/retention/run")).text)
    assert "Delete old rows now? This deletes now" in asked
    # Temporal is unavailable
    text = await operator.submit("/dashboard/retention/count", back="/dashboard/retention")
    assert 'class="flash bad"' in text


async def test_retention_page_shows_what_a_run_did_with_figures(
    context: Context, operator: Visitor
) -> None:
    now = utc_now()
    run = RetentionRun(
        id=new_id("ret", now), status="done", dry_run=False, workflow_id="retention", started_at=now
    )
    async with context.database.write() as connection:
        await retention_runs.begin(connection, run, cutoffs={"deliveries": None})
        await retention_runs.count_figures(connection, run.id, rolled_up=1_234, deleted=5)
        await retention_runs.record_comparison(connection, run.id, endpoints=7, hours=0)
    fine = (
        "Figures: 1,234 rows added up, 5 deleted. The gauges of 7 endpoints were compared with the "
        "rows."
    )
    page = text_of((await operator.get("/dashboard/retention")).text)
    assert fine in page
    assert "please report it" not in page
    async with context.database.write() as connection:
        await retention_runs.count_corrected(connection, run.id, gauges=2)
        await retention_runs.record_comparison(connection, run.id, endpoints=7, hours=3)
    page = text_of((await operator.get("/dashboard/retention")).text)
    gauges = "Gauges that differed from the rows and were corrected: 2. The log has the endpoints"
    assert f"{fine} {gauges}" in page
    assert "In 3 of the last 24 hours, figures differ from the rows. The log says which" in page


async def test_portal_link_form_offers_the_requested_endpoint_even_among_many(
    app: FastAPI, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another endpoint selected, or none, the link would show more than intended."""
    monkeypatch.setattr(filter_choices, "NEWEST", Page(limit=1, after=None))
    tenants = [await new_tenant(client) for _ in range(2)]
    first, _ = [await new_endpoint(client, tenants[0]) for _ in range(2)]
    path = f"/dashboard/portal-links?endpoint_id={first}"
    async with signed_in(app, OPERATOR_KEY) as operator:
        assert "Select a tenant" in (await operator.get(path)).text
        await operator.post("/dashboard/settings/tenant", tenant_id=tenants[0])
        assert f'<option value="{first}" selected>' in (await operator.get(path)).text
        await operator.post("/dashboard/settings/tenant", tenant_id=tenants[1])
        rejected = await operator.get(path)
    assert rejected.status_code == 422
    assert "choose that tenant first" in rejected.text
