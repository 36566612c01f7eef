"""What a portal link reaches: its tenant's pages, or those of its endpoint; nobody else's."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from api.access.authentication import Principal
from api.context.context import Context
from api.forms.jobs import count, draft_job
from api.site import live
from hookfast.deliveries.actions import JOB_STEPS
from hookfast.deliveries.job import JobKind
from hookfast.errors import NotFound
from hookfast.storage.deliveries.selection import DeliverySelection
from tests.integration.dashboard.page_paths import SHARED, UNKNOWN, PagePath
from tests.integration.dashboard.resources import end
from tests.integration.portal.links import OWN, customer
from tests.integration.portal.portal_paths import EVERYBODYS, FIELDS, FORMS, PAGES, SHOWN

pytestmark = pytest.mark.anyio

FREE = {"/portal", "/portal/endpoints", "/portal/activity"}
"""Lists: with a link to one endpoint, they redirect to its own."""
CATALOGUE = "/portal/event-types"


def at(page: PagePath, ids: dict[str, str]) -> str:
    """Return the path with these ids; those that are missing do not exist."""
    missing = set(page.parameters) - set(ids)
    return page.at(ids | dict.fromkeys(missing, f"x_{UNKNOWN}"))


async def subscription_of(client: httpx2.AsyncClient, endpoint_id: str) -> str:
    found = await client.get("/subscriptions", params={"endpoint_id": endpoint_id})
    return str(found.json()["data"][0]["id"])


async def test_endpoint_link_sees_no_other_pages(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    """The pages come from the application's routes, so new ones are covered."""
    other = SHARED | {
        "endpoint_id": shop["other_endpoint_id"],
        "delivery_id": shop["other_delivery_id"],
        "subscription_id": await subscription_of(client, shop["other_endpoint_id"]),
    }
    tenant, own = shop["tenant_id"], shop["endpoint_id"]
    async with customer(app, client, tenant, endpoint_id=own) as visitor:
        for path in (OWN.format(**shop), f"/portal/activity/{shop['delivery_id']}"):
            assert (await visitor.get(path)).status_code == 200, path
        csrf = await visitor.csrf()
        for page in PAGES:
            path = at(page, other)
            if page.path in EVERYBODYS or page.path == "/portal/live/activity":
                continue
            answer = await (
                visitor.get(path) if page.method == "GET" else visitor.post(path, csrf=csrf)
            )
            if page.path in FREE and page.method == "GET":
                assert answer.status_code == 303, page
                assert own in answer.headers["location"], page
            elif page.path.startswith(CATALOGUE):
                assert answer.status_code == 200, page
            else:
                assert answer.status_code == 404, f"{page}: {answer.status_code}"
        for query in (f"endpoint_id={other['endpoint_id']}", f"endpoint_id={own}&endpoint_id=x"):
            assert (await visitor.get(f"/portal/activity?{query}")).status_code == 404
        listed = await visitor.get(f"/portal/activity?endpoint_id={own}")
    assert shop["delivery_id"] in listed.text
    for text in (shop["other_delivery_id"], "other_receiver", shop["other_endpoint_id"]):
        assert text not in listed.text


async def test_endpoint_link_sees_the_live_parts_of_its_pages(
    app: FastAPI,
    client: httpx2.AsyncClient,
    shop: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "_LIFETIME_SECONDS", 0.0)
    own = shop["endpoint_id"]
    async with customer(app, client, shop["tenant_id"], endpoint_id=own) as visitor:
        for page in (OWN.format(**shop), f"/portal/activity?endpoint_id={own}"):
            [part] = re.findall(r'data-live="([^"]+)"', (await visitor.get(page)).text)
            answer = await visitor.get(html.unescape(part))
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")


async def endpoint_state(client: httpx2.AsyncClient, endpoint_id: str) -> list[Any]:
    """Return the endpoint, its subscriptions, deliveries and tests as the API shows them."""
    narrowed = {"endpoint_id": endpoint_id}
    return [(await client.get(f"/endpoints/{endpoint_id}")).json()] + [
        (await client.get(f"/{name}", params=narrowed)).json()
        for name in ("subscriptions", "deliveries", "tests")
    ]


@pytest.mark.parametrize("of_one", [True, False])
async def test_no_form_changes_what_the_link_does_not_lead_to(
    app: FastAPI,
    client: httpx2.AsyncClient,
    context: Context,
    shop: dict[str, str],
    owned: dict[str, str],
    of_one: bool,
) -> None:
    """Another endpoint of the tenant with a link to one; another tenant's with any link."""
    other = (
        {"endpoint_id": shop["other_endpoint_id"], "delivery_id": shop["other_delivery_id"]}
        if of_one
        else {"endpoint_id": owned["endpoint_id"], "delivery_id": owned["delivery_id"]}
    )
    other["subscription_id"] = await subscription_of(client, other["endpoint_id"])
    await end(context, shop["other_delivery_id"])
    before = await endpoint_state(client, other["endpoint_id"])
    narrowed = {"endpoint_id": shop["endpoint_id"]} if of_one else {}
    async with customer(app, client, shop["tenant_id"], **narrowed) as visitor:
        csrf = await visitor.csrf()
        for page in FORMS:
            if page.path in EVERYBODYS or not page.parameters:
                continue
            for ids in (other, other | {"endpoint_id": shop["endpoint_id"]}):
                if ids != other and page.parameters == ["endpoint_id"]:
                    continue  # the link's own endpoint
                answer = await visitor.post(at(page, ids), csrf=csrf, **FIELDS)
                assert answer.status_code == 404, f"{page} {ids}: {answer.status_code}"
        for page in SHOWN:
            if page.parameters:
                answer = await visitor.get(at(page, other))
                assert answer.status_code == 404, f"{page}: {answer.status_code}"
    assert await endpoint_state(client, other["endpoint_id"]) == before


async def test_a_read_only_link_changes_nothing_and_shows_no_forms(
    app: FastAPI, client: httpx2.AsyncClient, shop: dict[str, str]
) -> None:
    own = SHARED | shop | {"subscription_id": await subscription_of(client, shop["endpoint_id"])}
    before = await endpoint_state(client, shop["endpoint_id"])
    async with customer(app, client, shop["tenant_id"], scope="tenant:read") as visitor:
        csrf = await visitor.csrf()
        for page in FORMS:
            if page.path not in EVERYBODYS:
                answer = await visitor.post(at(page, own), csrf=csrf, **FIELDS)
                assert answer.status_code == 403, f"{page}: {answer.status_code}"
        for path in (OWN.format(**shop), "/portal/endpoints", "/portal/activity"):
            page = (await visitor.get(path)).text
            forms = page.count('method="post"')
            assert forms == 2, path  # the theme, and leaving
    assert await endpoint_state(client, shop["endpoint_id"]) == before


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
    for action in JOB_STEPS:
        counted = await count(context, bound, everything, action=action)
        assert sum(counted.values()) == 1
    job = await draft_job(context, bound, kind=JobKind.ACTION, action="cancel", chosen=everything)
    assert (job.filter["endpoint_id"], job.total) == (shop["endpoint_id"], 1)
    elsewhere = replace(everything, endpoint_id=shop["other_endpoint_id"])
    with pytest.raises(NotFound):
        await count(context, bound, elsewhere, action="cancel")
    with pytest.raises(NotFound):
        await draft_job(context, bound, kind=JobKind.ACTION, action="cancel", chosen=elsewhere)
