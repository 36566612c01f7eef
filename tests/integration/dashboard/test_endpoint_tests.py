"""Tests of an endpoint on its page: the sample to edit, the request, the answer, and the list."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from html import unescape

import httpx2
import pytest
from fastapi import FastAPI

from api.access.authentication import Principal
from api.context.context import Context
from api.http.pagination import Page
from api.routes.endpoint_tests import get_test, list_tests
from hookfast.errors import NotFound, Unavailable
from hookfast.storage.deliveries import sent_tests
from tests.integration.dashboard.resources import EVENT_TYPE, new_endpoint, new_tenant
from tests.integration.dashboard.visitor import tenant_visitor, text_of
from tests.support.api_client import event_type_maker
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "required": ["amount"],
    "properties": {"amount": {"type": "integer"}},
    "examples": [{"amount": 7}],
}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


def typed(html: str) -> str:
    """Return what is in the text area of the data."""
    found = re.search(r'<textarea name="data"[^>]*>(.*?)</textarea>', html, re.DOTALL)
    assert found is not None, html
    return unescape(found[1])


async def test_sample_is_loaded_edited_sent_and_kept(
    app: FastAPI, client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    receiver.routes["/hook"] = "/status/503"
    await event_type_maker(client)(EVENT_TYPE, schema=SCHEMA)
    await event_type_maker(client)("account.user.created")
    tenant = await new_tenant(client)
    endpoint = await new_endpoint(client, tenant, url=receiver.url("/hook"))
    path = f"/dashboard/endpoints/{endpoint}"
    async with tenant_visitor(app, client, tenant) as visitor:
        # first a type that it is subscribed to; any other can be chosen
        page = (await visitor.get(path)).text
        assert 'name="type" value="order.' in page
        assert "No tests in the last 7 days." in text_of(page)
        page = (await visitor.get(path, params={"test_type": EVENT_TYPE})).text
        assert typed(page) == '{\n  "amount": 7\n}'
        page = (await visitor.get(path, params={"test_type": "account.user.created"})).text
        assert json.loads(typed(page)) == {"test": True}
        unknown = await visitor.get(path, params={"test_type": "No <b>"})
        assert unknown.status_code == 200
        assert 'name="type" value="order.' in unknown.text

        data = '{"amount": 12,\r\n "note": "<b>&"}'
        once = {"once": "a" * 22, "type": EVENT_TYPE, "data": data, "back": path}
        sent = await visitor.post(f"{path}/test", **once)
        assert sent.status_code == 303
        [request] = receiver.requests
        assert b'{"amount": 12,\n "note": "<b>&"}' in request.body
        own = f"{path}/tests/{request.headers['webhook-id']}"
        assert sent.headers["location"] == own
        shown = await visitor.get(own)
        for part in (
            *("order.invoice.paid test 503", "The server answered 503"),
            f"POST {receiver.url('/hook')}",
            f"webhook-id: {request.headers['webhook-id']}",
            *("X-Hook-Test: true", "webhook-signature: ***", '"note": "<b>&"'),
            "HTTP 503",
        ):
            assert part in text_of(shown.text), part
        assert typed(shown.text) == data.replace("\r\n", "\n")
        assert (await visitor.post(f"{path}/test", **once)).headers["location"] == own
        assert len(receiver.requests) == 1  # a second click sends no second test
        listed = (await visitor.get(path)).text
        assert f'href="{own}"' in listed
        # on one line, as by the API, it is indented
        compact = await visitor.post(f"{path}/test", type=EVENT_TYPE, data='{"amount":1.0}')
        assert typed((await visitor.get(compact.headers["location"])).text) == (
            '{\n  "amount": 1.0\n}'
        )
        assert "order.invoice.paid 503 now took" in text_of(listed)
        # a button of the same form
        assert f'formaction="{path}/verify" formnovalidate>Verify receiver' in listed
        checked = await visitor.submit(f"{path}/verify", type=EVENT_TYPE, data="{", back=path)
        assert "The URL is allowed." in text_of(checked)
        # of another endpoint
        other = await new_endpoint(client, tenant)
        assert (await visitor.get(own.replace(endpoint, other))).status_code == 404
        # the search knows what the receiver logged
        found = await visitor.get("/dashboard/search", params={"q": request.headers["webhook-id"]})
        assert found.headers["location"] == own
    async with tenant_visitor(app, client, tenant, scope="tenant:read") as reader:
        page = (await reader.get(path)).text
        assert f'href="{own}"' in page
        assert 'name="data"' not in page + (await reader.get(own)).text
        assert (await reader.post(f"{path}/test", type=EVENT_TYPE, data="{}")).status_code == 403


async def test_wrong_data_stays_as_it_was_typed_with_the_reason(
    app: FastAPI, client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    await event_type_maker(client)(EVENT_TYPE, schema=SCHEMA)
    tenant = await new_tenant(client)
    path = f"/dashboard/endpoints/{await new_endpoint(client, tenant, url=receiver.url('/hook'))}"
    async with tenant_visitor(app, client, tenant) as visitor:
        for data, reason in (
            ('{"amount": "<b>"}', "Data/amount: does not satisfy the schema's"),
            ('{"amount": 1, "amount": 2}', "keep one"),
            ("{", "This is not JSON"),
            ("", "This is empty; send a JSON value"),
        ):
            answer = await visitor.post(f"{path}/test", type=EVENT_TYPE, data=data, back=path)
            assert answer.status_code == 422
            assert reason.lower() in text_of(answer.text).lower(), data
            assert typed(answer.text) == data
            assert 'aria-describedby="data-error"' in answer.text
    assert receiver.requests == []


async def test_result_of_a_test_that_cannot_be_stored_is_shown_and_says_so(
    app: FastAPI,
    client: httpx2.AsyncClient,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> None:
        raise Unavailable("The database is away.")

    monkeypatch.setattr(sent_tests, "add", fail)
    await event_type_maker(client)(EVENT_TYPE)
    tenant = await new_tenant(client)
    path = f"/dashboard/endpoints/{await new_endpoint(client, tenant, url=receiver.url('/hook'))}"
    async with tenant_visitor(app, client, tenant) as visitor:
        sent = await visitor.post(f"{path}/test", type=EVENT_TYPE, data="1", back=path)
    assert sent.status_code == 200
    assert "The receiver accepted it." in text_of(sent.text)
    assert "could not be stored" in text_of(sent.text)


async def test_caller_limited_to_an_endpoint_sees_its_tests_only(
    client: httpx2.AsyncClient, context: Context, shop: dict[str, str]
) -> None:
    tested = {}
    for name in ("endpoint_id", "other_endpoint_id"):
        answer = await client.post(f"/endpoints/{shop[name]}/test", json={"type": EVENT_TYPE})
        tested[name] = answer.json()["message_id"]
    limited = Principal(
        scope="tenant:read",
        tenant_id=shop["tenant_id"],
        key_id="key_1",
        by_link=True,
        endpoint_id=shop["endpoint_id"],
    )
    listed = await list_tests(Page(limit=9, after=None), context, limited)
    assert {one.endpoint_id for one in listed.data} == {shop["endpoint_id"]}
    assert (await get_test(tested["endpoint_id"], context, limited)).id == tested["endpoint_id"]
    with pytest.raises(NotFound):
        await get_test(tested["other_endpoint_id"], context, limited)
