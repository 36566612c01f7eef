"""No page shows or changes another tenant's data, or anything that the key's scope does not allow.
The pages come from the application's routes, so new ones are covered."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from tests.integration.api.shared.one_of_everything import EVENT_TYPE
from tests.integration.api.shared.rows import all_rows, rows_of
from tests.integration.dashboard.page_paths import (
    EVERYBODYS,
    FORMS,
    LIVE,
    OPEN_FORMS,
    PAGES,
    SHOWN,
    UNKNOWN,
    fields_for,
)
from tests.integration.dashboard.visitor import Forms, Visitor, browser, tenant_visitor

pytestmark = pytest.mark.anyio

OPERATORS = {
    "/dashboard/tenants",
    "/dashboard/settings/tenant",
    "/dashboard/event-types/new-type",
    "/dashboard/event-types/{name}/edit",
    "/dashboard/event-types/{name}/delete",
    "/dashboard/retention",
    "/dashboard/retention/run",
    "/dashboard/choices/tenants",
}
ONES = [each for each in PAGES if each.parameters]
LISTS = [each for each in SHOWN if not each.parameters]


def test_there_are_pages_of_every_kind() -> None:
    assert len(SHOWN) > 10
    assert len(FORMS) > 10
    assert LIVE
    assert ONES
    assert LISTS


@pytest.fixture
async def stranger(app: FastAPI, client: httpx2.AsyncClient) -> Any:
    """A visitor of another tenant."""
    tenant = await client.post("/tenants", json={"name": "Stranger"})
    async with tenant_visitor(app, client, tenant.json()["id"]) as visitor:
        yield visitor


async def test_no_page_shows_another_tenants_data(
    stranger: Visitor, operator: Visitor, owned: dict[str, str]
) -> None:
    private = [value for name, value in owned.items() if name != "tenant_id"] + ["Victim"]
    for page in SHOWN:
        answer = await stranger.get(page.at(owned))
        listed = 403 if page.path in OPERATORS else 200
        expected = listed if page in LISTS else 404
        assert answer.status_code == expected, f"{page}: {answer.text}"
        assert answer.headers["content-type"].startswith("text/html")
        if page.parameters:
            unknown = await stranger.get(
                page.at({name: f"{value.split('_')[0]}_{UNKNOWN}" for name, value in owned.items()})
            )
            assert unknown.status_code == 404, page
        for value in private:
            assert value not in re.sub(r'value="/dashboard[^"]*"', "", answer.text), page
    # the operator does see it
    seen = await operator.get(f"/dashboard/endpoints/{owned['endpoint_id']}")
    assert owned["endpoint_id"] in seen.text


async def test_live_parts_of_another_tenant_answer_404(
    stranger: Visitor, owned: dict[str, str]
) -> None:
    for page in LIVE:
        if page.parameters:
            answer = await stranger.get(page.at(owned))
            assert answer.status_code == 404, page


async def test_lists_filtered_by_another_tenants_ids_show_nothing(
    stranger: Visitor, owned: dict[str, str]
) -> None:
    for page in LISTS:
        for name in ("tenant_id", "endpoint_id", "event_id", "subscription_id", "source_id"):
            answer = await stranger.get(page.at(owned), params={name: owned[name]})
            text = answer.text.replace(f'value="{owned[name]}"', "")
            assert owned["delivery_id"] not in text, f"{page} {name}"
            assert owned["job_id"] not in text, f"{page} {name}"
            assert owned["inbox_id"] not in text, f"{page} {name}"
            assert "Victim" not in text, f"{page} {name}"


async def test_no_form_changes_another_tenants_data(
    stranger: Visitor, client: httpx2.AsyncClient, context: Context, owned: dict[str, str]
) -> None:
    async def state() -> Any:
        # rows of other tables, such as the circuit, are in these views
        paths = (f"/event-types/{EVENT_TYPE}", "/endpoints", "/sources", "/subscriptions")
        views = [(await client.get(path)).text for path in paths]
        return await rows_of(context, owned["tenant_id"]), views

    before = await state()
    csrf = await stranger.csrf()
    for page in FORMS:
        if page.path in EVERYBODYS:
            continue
        answer = await stranger.post(page.at(owned), csrf=csrf, **fields_for(owned))
        assert answer.status_code in (200, 403, 404, 422), f"{page}: {answer.text}"
        assert owned["delivery_id"] not in answer.text.replace(
            f'name="ids" value="{owned["delivery_id"]}"', ""
        ), page
    assert await state() == before


async def test_read_only_key_sees_no_forms_and_cannot_submit_any(
    app: FastAPI, client: httpx2.AsyncClient, context: Context, owned: dict[str, str]
) -> None:
    async with tenant_visitor(app, client, owned["tenant_id"], scope="tenant:read") as reader:
        before = await all_rows(context)
        for page in SHOWN:
            answer = await reader.get(page.at(owned))
            assert answer.status_code in (200, 403), page
            assert set(Forms(answer.text).posting()) <= EVERYBODYS, page
        csrf = await reader.csrf()
        for page in FORMS:
            if page.path in EVERYBODYS:
                continue
            answer = await reader.post(page.at(owned), csrf=csrf, **fields_for(owned))
            assert answer.status_code == 403, page
        assert await all_rows(context) == before


async def test_only_operators_can_choose_a_tenant(
    app: FastAPI, client: httpx2.AsyncClient, owned: dict[str, str]
) -> None:
    other = (await client.post("/tenants", json={"name": "Other"})).json()["id"]
    async with tenant_visitor(app, client, other) as visitor:
        answer = await visitor.post("/dashboard/settings/tenant", tenant_id=owned["tenant_id"])
        assert answer.status_code == 403
        assert owned["endpoint_id"] not in (await visitor.get("/dashboard/endpoints")).text


async def test_every_page_redirects_to_sign_in_without_a_session(
    app: FastAPI, context: Context, owned: dict[str, str]
) -> None:
    before = await all_rows(context)
    async with browser(app) as visitor:
        for page in PAGES:
            path = page.at(owned)
            answer = await visitor.client.request(page.method, path, data={"csrf": "x"})
            assert answer.status_code == 303, page
            assert answer.headers["location"].startswith("/dashboard/sign-in"), page
    assert await all_rows(context) == before


async def test_no_form_is_accepted_without_its_csrf_token(
    operator: Visitor,
    client: httpx2.AsyncClient,
    context: Context,
    owned: dict[str, str],
) -> None:
    other = await client.post(f"/tenants/{owned['tenant_id']}/api-keys", json={"name": "x"})
    assert other.status_code == 201
    before = await all_rows(context)
    own = await operator.csrf()
    wrong = own[::-1]
    for page in [*FORMS, *OPEN_FORMS]:
        path = page.at(owned)
        fields = fields_for(owned)
        without = await operator.client.post(path, data=fields)
        assert without.status_code == 403, page
        forged = await operator.client.post(path, data=fields | {"csrf": wrong})
        assert forged.status_code == 403, page
        elsewhere = await operator.client.post(
            path, data=fields | {"csrf": own}, headers={"Sec-Fetch-Site": "cross-site"}
        )
        assert elsewhere.status_code == 403, page
        as_json = await operator.client.post(path, json=fields | {"csrf": own})
        assert as_json.status_code == 415, page
    assert await all_rows(context) == before
