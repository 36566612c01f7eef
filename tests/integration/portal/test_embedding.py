"""The portal in a frame of another site, and its look."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx2
import pytest
from fastapi import FastAPI

from hookfast.settings.settings import Settings
from tests.integration.dashboard.resources import new_tenant
from tests.integration.dashboard.visitor import Visitor, text_of
from tests.integration.portal.links import Portal, customer, guest
from tests.support.api_client import assert_problem

pytestmark = pytest.mark.anyio

HOST = "https://app.example.com"
FRAMED = {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"}
ACCENT = re.compile(r'href="(/portal/accent/[0-9a-f]{6}\.css)\?')


@pytest.fixture
async def allowing(app: FastAPI, settings: Settings) -> AsyncIterator[None]:
    """Allow one site to embed the portal."""
    changed = settings.model_copy(update={"portal_frame_origins": (HOST,)})
    before = app.state.context
    app.state.context = replace(before, settings=changed)
    yield
    app.state.context = before


def directives(answer: httpx2.Response) -> dict[str, str]:
    """Return the directives of the content security policy."""
    policy = answer.headers["content-security-policy"]
    return dict(each.strip().split(" ", 1) for each in policy.split(";"))


async def test_nobody_may_frame_the_portal_unless_the_settings_say_so(portal: Portal) -> None:
    async with portal.customer(portal.own) as visitor:
        page = await visitor.get("/portal/endpoints")
    assert directives(page)["frame-ancestors"] == "'none'"


@pytest.mark.usefixtures("allowing")
async def test_only_allowed_sites_may_frame_the_portal_and_none_the_dashboard(
    portal: Portal,
) -> None:
    async with portal.customer(portal.own) as visitor:
        for path in ("/portal/endpoints", "/portal/nothing", "/portal/ended", "/guide"):
            page = await visitor.get(path)
            assert directives(page)["frame-ancestors"] == HOST, path
            assert "x-frame-options" not in page.headers
        page = await visitor.get("/dashboard/sign-in")
        assert directives(page)["frame-ancestors"] == "'none'"


@pytest.mark.usefixtures("allowing")
async def test_session_in_a_frame_has_a_cookie_that_browsers_send_there(portal: Portal) -> None:
    path = (await portal.link(portal.own, scope="tenant")).partition("/portal")[2]
    async with portal.guest(origin="https://hooks.example.com") as visitor:
        opened = await visitor.get(f"/portal{path}", headers=FRAMED)
        cookie = opened.headers.get_list("set-cookie")[0].lower()
        assert cookie.startswith("__host-hookfast-portal=")
        for attribute in ("secure", "httponly", "samesite=none", "partitioned", "path=/"):
            assert f"; {attribute}" in cookie, attribute
        page = await visitor.get("/portal/endpoints", headers=FRAMED)
        assert page.status_code == 200
        assert 'class="brand"' not in page.text  # the site around it has its own header
        assert "/portal/sign-out" not in page.text
    async with portal.guest(origin="https://hooks.example.com") as visitor:
        opened = await visitor.get(f"/portal{path}", headers={"Sec-Fetch-Dest": "document"})
        cookie = opened.headers.get_list("set-cookie")[0].lower()
        assert "samesite=lax" in cookie
        assert "partitioned" not in cookie


@pytest.mark.usefixtures("allowing")
async def test_form_from_another_site_is_rejected_although_its_cookie_is_sent(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    path = f"/portal/endpoints/{shop['endpoint_id']}/pause"
    async with customer(app, client, shop["tenant_id"]) as visitor:
        fields = {"csrf": await visitor.csrf(), "once": "x" * 22}
        sent = await visitor.client.post(path, data=fields, headers=FRAMED)
        assert sent.status_code == 403
        sent = await visitor.client.post(path, data=fields | {"csrf": "0" * 64})
        assert sent.status_code == 403
    assert (await client.get(f"/endpoints/{shop['endpoint_id']}")).json()["state"] == "enabled"


async def look(visitor: Visitor) -> tuple[str, str]:
    """Return the theme and the style sheet of the accent colour of a page."""
    page = (await visitor.get("/portal/endpoints")).text
    theme = re.search(r'<html lang="en"(?: data-theme="(\w+)")?', page)
    accent = ACCENT.search(page)
    assert theme is not None
    assert accent is not None
    return theme[1] or "", accent[1]


async def test_theme_and_accent_of_the_embedding_page_are_kept(portal: Portal) -> None:
    url = await portal.link(portal.own)
    async with portal.guest() as visitor:
        assert (await visitor.get(f"{url}&theme=dark&accent=0ea5e9")).status_code == 303
        assert await look(visitor) == ("dark", "/portal/accent/0ea5e9.css")
        style = await visitor.get("/portal/accent/0ea5e9.css")
        assert "--accent:#0ea5e9" in style.text
        assert style.headers["content-type"].startswith("text/css")
        # without a colour, it is the platform's again
        await visitor.get(f"{url}&theme=light")
        assert await look(visitor) == ("light", "/portal/accent/4338ca.css")
        # a forged cookie is no style sheet's address
        visitor.client.cookies.set("hookfast-portal-accent", "../evil")
        assert (await look(visitor))[1] == "/portal/accent/4338ca.css"


@pytest.mark.parametrize("query", ["theme=pink", "accent=red", "accent=%23fff", "accent=4338ca%3B"])
async def test_wrong_look_is_explained_to_the_builder_of_the_page(
    portal: Portal, query: str
) -> None:
    url = await portal.link(portal.own)
    async with portal.guest() as visitor:
        answer = await visitor.get(f"{url}&{query}")
    assert answer.status_code == 422
    assert "such as #4338ca" in answer.text or "`light` or `dark`" in text_of(answer.text)


async def test_accents_style_sheet_takes_nothing_but_a_colour(app: FastAPI) -> None:
    async with guest(app) as visitor:
        for color in ("4338CA", "fff", "4338ca0", "..%2f..", "4338c%7d"):
            answer = await visitor.get(f"/portal/accent/{color}.css")
            assert answer.status_code in (303, 404, 422), color
            assert "text/css" not in answer.headers.get("content-type", "")


async def test_portal_has_the_name_logo_and_colour_of_its_tenant(
    app: FastAPI, client: httpx2.AsyncClient
) -> None:
    own = {
        "name": 'Shop & "Sons" <b>',
        "logo_url": "https://cdn.example.com:8443/a.svg?x=1",
        "accent": "#00AA77",
    }
    made = await client.post("/tenants", json={"name": "Acme", "portal": own})
    assert made.json()["portal"] == own | {"accent": "#00aa77"}
    tenant = made.json()["id"]
    async with customer(app, client, tenant) as visitor:
        page = await visitor.get("/portal/endpoints")
        assert "Shop &amp; &#34;Sons&#34; &lt;b&gt;" in page.text
        assert "<b>" not in page.text
        assert directives(page)["img-src"] == "'self' https://cdn.example.com:8443"
        assert await look(visitor) == ("", "/portal/accent/00aa77.css")
        changed = await client.patch(f"/tenants/{tenant}", json={"portal": {"logo_url": None}})
        assert changed.json()["portal"]["logo_url"] is None
        assert changed.json()["portal"]["name"] == own["name"]
        page = await visitor.get("/portal/endpoints")
    assert directives(page)["img-src"] == "'self'"
    entries = await client.get("/audit", params={"resource_id": tenant, "action": "tenant.update"})
    assert "logo_url" in str(entries.json()["data"][0]["changes"])


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("accent", "red"),
        ("logo_url", "http://cdn.example.com/a.svg"),
        ("logo_url", "https://a.example;script-src/x"),
        ("name", ""),
        ("name", "x" * 81),
        ("font", "Comic Sans"),
    ],
)
async def test_wrong_look_of_a_tenant_is_rejected(
    client: httpx2.AsyncClient, member: str, value: str
) -> None:
    tenant = await new_tenant(client)
    answer = await client.patch(f"/tenants/{tenant}", json={"portal": {member: value}})
    assert_problem(answer, 422, code="invalid_input", pointer=f"/portal/{member}")
