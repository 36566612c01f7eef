"""The parts that every page shares: the tenant, theme, notices, errors and static files."""

from __future__ import annotations

import re

import httpx2
import pytest
from fastapi import FastAPI

from tests.integration.dashboard.resources import new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Visitor, signed_in, tenant_visitor
from tests.support.api_client import OPERATOR_KEY

pytestmark = pytest.mark.anyio

FILES = (
    *("mark.svg", "icons.svg", "site.css", "frame.css", "tables.css", "charts.css"),
    *("dashboard.css", "site.js"),
)


async def test_operator_switches_between_one_tenant_and_all(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    one, other = await new_tenant(client, "One"), await new_tenant(client, "Other")
    ids = [await new_endpoint(client, tenant) for tenant in (one, other)]
    async with signed_in(app, OPERATOR_KEY) as visitor:
        await visitor.submit("/dashboard/settings/tenant", tenant_id=one)
        page = (await visitor.get("/dashboard/endpoints")).text
        assert ids[0] in page
        assert ids[1] not in page
        assert 'name="tenant_id"' not in (await visitor.get("/dashboard/endpoints/new")).text
        await visitor.submit("/dashboard/settings/tenant", tenant_id="")
        page = (await visitor.get("/dashboard/endpoints")).text
        assert ids[0] in page
        assert ids[1] in page
        text = await visitor.submit("/dashboard/tenants", name="Third")
        assert "Tenant Third is created." in text


async def test_the_theme_is_remembered(operator: Visitor) -> None:
    page = await operator.submit("/dashboard/settings/theme", theme="dark", back="/dashboard")
    assert 'data-theme="dark"' in page
    page = await operator.submit("/dashboard/settings/theme", theme="", back="/dashboard")
    assert "data-theme=" not in page


async def test_notice_is_shown_once_and_only_to_its_visitor(
    app: FastAPI, operator: Visitor, client: httpx2.AsyncClient, owned: dict[str, str]
) -> None:
    answer = await operator.post("/dashboard/tenants", name="")
    assert answer.status_code == 422  # without `back`: a page of its own
    answer = await operator.post("/dashboard/tenants", name="", back="/dashboard/tenants")
    assert answer.status_code == 303
    flash = operator.client.cookies["hookfast-flash"]
    async with tenant_visitor(app, client, owned["tenant_id"]) as other:
        other.client.cookies.set("hookfast-flash", flash)
        assert "at least 1 character" not in (await other.get("/dashboard")).text
        other.client.cookies.set("hookfast-flash", "made up")
        assert (await other.get("/dashboard")).status_code == 200
    assert "at least 1 character" in (await operator.get("/dashboard/tenants")).text
    assert "at least 1 character" not in (await operator.get("/dashboard/tenants")).text


async def test_errors_are_html_pages(operator: Visitor) -> None:
    for path, status in (
        ("/dashboard/nothing", 404),
        ("/dashboard/endpoints/ep_1", 404),
        ("/dashboard/deliveries?status=lost", 422),
        ("/dashboard/deliveries?wrong=%ff", 422),
        ("/dashboard/deliveries?event_type=%00", 422),
        ("/dashboard/deliveries?status=&event_type=&endpoint_id=", 200),
    ):
        answer = await operator.get(path)
        assert answer.status_code == status, path
        assert answer.headers["content-type"].startswith("text/html"), path
        assert '<main id="main"' in answer.text, path


async def test_static_files_are_cached_for_good_under_hashed_names(
    operator: Visitor,
) -> None:
    page = (await operator.get("/dashboard")).text
    files = set(re.findall(r'"(/assets/[^"#]+)', page))
    names = {re.sub(r"\.[0-9a-f]{16}\.", ".", file) for file in files}
    assert names == {f"/assets/{each}" for each in FILES}
    for file in files:
        answer = await operator.get(file)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert (await operator.get("/assets/site.css")).status_code == 404
    assert (await operator.get("/assets/..%2fpage.py")).status_code == 404
