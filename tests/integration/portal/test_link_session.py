"""Portal links open a session for anyone who has one, until they expire; actions are audited."""

from __future__ import annotations

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from tests.integration.dashboard.resources import end
from tests.integration.dashboard.visitor import browser, signed_in
from tests.integration.portal.links import OWN, Portal, customer, guest, link, mailed
from tests.support.api_client import OPERATOR_KEY, KeyClient, assert_problem

pytestmark = pytest.mark.anyio


async def test_portal_link_becomes_a_session_and_leaves_the_address(portal: Portal) -> None:
    url = await portal.link(portal.own)
    async with portal.guest() as visitor:
        answer = await visitor.get(url)
        assert (answer.status_code, answer.headers["location"]) == (303, "/portal")
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        page = await visitor.get("/portal/endpoints")
    assert "other_receiver" in page.text
    assert "read only" in page.text
    assert url.rpartition("=")[2] not in page.text


async def test_portal_link_opens_more_than_once(portal: Portal) -> None:
    """Virus scanners of mail follow links too."""
    url = await portal.link(portal.own)
    for _ in range(2):
        async with portal.guest() as visitor:
            assert (await visitor.get(url)).headers["location"] == "/portal"


async def test_sessions_of_the_portal_and_the_dashboard_do_not_open_the_other(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    """Neither with their own cookie, nor with their token in the other's."""
    async with customer(app, client, shop["tenant_id"]) as visitor:
        assert (await visitor.get("/dashboard")).status_code == 303
        token = dict(visitor.client.cookies)["hookfast-portal"]
    async with browser(app) as forger:
        forger.client.cookies.set("hookfast-session", token)
        assert (await forger.get("/dashboard/endpoints")).status_code == 303
    async with signed_in(app, OPERATOR_KEY) as operator:
        assert (await operator.get("/portal")).headers["location"] == "/portal/ended"
        token = dict(operator.client.cookies)["hookfast-session"]
    async with guest(app) as forger:
        forger.client.cookies.set("hookfast-portal", token)
        assert (await forger.get("/portal/endpoints")).status_code == 303


async def test_link_does_not_end_the_session_of_an_operator(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    async with signed_in(app, OPERATOR_KEY) as operator:
        assert (await operator.get(await link(client, shop["tenant_id"]))).status_code == 303
        assert (await operator.get("/portal/endpoints")).status_code == 200
        assert (await operator.get("/dashboard/tenants")).status_code == 200


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
    async with key_client(shop["tenant_id"]) as theirs, guest(app) as visitor:
        maker = client if made_by == "operator" else theirs
        url = await link(maker, shop["tenant_id"], scope="tenant", endpoint_id=shop["endpoint_id"])
        (created,) = (await client.get("/audit", params={"action": "portal_link.create"})).json()[
            "data"
        ][:1]
        await visitor.get(url)
        page = await visitor.submit(f"{OWN.format(**shop)}/recover", span="86400")
        assert "1 message is being resent" in page
        visible_key = created["key_id"] if made_by == "tenant" else None

        (entry, *_) = (await theirs.get("/audit", params={"action": "endpoint.recover"})).json()[
            "data"
        ]
        assert (entry["actor"], entry["key_id"]) == ("portal", visible_key)
        assert entry["client_address"] == "203.0.113.1"
        (listed,) = (await theirs.get("/jobs")).json()["data"]
        assert listed["requested_by"] == visible_key
        by_key = (await theirs.get("/audit", params={"key_id": created["key_id"]})).json()["data"]
        assert bool(by_key) is (made_by == "tenant")
        # the operator sees the key
        seen = (await client.get(f"/jobs/{listed['id']}")).json()
        assert seen["requested_by"] == created["key_id"]


async def test_revoking_the_key_ends_its_portal_links_and_their_sessions(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str], key_client: KeyClient
) -> None:
    async with key_client(shop["tenant_id"], scope="tenant") as maker, guest(app) as visitor:
        url = await link(maker, shop["tenant_id"])
        await visitor.get(url)
        assert (await visitor.get("/portal/endpoints")).status_code == 200
        (key,) = (await client.get(f"/tenants/{shop['tenant_id']}/api-keys")).json()["data"]
        await client.delete(f"/api-keys/{key['id']}")
        assert (await visitor.get("/portal/endpoints")).status_code == 303
        answer = await visitor.get(url)
    assert answer.status_code == 401
    assert "no longer valid" in answer.text


async def test_portal_session_lasts_two_hours_even_if_the_link_lasts_longer(portal: Portal) -> None:
    async with portal.guest() as visitor:
        answer = await visitor.get(await portal.link(portal.own, expires_in_seconds=604_800))
    assert "Max-Age=7200;" in answer.headers["set-cookie"]


async def test_guessed_portal_links_are_throttled(app: FastAPI) -> None:
    async with guest(app, address="203.0.113.77") as visitor:
        for _ in range(3):
            assert (await visitor.get("/portal/open?sig=guessed")).status_code == 401
        assert (await visitor.get("/portal/open?sig=guessed")).status_code == 429


async def test_link_in_owner_mail_opens_the_endpoint_read_only(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    own = OWN.format(**shop)
    async with guest(app) as visitor:
        assert (await mailed(visitor, context, **shop)).status_code == 303
        assert (await visitor.get("/portal")).headers["location"] == own
        page = await visitor.get(own)
        assert page.status_code == 200
        assert f"{own}/pause" not in page.text
        assert (await visitor.post(f"{own}/pause")).status_code == 403
        # the session ends with the tenant
        await client.delete(f"/tenants/{shop['tenant_id']}")
        assert (await visitor.get(own)).status_code == 303


async def test_link_in_owner_mail_is_invalid_for_a_former_owner(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    await client.patch(
        f"/endpoints/{shop['endpoint_id']}",
        json={"owner_emails": ["new@shop.example"]},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    async with guest(app) as visitor:
        assert (await mailed(visitor, context, **shop)).status_code == 401


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


async def test_leaving_ends_the_session(portal: Portal) -> None:
    async with portal.customer(portal.own) as visitor:
        token = dict(visitor.client.cookies)["hookfast-portal"]
        sent = await visitor.post("/portal/sign-out")
        assert sent.headers["location"] == "/portal/ended"
        assert (await visitor.get("/portal/ended")).status_code == 401
        visitor.client.cookies.set("hookfast-portal", token)
        assert (await visitor.get("/portal/endpoints")).status_code == 303


async def test_audit_log_still_shows_a_tenant_its_revoked_keys(
    client: httpx2.AsyncClient, shop: dict[str, str], key_client: KeyClient
) -> None:
    async with key_client(shop["tenant_id"]) as first, key_client(shop["tenant_id"]) as second:
        await first.post(f"/endpoints/{shop['endpoint_id']}/pause")
        (paused, *_) = (await first.get("/audit")).json()["data"]
        assert (await client.delete(f"/api-keys/{paused['key_id']}")).status_code == 204
        entries = (await second.get("/audit", params={"key_id": paused["key_id"]})).json()["data"]
    assert entries == [paused]
