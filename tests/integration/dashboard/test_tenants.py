"""The page of a tenant, tenants by their names on other pages, and on the overview."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import event, update

from api.context.context import Context
from hookfast.storage.tables import Endpoint
from tests.integration.dashboard.resources import emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.test_overview import add_attempts, hold, open_circuit
from tests.integration.dashboard.visitor import Visitor, tenant_visitor, text_of

pytestmark = pytest.mark.anyio


async def new_shop(client: httpx2.AsyncClient, context: Context, name: str) -> tuple[str, str]:
    """Create a tenant with a healthy and a broken endpoint, and deliveries. Return the
    ids of the tenant and of the broken endpoint."""
    tenant = await new_tenant(client, name)
    broken = await new_endpoint(client, tenant, description="Till")
    await new_endpoint(client, tenant)
    first, *others = [await emit(client, tenant) for _ in range(6)]
    every = (await client.get("/deliveries", params={"tenant_id": tenant})).json()["data"]
    of_broken = [each["id"] for each in every if each["endpoint_id"] == broken]
    await open_circuit(context, broken)
    await end(context, *[each["id"] for each in every][:9], status="delivered")
    await end(context, first, status="dead", reason="retries_exhausted", endpoint_id=broken)
    await hold(context, others[0], since=context.clock() - timedelta(minutes=1))
    await add_attempts(context, of_broken[0], {"success": 9, "timeout": 1})
    return tenant, broken


async def test_page_of_a_tenant_shows_its_figures_and_its_last_day(
    client: httpx2.AsyncClient, context: Context, operator: Visitor
) -> None:
    tenant, broken = await new_shop(client, context, "Florist")
    metadata = {"plan": "gold", "seats": 3}
    await client.patch(
        f"/tenants/{tenant}", json={"metadata": metadata, "quotas": {"endpoints": 7}}
    )
    page = (await operator.get(f"/dashboard/tenants/{tenant}")).text
    counted = (await client.get("/deliveries", params={"tenant_id": tenant, "limit": 200})).json()
    numbers = {
        status: sum(each["status"] == status for each in counted["data"])
        for status in ("pending", "held", "dead", "delivered")
    }
    text = text_of(page)
    waiting = numbers["pending"] + numbers["held"]
    assert f"Waiting {waiting} {numbers['pending']} pending" in text
    assert "Held 1 until" in text
    assert "Dead letters 1 can be resent" in text
    assert "Endpoints 1 of 2 down 1 healthy 1 circuit open" in text
    assert f"Delivered {numbers['delivered']} of 12 deliveries" in text
    assert "Failed 1" in text
    assert (
        f"Deliveries succeeded {100 * numbers['delivered'] // (1 + numbers['delivered'])}" in text
    )
    assert "Attempts succeeded 90 % of 10 attempts" in text
    assert "Newest failures" in text
    assert f"/dashboard/endpoints/{broken}" in page
    assert "plan: gold seats: 3" in text
    assert "Quotas 2 of 7 endpoints" in text
    assert "Created 20" in text
    for part in ("deliveries", "dead-letters", "events", "api-keys", "audit", "jobs", "sources"):
        assert (await operator.get(f"/dashboard/{part}?tenant_id={tenant}")).status_code == 200
        assert f'<a href="/dashboard/{part}?tenant_id={tenant}">' in page
    for link in set(re.findall(r'class="step" href="([^"]+)"', page)):
        assert f"tenant_id={tenant}" in link


async def test_page_of_a_tenant_leads_to_its_pages_alone_and_to_a_portal_link(
    client: httpx2.AsyncClient, operator: Visitor
) -> None:
    tenant = await new_tenant(client, "Baker")
    path = f"/dashboard/tenants/{tenant}"
    assert "No deliveries in the last 24 hours." in text_of((await operator.get(path)).text)
    try:
        fields = {"tenant_id": tenant, "next": "/dashboard/portal-links"}
        page = await operator.submit("/dashboard/settings/tenant", **fields)
        assert f'the endpoints of <a href="{path}" title="{tenant}">Baker</a>' in page
        page = (await operator.get(path)).text
        assert "Show only this tenant" not in page
        assert "Create a portal link" in page
        assert f'<a href="{path}">Baker</a>' in page.partition("<main")[0]
        # all rows are this tenant's, so none says so
        await new_endpoint(client, tenant)
        listed = (await operator.get("/dashboard/endpoints")).text
        assert path not in listed.partition("<main")[2]
    finally:
        await operator.submit("/dashboard/settings/tenant", tenant_id="")
    assert "Show only this tenant" in (await operator.get(path)).text
    assert f'<a href="{path}">Baker</a>' in (await operator.get("/dashboard/tenants")).text


async def test_key_of_a_tenant_opens_the_page_of_its_own_tenant_only(
    app: FastAPI, client: httpx2.AsyncClient, operator: Visitor
) -> None:
    tenant, other = await new_tenant(client, "Own"), await new_tenant(client, "Other")
    async with tenant_visitor(app, client, tenant, scope="tenant:read") as reader:
        page = (await reader.get(f"/dashboard/tenants/{tenant}")).text
        assert "<h1>Own</h1>" in page
        assert "Show only this tenant" not in page
        assert "/dashboard/api-keys" not in page
        assert 'href="/dashboard/tenants"' not in page
        answer = await reader.get(f"/dashboard/tenants/{other}")
        assert answer.status_code == 404
        assert "<main" in answer.text
    await client.delete(f"/tenants/{other}")
    for live in ("", "live/"):
        for unknown in (other, "tnt_" + "0" * 32, "tnt_1"):
            answer = await operator.get(f"/dashboard/{live}tenants/{unknown}")
            assert answer.status_code == 404, answer.text


async def test_key_of_a_tenant_learns_no_name_of_another(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    tenant, other = await new_tenant(client, "Own"), await new_tenant(client, "Rival Ltd")
    await new_endpoint(client, other)
    await emit(client, other)
    every = {"to": "all", "tenant_id": other}
    async with tenant_visitor(app, client, tenant) as visitor:
        lists = ("deliveries", "dead-letters", "endpoints", "events", "jobs", "sources", "inbox")
        for path in (*lists, "audit", "api-keys", "portal-links", "live/deliveries"):
            assert "Rival" not in (await visitor.get(f"/dashboard/{path}?tenant_id={other}")).text
        for path in (f"tenants/{other}", f"live/tenants/{other}", f"search?q={other}"):
            assert "Rival" not in (await visitor.get(f"/dashboard/{path}")).text
        for path, members in (
            ("deliveries/actions", {"action": "cancel"}),
            ("dead-letters/redrive", {"all": "true"}),
        ):
            answer = await visitor.post(f"/dashboard/{path}", **every, **members)
            assert answer.status_code == 404
            assert "Rival" not in answer.text


async def test_tenants_are_shown_by_their_names(
    client: httpx2.AsyncClient, operator: Visitor
) -> None:
    await new_tenant(client)
    tenant = await new_tenant(client, "Named & Sons")
    endpoint = await new_endpoint(client, tenant)
    delivery = await emit(client, tenant)
    found = (await client.get(f"/deliveries/{delivery}")).json()
    link = f'<a href="/dashboard/tenants/{tenant}" title="{tenant}">Named &amp; Sons</a>'
    ones = [f"deliveries/{delivery}", f"endpoints/{endpoint}", f"events/{found['event_id']}"]
    lists = ("deliveries", "endpoints", "events", "audit", "api-keys")
    filtered = [f"{each}?tenant_id={tenant}" for each in lists]
    for path in [*ones, *filtered]:
        assert link in (await operator.get(f"/dashboard/{path}")).text, path
    await client.delete(f"/tenants/{tenant}")
    for path in (ones[0], ones[2]):
        page = (await operator.get(f"/dashboard/{path}")).text
        assert f'<dd><span class="id">{tenant}</span></dd>' in page, path
        assert f'href="/dashboard/tenants/{tenant}"' not in page


async def test_every_page_of_a_tenants_object_names_it(
    client: httpx2.AsyncClient, operator: Visitor, owned: dict[str, str]
) -> None:
    await new_tenant(client)  # lists say whose a row is where there are several
    tenant = owned["tenant_id"]
    link = f'<a href="/dashboard/tenants/{tenant}" title="{tenant}">Victim</a>'
    for path in (
        "deliveries/{delivery_id}",
        "endpoints/{endpoint_id}",
        "endpoints/{endpoint_id}/tests/{test_id}",
        "events/{event_id}",
        "inbox/{inbox_id}",
        "sources/{source_id}",
        "inbox?tenant_id={tenant_id}",
        "sources?tenant_id={tenant_id}",
    ):
        assert link in (await operator.get(f"/dashboard/{path.format(**owned)}")).text, path
    preview = {"action": "cancel", "to": "all", "tenant_id": tenant}
    assert link in (await operator.post("/dashboard/deliveries/actions", **preview)).text


async def test_counts_of_dead_letters_by_endpoint_name_its_tenant(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, operator: Visitor
) -> None:
    await new_tenant(client)
    tenant, broken = await new_shop(client, context, "Baker")
    path = f"/dashboard/dead-letters?tenant_id={tenant}"
    page = (await operator.get(f"{path}&answer=410")).text
    assert "No dead letter matches" in page  # so the list has loaded no names
    table = by_endpoint(page)
    assert f"endpoint_id={broken}" in table
    assert f'<a href="/dashboard/tenants/{tenant}" title="{tenant}">Baker</a>' in table
    async with tenant_visitor(app, client, tenant) as owner:
        assert "Baker" not in by_endpoint((await owner.get(path)).text)


def by_endpoint(page: str) -> str:
    table = page.partition('id="by-endpoint_id"')[2].partition("</table>")[0]
    assert table
    return table


async def test_names_of_a_list_take_one_statement(
    client: httpx2.AsyncClient, context: Context, operator: Visitor
) -> None:
    for name in ("One", "Two", "Three"):
        await new_endpoint(client, await new_tenant(client, name))
    sent: list[str] = []

    def hear(_: object, __: object, statement: str, *___: object) -> None:
        sent.append(statement)

    engine = context.database._reader.sync_engine
    event.listen(engine, "before_cursor_execute", hear)
    try:
        page = (await operator.get("/dashboard/endpoints?limit=3")).text
    finally:
        event.remove(engine, "before_cursor_execute", hear)
    assert all(f">{name}</a>" in page for name in ("One", "Two", "Three"))
    assert len([each for each in sent if "tenants.name" in each and " IN (" in each]) == 1


async def test_overview_names_the_tenants_that_need_attention(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, operator: Visitor
) -> None:
    await new_tenant(client)
    tenant, _ = await new_shop(client, context, "Troubled")
    by_person, failed = [await new_endpoint(client, tenant) for _ in range(2)]
    assert (await client.post(f"/endpoints/{by_person}/disable")).is_success
    stopped = {"state": "disabled", "state_reason": "Failing for five days."}
    rows = Endpoint.__table__
    async with context.database.write() as connection:
        await connection.execute(update(rows).where(rows.c.id == failed).values(stopped))
    page = (await operator.get("/dashboard")).text
    table = page.partition('aria-label="Tenants that need attention"')[2].partition("</table>")[0]
    row = next(each for each in table.split("<tr") if tenant in each)
    assert f'<a href="/dashboard/tenants/{tenant}">Troubled</a>' in row
    assert "1 circuit open" in row
    # the list of disabled endpoints has two, so this is no link to it
    assert "1 disabled by Hookfast" in row
    assert "health=disabled" not in row
    assert f'href="/dashboard/deliveries?status=held&amp;tenant_id={tenant}">1</a>' in row
    assert f'href="/dashboard/dead-letters?tenant_id={tenant}">1</a>' in row
    async with tenant_visitor(app, client, tenant) as owner:
        assert "Tenants that need attention" not in (await owner.get("/dashboard")).text
    try:
        page = await operator.submit("/dashboard/settings/tenant", tenant_id=tenant)
        assert "Tenants that need attention" not in page
    finally:
        await operator.submit("/dashboard/settings/tenant", tenant_id="")
