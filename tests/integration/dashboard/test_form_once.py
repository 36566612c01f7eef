"""A form takes effect once, however often it is sent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import func, select, update

from api.context.context import Context
from hookfast.storage.tables import FormOnce
from tests.integration.dashboard.resources import emit, end, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import Visitor, tenant_visitor, text_of

pytestmark = pytest.mark.anyio

FORMS = FormOnce.__table__
NEW_ENDPOINT = {
    "url": "http://127.0.0.1:4/hook",
    "verification": "none",
    "signatures": "hook",
    "plan": "hourly",
    "description": "Only one",
}
SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]{40}|hf_[A-Za-z0-9_-]{32,}|/portal/open\?")


@pytest.fixture
async def tenant(client: httpx2.AsyncClient) -> str:
    return await new_tenant(client)


@pytest.fixture
async def visitor(app: FastAPI, client: httpx2.AsyncClient, tenant: str) -> AsyncIterator[Visitor]:
    async with tenant_visitor(app, client, tenant) as visitor:
        yield visitor


async def token_of(visitor: Visitor, page: str) -> str:
    """Return the token that the forms of a page carry."""
    html = (await visitor.get(page)).text
    [token] = set(re.findall(r'name="once" value="([^"]+)"', html))
    return token


async def listed(client: httpx2.AsyncClient, name: str, tenant: str) -> list[Any]:
    found = (await client.get(f"/{name}", params={"tenant_id": tenant})).json()["data"]
    assert isinstance(found, list)
    return found


async def test_resubmitted_form_creates_one_endpoint_and_hides_its_secret(
    visitor: Visitor, client: httpx2.AsyncClient, tenant: str
) -> None:
    path = "/dashboard/endpoints/new"
    fields = NEW_ENDPOINT | {"once": await token_of(visitor, path)}
    first = await visitor.post(path, **fields)
    assert SECRET.search(first.text)
    reloaded = await visitor.post(path, **fields)
    [endpoint] = await listed(client, "endpoints", tenant)
    assert reloaded.status_code == 303
    assert reloaded.headers["location"] == f"/dashboard/endpoints/{endpoint['id']}"
    page = (await visitor.get(reloaded.headers["location"])).text
    assert "This was already done" in page
    assert not SECRET.search(page)
    # a page that is loaded again has a new form
    again = await visitor.post(path, **fields | {"once": await token_of(visitor, path)})
    assert SECRET.search(again.text)
    assert len(await listed(client, "endpoints", tenant)) == 2


async def test_concurrent_clicks_create_one_endpoint(
    visitor: Visitor, client: httpx2.AsyncClient, tenant: str
) -> None:
    path = "/dashboard/endpoints/new"
    fields = NEW_ENDPOINT | {"once": await token_of(visitor, path)}
    answers = await asyncio.gather(*(visitor.post(path, **fields) for _ in range(3)))
    assert sorted(answer.status_code for answer in answers) == [200, 303, 303]
    assert len(await listed(client, "endpoints", tenant)) == 1


async def test_resubmitted_forms_create_one_secret_key_link_and_source(
    visitor: Visitor, client: httpx2.AsyncClient, tenant: str
) -> None:
    endpoint_id = await new_endpoint(client, tenant)
    rotate = f"/dashboard/endpoints/{endpoint_id}/rotate-secret"
    # the form's page, its target, its fields, and the page of the result
    for page, path, fields, place in (
        (rotate, rotate, {"overlap": "0"}, f"/dashboard/endpoints/{endpoint_id}"),
        *(
            (f"/dashboard/{name}", f"/dashboard/{name}", given, f"/dashboard/{name}")
            for name, given in (
                ("api-keys", {"name": "seen once", "scope": "emit"}),
                ("portal-links", {"scope": "tenant:read", "span": "900"}),
            )
        ),
        (
            "/dashboard/sources/new",
            "/dashboard/sources/new",
            {"provider": "github", "name": "Repositories"},
            "/dashboard/sources/src_",
        ),
    ):
        fields = fields | {"once": await token_of(visitor, page)}
        created = await visitor.post(path, **fields)
        assert created.status_code == 200, created.text
        entries = await listed(client, "audit", tenant)
        again = await visitor.post(path, **fields)
        assert again.status_code == 303, path
        assert again.headers["location"].startswith(place)
        assert not SECRET.search((await visitor.get(again.headers["location"])).text), path
        # no effect, so nothing in the audit log
        assert await listed(client, "audit", tenant) == entries, path


async def test_resubmitted_forms_create_one_job(
    visitor: Visitor, client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    endpoint_id = await new_endpoint(client, tenant)
    delivery_id = await emit(client, tenant)
    await end(context, delivery_id)
    [delivery] = await listed(client, "deliveries", tenant)
    base = f"/dashboard/endpoints/{endpoint_id}"
    for path, fields in (
        ("/dashboard/deliveries/actions/run", {"action": "resend", "to": "all"}),
        ("/dashboard/dead-letters/redrive/run", {"to": "all"}),
        (f"/dashboard/events/{delivery['event_id']}/replay", {"only": "failed"}),
        (f"{base}/recover", {"since": "2020-01-01T00:00:00Z"}),
        (f"{base}/replay", {"since": "2020-01-01T00:00:00Z"}),
    ):
        fields = fields | {"once": await token_of(visitor, base), "endpoint_id": endpoint_id}
        before = {job["id"] for job in await listed(client, "jobs", tenant)}
        first, second = [await visitor.post(path, **fields) for _ in range(2)]
        [job_id] = {job["id"] for job in await listed(client, "jobs", tenant)} - before
        assert first.headers["location"] == f"/dashboard/jobs/{job_id}", path
        assert second.headers["location"] == f"/dashboard/jobs/{job_id}", path
        assert "This was already done" in (await visitor.get(f"/dashboard/jobs/{job_id}")).text


async def test_rejected_form_can_be_sent_again_with_its_token(
    visitor: Visitor, client: httpx2.AsyncClient, tenant: str
) -> None:
    path = "/dashboard/endpoints/new"
    fields = NEW_ENDPOINT | {"once": await token_of(visitor, path)}
    assert (await visitor.post(path, **fields | {"max_in_flight": "many"})).status_code == 422
    assert (await visitor.post(path, **fields)).status_code == 200
    keys = "/dashboard/api-keys"
    fields = {"scope": "emit", "back": keys, "once": await token_of(visitor, keys)}
    rejected = await visitor.post(keys, name="", **fields)
    assert rejected.status_code == 422
    assert "at least 1 character" in rejected.text
    assert (await visitor.post(keys, name="named", **fields)).status_code == 200
    links = "/dashboard/portal-links"
    fields = {"back": links, "once": await token_of(visitor, links)}
    assert "choose one of those in the list" in await visitor.submit(links, span="9", **fields)
    assert (await visitor.post(links, span="3600", **fields)).status_code == 200


async def test_interrupted_form_is_not_run_again_and_says_so(
    visitor: Visitor, client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    path = "/dashboard/endpoints/new"
    fields = NEW_ENDPOINT | {"once": await token_of(visitor, path)}
    assert (await visitor.post(path, **fields)).status_code == 200
    # the state that a process leaves which dies before it stores the result
    long_ago = context.clock() - timedelta(minutes=1)
    async with context.database.write() as connection:
        await connection.execute(
            update(FORMS)
            .where(FORMS.c.token == fields["once"])
            .values(led_to=None, shown_once=False, sent_at=long_ago)
        )
    answer = await visitor.post(path, **fields)
    assert answer.status_code == 409
    assert "It is not done a second time" in text_of(answer.text)
    assert 'href="/dashboard/endpoints"' in answer.text
    assert len(await listed(client, "endpoints", tenant)) == 1


async def test_form_token_is_bound_to_its_session(
    app: FastAPI, visitor: Visitor, client: httpx2.AsyncClient, tenant: str
) -> None:
    fields = {"name": "one", "scope": "emit", "once": "o" * 22}
    assert (await visitor.post("/dashboard/api-keys", **fields)).status_code == 200
    async with tenant_visitor(app, client, tenant) as other:
        assert (await other.post("/dashboard/api-keys", **fields)).status_code == 200


@pytest.mark.parametrize("token", ["", "short", "x" * 23, "x" * 21 + "/"])
async def test_form_with_an_invalid_token_has_no_effect(
    visitor: Visitor, client: httpx2.AsyncClient, tenant: str, token: str
) -> None:
    answer = await visitor.post("/dashboard/endpoints/new", **NEW_ENDPOINT, once=token)
    assert answer.status_code == 422
    assert "reload the page" in answer.text
    assert await listed(client, "endpoints", tenant) == []


async def test_stored_forms_hold_no_secret_and_expire(
    visitor: Visitor, context: Context, tenant: str
) -> None:
    created = await visitor.post("/dashboard/api-keys", name="kept nowhere", scope="emit")
    match = SECRET.search(created.text)
    assert match is not None
    async with context.database.write() as connection:
        rows = (await connection.execute(select(FORMS))).all()
        assert match[0] not in repr(rows)
        of_today = context.clock() - timedelta(hours=11)
        await connection.execute(update(FORMS).values(sent_at=of_today))
    await visitor.post("/dashboard/api-keys", name="next", scope="emit", once="n" * 22)
    assert await number_of_forms(context) == len(rows) + 1
    async with context.database.write() as connection:
        await connection.execute(
            update(FORMS)
            .where(FORMS.c.token == "n" * 22)
            .values(sent_at=context.clock() - timedelta(hours=13))
        )
    await visitor.post("/dashboard/api-keys", name="last", scope="emit")
    async with context.database.read() as connection:
        kept = await connection.execute(select(FORMS.c.token).where(FORMS.c.token == "n" * 22))
        assert kept.first() is None


async def number_of_forms(context: Context) -> int:
    async with context.database.read() as connection:
        found = (await connection.execute(select(func.count()).select_from(FORMS))).scalar_one()
    return int(found)
