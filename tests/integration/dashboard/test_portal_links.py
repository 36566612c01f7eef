"""Portal links let in whoever has one, for as long as they say; what is done with one is told."""

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
from tests.integration.dashboard.belongings import end, new_endpoint, new_tenant
from tests.integration.dashboard.portal import OWN, link
from tests.integration.dashboard.visitor import ORIGIN, Forms, Visitor, browser, signed_in
from tests.support.api_client import OPERATOR_KEY, KeyClient, assert_problem

pytestmark = pytest.mark.anyio


async def test_the_link_becomes_a_session_and_goes_from_the_address(
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


async def test_it_opens_once_more_while_it_lasts(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    """What scans mail for viruses follows links too."""
    url = await link(client, shop["tenant_id"])
    for _ in range(2):
        async with browser(app) as visitor:
            assert (await visitor.get(url)).headers["location"] == "/dashboard"


async def test_a_link_to_a_tenant_shows_its_pages_and_makes_no_keys(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    async with browser(app) as visitor:
        await visitor.get(await link(client, shop["tenant_id"], scope="tenant"))
        assert (await visitor.get(OWN.format(**shop))).status_code == 200
        menu = await visitor.get("/dashboard/deliveries")
        assert "/dashboard/api-keys" not in menu.text
        # a key would outlive the link
        assert (await visitor.get("/dashboard/api-keys")).status_code == 404
        answer = await visitor.post("/dashboard/api-keys", name="kept", scope="tenant")
        assert answer.status_code == 404
    kept = await client.get(f"/tenants/{shop['tenant_id']}/api-keys")
    assert kept.json()["data"] == []


@pytest.mark.parametrize("made_by", ["operator", "tenant"])
async def test_what_is_done_with_it_is_told_without_the_key_of_whoever_made_it(
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
        (made,) = (await client.get("/audit", params={"action": "portal_link.create"})).json()[
            "data"
        ][:1]
        await visitor.get(url)
        sent = await visitor.post(
            "/dashboard/dead-letters/redrive/run", to="all", endpoint_id=shop["endpoint_id"]
        )
        job_page = await visitor.get(sent.headers["location"])
        told = made["key_id"] if made_by == "tenant" else None

        (entry, *_) = (await theirs.get("/audit", params={"action": "dead_letter.redrive"})).json()[
            "data"
        ]
        assert (entry["actor"], entry["key_id"]) == ("portal", told)
        assert entry["client_address"] == "203.0.113.1"
        assert made["key_id"] not in job_page.text or told
        path = sent.headers["location"].removeprefix("/dashboard")
        (listed,) = (await theirs.get("/jobs")).json()["data"]
        assert [each["requested_by"] for each in (listed, (await theirs.get(path)).json())] == [
            told,
            told,
        ]
        assert (await theirs.post(f"{path}/cancel")).json()["requested_by"] == told
        by_key = (await theirs.get("/audit", params={"key_id": made["key_id"]})).json()["data"]
        assert bool(by_key) is (made_by == "tenant")
        # and the operator is told
        assert (await client.get(path)).json()["requested_by"] == made["key_id"]
        (seen, *_) = (await client.get("/audit", params={"action": "dead_letter.redrive"})).json()[
            "data"
        ]
        assert (seen["actor"], seen["key_id"]) == ("portal", made["key_id"])


async def test_a_tenants_revoked_keys_stay_its_own_in_the_log(
    client: httpx2.AsyncClient, shop: dict[str, str], key_client: KeyClient
) -> None:
    async with key_client(shop["tenant_id"]) as first, key_client(shop["tenant_id"]) as second:
        await first.post(f"/endpoints/{shop['endpoint_id']}/pause")
        (paused, *_) = (await first.get("/audit")).json()["data"]
        assert (await client.delete(f"/api-keys/{paused['key_id']}")).status_code == 204
        told = (await second.get("/audit", params={"key_id": paused["key_id"]})).json()["data"]
    assert told == [paused]


async def test_revoking_the_key_that_made_it_ends_it_and_its_sessions(
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


async def test_a_session_lasts_two_hours_however_long_the_link(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    async with browser(app) as visitor:
        answer = await visitor.get(
            await link(client, shop["tenant_id"], expires_in_seconds=604_800)
        )
    assert "Max-Age=7200;" in answer.headers["set-cookie"]


async def test_who_is_signed_in_is_asked_before_the_link_takes_that_away(
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


async def test_guessing_is_throttled_like_guessing_keys(app: FastAPI) -> None:
    async with browser(app, address="203.0.113.77") as visitor:
        for _ in range(3):
            answer = await visitor.get("/dashboard/portal?sig=guessed")
            assert answer.status_code == 401
        assert (await visitor.get("/dashboard/portal?sig=guessed")).status_code == 429


async def mailed(visitor: Visitor, context: Context, shop: dict[str, str]) -> httpx2.Response:
    """Follow the link of a mail to the endpoint's owner."""
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


async def test_an_owners_mail_leads_to_the_endpoint_to_look_at_only(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    async with browser(app) as visitor:
        assert (await mailed(visitor, context, shop)).status_code == 303
        assert (await visitor.get("/dashboard")).headers["location"] == OWN.format(**shop)
        page = await visitor.get(OWN.format(**shop))
        assert page.status_code == 200
        assert f"{OWN.format(**shop)}/pause" not in page.text
        refused = await visitor.post(f"{OWN.format(**shop)}/pause")
        assert refused.status_code == 403
        # and the tenant's end is its end
        await client.delete(f"/tenants/{shop['tenant_id']}")
        assert (await visitor.get(OWN.format(**shop))).status_code == 303


async def test_who_is_an_owner_no_more_is_not_let_in(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    await client.patch(
        f"/endpoints/{shop['endpoint_id']}",
        json={"owner_emails": ["new@shop.example"]},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    async with browser(app) as visitor:
        assert (await mailed(visitor, context, shop)).status_code == 401


async def test_a_link_is_for_the_tenants_own_endpoints(
    client: httpx2.AsyncClient, shop: dict[str, str], owned: dict[str, str]
) -> None:
    answer = await client.post(
        f"/tenants/{shop['tenant_id']}/portal-links", json={"endpoint_id": owned["endpoint_id"]}
    )
    assert_problem(answer, 422, code="invalid_input", pointer="/endpoint_id")


async def test_making_one_is_in_the_audit_log_and_the_link_is_not(
    client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    url = await link(client, shop["tenant_id"], scope="tenant")
    (entry, *_) = (await client.get("/audit", params={"action": "portal_link.create"})).json()[
        "data"
    ]
    assert entry["resource_id"] == shop["tenant_id"]
    assert entry["changes"]["scope"] == {"after": "tenant"}
    assert url.rpartition("=")[2] not in str(entry)


async def test_a_link_to_an_endpoint_is_offered_for_that_endpoint_however_many_there_are(
    app: FastAPI, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another choice in the form, or with none, the link would show more than was meant."""
    monkeypatch.setattr(filter_choices, "NEWEST", Page(limit=1, after=None))
    tenants = [await new_tenant(client) for _ in range(2)]
    first, _ = [await new_endpoint(client, tenants[0]) for _ in range(2)]
    path = f"/dashboard/portal-links?endpoint_id={first}"
    async with signed_in(app, OPERATOR_KEY) as operator:
        assert "Select a tenant" in (await operator.get(path)).text
        await operator.post("/dashboard/settings/tenant", tenant_id=tenants[0])
        assert f'<option value="{first}" selected>' in (await operator.get(path)).text
        await operator.post("/dashboard/settings/tenant", tenant_id=tenants[1])
        refused = await operator.get(path)
    assert refused.status_code == 422
    assert "choose that tenant first" in refused.text
