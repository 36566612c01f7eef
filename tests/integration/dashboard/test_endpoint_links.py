"""A portal link to one endpoint reaches no other endpoint with its pages, forms and jobs."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from api.access.authentication import Principal
from api.forms.jobs import count, draft_job
from api.process.context import Context
from hookfast.deliveries.job import JobKind
from hookfast.errors import NotFound
from hookfast.storage.deliveries.selection import DeliverySelection
from tests.integration.dashboard.page_paths import (
    EVERYBODYS,
    FORMS,
    PAGES,
    SHARED,
    UNKNOWN,
    fields_for,
)
from tests.integration.dashboard.portal import OWN, link
from tests.integration.dashboard.resources import end
from tests.integration.dashboard.visitor import browser
from tests.support.api_client import KeyClient

pytestmark = pytest.mark.anyio

MANY = ("/actions", "/actions/run", "/redrive", "/redrive/run")
"""Path endings of forms that act on many deliveries."""


async def test_endpoint_link_sees_no_other_pages(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str], owned: dict[str, str]
) -> None:
    """The pages come from the application's routes, so new ones are covered."""
    own = {OWN.format(**shop), "/dashboard/deliveries/" + shop["delivery_id"]}
    other = {
        "endpoint_id": shop["other_endpoint_id"],
        "delivery_id": shop["other_delivery_id"],
        "event_id": shop["event_id"],
    }
    lists = {f"/dashboard/{name}" for name in ("endpoints", "deliveries", "dead-letters")}
    allowed = {"/dashboard", "/dashboard/live/deliveries"} | lists  # redirect to its own
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
            if page.path == "/dashboard/search":
                assert answer.status_code == 200  # and finds its own: see test_search
            elif page.path in allowed and page.method == "GET":
                assert answer.status_code == 303, page
                assert shop["endpoint_id"] in answer.headers["location"], page
            else:
                assert answer.status_code == 404, f"{page}: {answer.status_code}"


async def test_endpoint_link_lists_and_acts_on_its_endpoint_only(
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
        # another endpoint's delivery, ticked with a valid filter: both must match
        counted = await visitor.post(
            "/dashboard/deliveries/actions",
            action="cancel",
            to="selected",
            endpoint_id=own,
            ids=shop["other_delivery_id"],
        )
        assert "Cancel 0 deliveries" in counted.text


async def endpoint_state(client: httpx2.AsyncClient, endpoint_id: str) -> list[Any]:
    """Return the endpoint, its subscriptions and deliveries as the API shows them."""
    narrowed = {"endpoint_id": endpoint_id}
    return [(await client.get(f"/endpoints/{endpoint_id}")).json()] + [
        (await client.get(f"/{name}", params=narrowed)).json()
        for name in ("subscriptions", "deliveries")
    ]


async def test_no_form_of_an_endpoint_link_changes_another_endpoint(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    own, other = shop["endpoint_id"], shop["other_endpoint_id"]
    await end(context, shop["delivery_id"], shop["other_delivery_id"])
    others = await client.get("/subscriptions", params={"endpoint_id": other})
    ids = shop | {"subscription_id": others.json()["data"][0]["id"]}
    filled, both = fields_for(shop), [shop["delivery_id"], shop["other_delivery_id"]]
    before = await endpoint_state(client, other)
    async with browser(app) as visitor:
        await visitor.get(await link(client, shop["tenant_id"], scope="tenant", endpoint_id=own))
        csrf = await visitor.csrf()
        # the form that deletes the endpoint comes last
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
            # a repeated field could be checked with one value and used with another
            for given in ([own, ""], ["", own], [own, other])[: 3 if is_about_many else 1]:
                answer = await visitor.post(at, csrf=csrf, **filled | {"endpoint_id": given})
                assert answer.status_code == 422, f"{page} {given}"
    created = await client.get("/jobs", params={"tenant_id": shop["tenant_id"]})
    assert {job["filter"]["endpoint_id"] for job in created.json()["data"]} == {own}
    assert all(job["total"] <= 1 for job in created.json()["data"])
    assert await endpoint_state(client, other) == before


async def test_jobs_of_an_endpoint_link_are_confined_by_the_api_too(
    client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    bound = Principal(
        scope="tenant",
        tenant_id=shop["tenant_id"],
        key_id="key_of_a_link",
        endpoint_id=shop["endpoint_id"],
    )
    everything = DeliverySelection(tenant_id=shop["tenant_id"])
    for resend in (False, True):
        counted = await count(context, bound, everything, resend=resend)
        assert sum(counted.values()) == 1
    job = await draft_job(context, bound, kind=JobKind.ACTION, action="cancel", chosen=everything)
    assert (job.chosen["endpoint_id"], job.total) == (shop["endpoint_id"], 1)
    elsewhere = replace(everything, endpoint_id=shop["other_endpoint_id"])
    with pytest.raises(NotFound):
        await count(context, bound, elsewhere, resend=False)
    with pytest.raises(NotFound):
        await draft_job(context, bound, kind=JobKind.ACTION, action="cancel", chosen=elsewhere)


async def test_endpoint_link_counts_its_own_dead_letters_only(
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


async def test_endpoint_link_sees_jobs_of_its_endpoint_only(
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
            created = await own.post(f"/endpoints/{shop[name]}/recover", json=since)
            jobs[name] = f"/dashboard/jobs/{created.json()['id']}"
    async with browser(app) as visitor:
        await visitor.get(await link(client, shop["tenant_id"], endpoint_id=shop["endpoint_id"]))
        assert (await visitor.get(jobs["endpoint_id"])).status_code == 200
        assert (await visitor.get(jobs["other_endpoint_id"])).status_code == 404
