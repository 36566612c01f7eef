"""Portal links let in whoever has one: to what they are for, for as long as they say."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from api.authentication import Principal
from api.context import Context
from api.jobs import count, draft_job
from hookfast.errors import NotFound
from hookfast.job import JobKind
from hookfast.notice import owner_hash
from hookfast.portal_link import OwnerLinks
from hookfast.storage.chosen_deliveries import ChosenDeliveries
from tests.api_client import (
    OPERATOR_KEY,
    KeyClient,
    assert_problem,
    endpoint_maker,
    event_type_maker,
)
from tests.integration.dashboard.test_isolation import (
    EVERYBODYS,
    FORMS,
    PAGES,
    SHARED,
    UNKNOWN,
    fields_for,
)
from tests.integration.dashboard.test_pages import end
from tests.integration.dashboard.visitor import ORIGIN, Forms, Visitor, browser, signed_in

pytestmark = pytest.mark.anyio

OWN = "/dashboard/endpoints/{endpoint_id}"
MANY = ("/actions", "/actions/run", "/redrive", "/redrive/run")
"""How the paths end of forms that act on many deliveries."""


def local(url: str) -> str:
    """A link's address on the application under test."""
    return ORIGIN + url[url.index("/dashboard") :]


async def link(client: httpx2.AsyncClient, tenant_id: str, **form: Any) -> str:
    made = await client.post(f"/tenants/{tenant_id}/portal-links", json=form)
    assert made.status_code == 201, made.text
    return local(made.json()["url"])


@pytest.fixture
async def shop(client: httpx2.AsyncClient) -> dict[str, str]:
    """The ids of a tenant with two endpoints, and a delivery to each."""
    await event_type_maker(client)("order.invoice.paid")
    tenant = (await client.post("/tenants", json={"name": "Shop"})).json()["id"]
    ids = {"tenant_id": tenant}
    for name in ("", "other_"):
        endpoint = await endpoint_maker(client)(
            tenant_id=tenant,
            description=f"{name}receiver",
            events=["order.**"],
            owner_emails=["Owner@shop.example"],
        )
        ids[f"{name}endpoint_id"] = endpoint["id"]
    event = {"tenant_id": tenant, "type": "order.invoice.paid", "data": {}}
    ids["event_id"] = (await client.post("/events", json=event)).json()["id"]
    found = (await client.get("/deliveries", params={"event_id": ids["event_id"]})).json()["data"]
    own = {each["endpoint_id"]: each["id"] for each in found}
    ids["delivery_id"] = own[ids["endpoint_id"]]
    ids["other_delivery_id"] = own[ids["other_endpoint_id"]]
    return ids


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


async def test_a_link_to_an_endpoint_shows_nothing_else(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str], owned: dict[str, str]
) -> None:
    """The pages are those of the application, so a new one is not shown from its first day."""
    own = {OWN.format(**shop), "/dashboard/deliveries/" + shop["delivery_id"]}
    other = {
        "endpoint_id": shop["other_endpoint_id"],
        "delivery_id": shop["other_delivery_id"],
        "event_id": shop["event_id"],
    }
    lists = {f"/dashboard/{name}" for name in ("endpoints", "deliveries", "dead-letters")}
    allowed = {"/dashboard", "/dashboard/live/deliveries"} | lists  # lead to what is its own
    async with browser(app) as visitor:
        await visitor.get(
            await link(client, shop["tenant_id"], scope="tenant", endpoint_id=shop["endpoint_id"])
        )
        for path in own:
            assert (await visitor.get(path)).status_code == 200, path
        csrf = await visitor.csrf()
        for page in PAGES:
            if page.method == "GET":
                answer = await visitor.get(page.at(SHARED | owned | other))
            elif page.path in ("/dashboard/sign-out", "/dashboard/settings/theme"):
                continue
            else:
                answer = await visitor.post(page.at(SHARED | owned | other), csrf=csrf)
            if page.path in allowed and page.method == "GET":
                assert answer.status_code == 303, page
                assert shop["endpoint_id"] in answer.headers["location"], page
            else:
                assert answer.status_code == 404, f"{page}: {answer.status_code}"


async def test_its_lists_and_bulk_actions_are_about_that_endpoint(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    own, other = shop["endpoint_id"], shop["other_endpoint_id"]
    async with browser(app) as visitor:
        await visitor.get(await link(client, shop["tenant_id"], scope="tenant", endpoint_id=own))
        page = await visitor.get("/dashboard/deliveries", params={"endpoint_id": own})
        assert shop["delivery_id"] in page.text
        assert shop["other_delivery_id"] not in page.text
        assert "other_receiver" not in page.text
        for query in (f"endpoint_id={other}", f"endpoint_id={own}&endpoint_id={other}"):
            for name in ("deliveries", "dead-letters"):
                assert (await visitor.get(f"/dashboard/{name}?{query}")).status_code == 404
        for path in (
            *("/dashboard/deliveries/actions", "/dashboard/deliveries/actions/run"),
            *("/dashboard/dead-letters/redrive", "/dashboard/dead-letters/redrive/run"),
        ):
            for given in ({}, {"endpoint_id": other}, {"endpoint_id": " "}):
                answer = await visitor.post(path, action="cancel", to="all", **given)
                assert answer.status_code == 404, f"{path} {given}"
        # one that is another's, ticked with a filter that is right: both have to fit
        counted = await visitor.post(
            "/dashboard/deliveries/actions",
            action="cancel",
            to="selected",
            endpoint_id=own,
            ids=shop["other_delivery_id"],
        )
        assert "Cancel 0 deliveries" in counted.text


async def state_of(client: httpx2.AsyncClient, endpoint_id: str) -> list[Any]:
    """What the API says of an endpoint."""
    narrowed = {"endpoint_id": endpoint_id}
    return [(await client.get(f"/endpoints/{endpoint_id}")).json()] + [
        (await client.get(f"/{name}", params=narrowed)).json()
        for name in ("subscriptions", "deliveries")
    ]


async def test_none_of_its_forms_reaches_another_endpoint_however_it_is_filled_in(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    own, other = shop["endpoint_id"], shop["other_endpoint_id"]
    await end(context, shop["delivery_id"], shop["other_delivery_id"])
    others = await client.get("/subscriptions", params={"endpoint_id": other})
    ids = shop | {"subscription_id": others.json()["data"][0]["id"]}
    filled, both = fields_for(shop), [shop["delivery_id"], shop["other_delivery_id"]]
    before = await state_of(client, other)
    async with browser(app) as visitor:
        await visitor.get(await link(client, shop["tenant_id"], scope="tenant", endpoint_id=own))
        csrf = await visitor.csrf()
        # the one that deletes the endpoint comes last
        for page in sorted(FORMS, key=lambda each: each.path.endswith("}/delete")):
            at = page.at(ids | dict.fromkeys(set(page.parameters) - set(ids), f"x_{UNKNOWN}"))
            if page.path in EVERYBODYS or page.path == "/dashboard/sign-in":
                continue
            is_about_many = page.path.endswith(MANY)
            ways = product(("all", "selected"), ([own], [other], [""]))
            for to, given in ways if is_about_many else [("all", [other])]:
                fields = filled | {"endpoint_id": given, "to": to, "ids": both}
                answer = await visitor.post(at, csrf=csrf, **fields)
                assert answer.status_code != 500, f"{page}: {answer.text}"
                counted = re.search(r"<h1>[A-Z][a-z ]+ (\d+) (?:dead|deliver)", answer.text)
                assert counted is None or counted[1] in ("0", "1"), f"{page} {fields}"
            # twice, and so one thing to whoever checks it and another to whoever uses it
            for given in ([own, ""], ["", own], [own, other])[: 3 if is_about_many else 1]:
                answer = await visitor.post(at, csrf=csrf, **filled | {"endpoint_id": given})
                assert answer.status_code == 422, f"{page} {given}"
    made = await client.get("/jobs", params={"tenant_id": shop["tenant_id"]})
    assert {job["filter"]["endpoint_id"] for job in made.json()["data"]} == {own}
    assert all(job["total"] <= 1 for job in made.json()["data"])
    assert await state_of(client, other) == before


async def test_jobs_are_confined_where_they_are_made_and_not_by_the_page_alone(
    client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    bound = Principal(
        scope="tenant",
        tenant_id=shop["tenant_id"],
        key_id="key_of_a_link",
        endpoint_id=shop["endpoint_id"],
    )
    everything = ChosenDeliveries(tenant_id=shop["tenant_id"])
    assert sum((await count(context, bound, everything)).values()) == 1
    job = await draft_job(context, bound, kind=JobKind.ACTION, action="cancel", chosen=everything)
    assert (job.chosen["endpoint_id"], job.total) == (shop["endpoint_id"], 1)
    elsewhere = replace(everything, endpoint_id=shop["other_endpoint_id"])
    with pytest.raises(NotFound):
        await count(context, bound, elsewhere)
    with pytest.raises(NotFound):
        await draft_job(context, bound, kind=JobKind.ACTION, action="cancel", chosen=elsewhere)


async def test_its_dead_letters_are_counted_without_the_others(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    await end(context, shop["delivery_id"], shop["other_delivery_id"])
    async with browser(app) as visitor:
        await visitor.get(await link(client, shop["tenant_id"], endpoint_id=shop["endpoint_id"]))
        sent = await visitor.get("/dashboard/dead-letters")
        page = await visitor.get(sent.headers["location"])
    assert page.status_code == 200
    assert shop["delivery_id"] in page.text
    for other in ("other_receiver", shop["other_endpoint_id"], shop["other_delivery_id"]):
        assert other not in page.text


async def test_what_is_sent_again_with_it_can_be_followed(
    app: FastAPI,
    client: httpx2.AsyncClient,
    context: Context,
    shop: dict[str, str],
    key_client: KeyClient,
) -> None:
    await end(context, shop["delivery_id"], shop["other_delivery_id"])
    jobs = {}
    async with key_client(shop["tenant_id"]) as own:
        for name in ("endpoint_id", "other_endpoint_id"):
            since = {"since": "2026-01-01T00:00:00Z"}
            made = await own.post(f"/endpoints/{shop[name]}/recover", json=since)
            jobs[name] = f"/dashboard/jobs/{made.json()['id']}"
    async with browser(app) as visitor:
        await visitor.get(await link(client, shop["tenant_id"], endpoint_id=shop["endpoint_id"]))
        assert (await visitor.get(jobs["endpoint_id"])).status_code == 200
        assert (await visitor.get(jobs["other_endpoint_id"])).status_code == 404


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
    assert "not valid any more" in answer.text


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
