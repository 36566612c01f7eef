"""Portal links open a session for anyone who has one, until they expire; actions are audited."""

from __future__ import annotations

from datetime import timedelta

import httpx2
import pytest
from fastapi import FastAPI

from api.dashboard.pages import filter_choices
from api.http.pagination import Page
from api.process.context import Context
from hookfast.owners.notice import owner_hash
from hookfast.signing.portal_link import OwnerLinks
from tests.integration.dashboard.portal import OWN, link
from tests.integration.dashboard.resources import end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import ORIGIN, Forms, Visitor, browser, signed_in
from tests.support.api_client import OPERATOR_KEY, KeyClient, assert_problem

pytestmark = pytest.mark.anyio


async def test_portal_link_becomes_a_session_and_leaves_the_address(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    url = await link(client, shop["tenant_id"])
    async with browser(app) as visitor:
        answer = await visitor.get(url)
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        page = await visitor.get("/dashboard/endpoints")
    assert "Shop" in page.text
    assert "read only" in page.text
    assert url.rpartition("=")[2] not in page.text


async def test_portal_link_opens_more_than_once(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    """Virus scanners of mail follow links too."""
    url = await link(client, shop["tenant_id"])
    for _ in range(2):
        async with browser(app) as visitor:
            assert (await visitor.get(url)).headers["location"] == "/dashboard"


async def test_tenant_link_shows_the_tenants_pages_but_creates_no_keys(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    async with browser(app) as visitor:
        await visitor.get(await link(client, shop["tenant_id"], scope="tenant"))
        assert (await visitor.get(OWN.format(**shop))).status_code == 200
        menu = await visitor.get("/dashboard/deliveries")
        assert "/dashboard/api-keys" not in menu.text
        # a key would outlive the session
        assert (await visitor.get("/dashboard/api-keys")).status_code == 404
        answer = await visitor.post("/dashboard/api-keys", name="kept", scope="tenant")
        assert answer.status_code == 404
    kept = await client.get(f"/tenants/{shop['tenant_id']}/api-keys")
    assert kept.json()["data"] == []


@pytest.mark.parametrize("made_by", ["operator", "tenant"])
async def test_actions_by_portal_link_hide_the_operators_key_from_the_tenant(
    app: FastAPI,
    client: httpx2.AsyncClient,
    context: Context,
    shop: dict[str, str],
    key_client: KeyClient,
    made_by: str,
) -> None:
    await end(context, shop["delivery_id"])
    async with key_client(shop["tenant_id"]) as theirs, browser(app) as visitor:
        maker = client if made_by == "operator" else theirs
        url = await link(maker, shop["tenant_id"], scope="tenant", endpoint_id=shop["endpoint_id"])
        (created,) = (await client.get("/audit", params={"action": "portal_link.create"})).json()[
            "data"
        ][:1]
        await visitor.get(url)
        sent = await visitor.post(
            "/dashboard/dead-letters/redrive/run", to="all", endpoint_id=shop["endpoint_id"]
        )
        job_page = await visitor.get(sent.headers["location"])
        visible_key = created["key_id"] if made_by == "tenant" else None

        (entry, *_) = (await theirs.get("/audit", params={"action": "dead_letter.redrive"})).json()[
            "data"
        ]
        assert (entry["actor"], entry["key_id"]) == ("portal", visible_key)
        assert entry["client_address"] == "203.0.113.1"
        assert created["key_id"] not in job_page.text or visible_key
        path = sent.headers["location"].removeprefix("/dashboard")
        (listed,) = (await theirs.get("/jobs")).json()["data"]
        assert [each["requested_by"] for each in (listed, (await theirs.get(path)).json())] == [
            visible_key,
            visible_key,
        ]
        assert (await theirs.post(f"{path}/cancel")).json()["requested_by"] == visible_key
        by_key = (await theirs.get("/audit", params={"key_id": created["key_id"]})).json()["data"]
        assert bool(by_key) is (made_by == "tenant")
        # the operator sees the key
        assert (await client.get(path)).json()["requested_by"] == created["key_id"]
        (seen, *_) = (await client.get("/audit", params={"action": "dead_letter.redrive"})).json()[
            "data"
        ]
        assert (seen["actor"], seen["key_id"]) == ("portal", created["key_id"])


async def test_audit_log_still_shows_a_tenant_its_revoked_keys(
    client: httpx2.AsyncClient, shop: dict[str, str], key_client: KeyClient
) -> None:
    async with key_client(shop["tenant_id"]) as first, key_client(shop["tenant_id"]) as second:
        await first.post(f"/endpoints/{shop['endpoint_id']}/pause")
        (paused, *_) = (await first.get("/audit")).json()["data"]
        assert (await client.delete(f"/api-keys/{paused['key_id']}")).status_code == 204
        entries = (await second.get("/audit", params={"key_id": paused["key_id"]})).json()["data"]
    assert entries == [paused]


async def test_revoking_the_key_ends_its_portal_links_and_their_sessions(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str], key_client: KeyClient
) -> None:
    async with key_client(shop["tenant_id"], scope="tenant") as maker, browser(app) as visitor:
        url = await link(maker, shop["tenant_id"])
        await visitor.get(url)
        assert (await visitor.get("/dashboard")).status_code == 200
        (key,) = (await client.get(f"/tenants/{shop['tenant_id']}/api-keys")).json()["data"]
        await client.delete(f"/api-keys/{key['id']}")
        assert (await visitor.get("/dashboard")).status_code == 303
        answer = await visitor.get(url)
    assert answer.status_code == 401
    assert "no longer valid" in answer.text


async def test_portal_session_lasts_two_hours_even_if_the_link_lasts_longer(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    async with browser(app) as visitor:
        answer = await visitor.get(
            await link(client, shop["tenant_id"], expires_in_seconds=604_800)
        )
    assert "Max-Age=7200;" in answer.headers["set-cookie"]


async def test_signed_in_visitor_confirms_before_a_link_replaces_the_session(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    url = await link(client, shop["tenant_id"])
    async with signed_in(app, OPERATOR_KEY) as visitor:
        page = await visitor.get(url)
        assert page.status_code == 200
        assert "Open this link?" in page.text
        assert (await visitor.get("/dashboard/tenants")).status_code == 200
        sent = await visitor.client.post(
            "/dashboard/portal", data=_fields(page.text), follow_redirects=False
        )
        assert sent.headers["location"] == "/dashboard"
        assert (await visitor.get("/dashboard/tenants")).status_code == 403


def _fields(html: str) -> dict[str, str]:
    (fields,) = (given for _, action, given in Forms(html).found if action == "/dashboard/portal")
    return fields


async def test_guessed_portal_links_are_throttled(app: FastAPI) -> None:
    async with browser(app, address="203.0.113.77") as visitor:
        for _ in range(3):
            answer = await visitor.get("/dashboard/portal?sig=guessed")
            assert answer.status_code == 401
        assert (await visitor.get("/dashboard/portal?sig=guessed")).status_code == 429


async def mailed(visitor: Visitor, context: Context, shop: dict[str, str]) -> httpx2.Response:
    """Follow the link in a mail to the endpoint's owner."""
    links = OwnerLinks(context.keyring, timedelta(days=7))
    return await visitor.get(
        links.url(
            shop["endpoint_id"],
            tenant_id=shop["tenant_id"],
            owner=owner_hash("owner@shop.example"),
            at=context.clock(),
            public_url=ORIGIN,
        )
    )


async def test_link_in_owner_mail_opens_the_endpoint_read_only(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    async with browser(app) as visitor:
        assert (await mailed(visitor, context, shop)).status_code == 303
        assert (await visitor.get("/dashboard")).headers["location"] == OWN.format(**shop)
        page = await visitor.get(OWN.format(**shop))
        assert page.status_code == 200
        assert f"{OWN.format(**shop)}/pause" not in page.text
        rejected = await visitor.post(f"{OWN.format(**shop)}/pause")
        assert rejected.status_code == 403
        # the session ends with the tenant
        await client.delete(f"/tenants/{shop['tenant_id']}")
        assert (await visitor.get(OWN.format(**shop))).status_code == 303


async def test_link_in_owner_mail_is_invalid_for_a_former_owner(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    await client.patch(
        f"/endpoints/{shop['endpoint_id']}",
        json={"owner_emails": ["new@shop.example"]},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    async with browser(app) as visitor:
        assert (await mailed(visitor, context, shop)).status_code == 401


async def test_portal_link_to_another_tenants_endpoint_is_rejected(
    client: httpx2.AsyncClient, shop: dict[str, str], owned: dict[str, str]
) -> None:
    answer = await client.post(
        f"/tenants/{shop['tenant_id']}/portal-links", json={"endpoint_id": owned["endpoint_id"]}
    )
    assert_problem(answer, 422, code="invalid_input", pointer="/endpoint_id")


async def test_audit_log_records_the_portal_link_without_its_url(
    client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    url = await link(client, shop["tenant_id"], scope="tenant")
    (entry, *_) = (await client.get("/audit", params={"action": "portal_link.create"})).json()[
        "data"
    ]
    assert entry["resource_id"] == shop["tenant_id"]
    assert entry["changes"]["scope"] == {"after": "tenant"}
    assert url.rpartition("=")[2] not in str(entry)


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
