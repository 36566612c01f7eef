"""Subscriptions with the payload `mapped`: their settings, previews and tests."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from sqlalchemy import select

from api.context.context import Context
from api.forms import poll
from hookfast.storage.tables import SubscriptionMapping
from tests.support.api_client import Json, KeyClient, Make, MakeEventType, assert_problem
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"
EXAMPLE = {"invoice_id": "in_1"}
MAPPING = "{text: join(' ', ['Invoice', data.invoice_id])}"


@pytest.fixture
async def endpoint(
    make_tenant: Make, make_event_type: MakeEventType, make_endpoint: Make, receiver: Receiver
) -> Json:
    await make_event_type(TYPE, schema={"examples": [EXAMPLE]})
    tenant = (await make_tenant())["id"]
    return await make_endpoint(tenant_id=tenant, url=receiver.url("/hook"))


async def kept(context: Context) -> dict[str, str]:
    async with context.database.read() as connection:
        rows = await connection.execute(select(SubscriptionMapping.__table__))
        return {row.subscription_id: row.mapping for row in rows}


async def test_a_mapping_is_set_changed_and_removed(
    client: httpx2.AsyncClient, context: Context, endpoint: Json
) -> None:
    form = {"endpoint_id": endpoint["id"], "events": ["order.**"], "payload": "mapped"}
    answer = await client.post("/subscriptions", json=form | {"mapping": MAPPING})
    assert answer.status_code == 201, answer.text
    subscription = answer.json()
    assert (subscription["payload"], subscription["mapping"]) == ("mapped", MAPPING)
    path = f"/subscriptions/{subscription['id']}"

    async def patched(**patch: Any) -> Json:
        answer = await client.patch(path, json=patch)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    assert (await patched(mapping="data"))["mapping"] == "data"
    assert await kept(context) == {subscription["id"]: "data"}
    assert (await patched(events=["**"]))["mapping"] == "data"
    full = await patched(payload="full")
    assert (full["payload"], full["mapping"]) == ("full", None)
    assert await kept(context) == {subscription["id"]: "data"}  # for deliveries until now
    assert (await patched(payload="mapped", mapping="type"))["mapping"] == "type"
    assert (await patched(payload=None))["mapping"] is None  # reset to `full`
    assert (await client.delete(path)).status_code == 204
    assert await kept(context) == {subscription["id"]: "type"}


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"payload": "mapped"}, "invalid_input"),
        ({"payload": "mapped", "mapping": ""}, "invalid_input"),
        ({"payload": "mapped", "mapping": 5}, "invalid_input"),
        ({"payload": "mapped", "mapping": "a" * 4_001}, "invalid_input"),
        ({"payload": "mapped", "mapping": "{text: data."}, "invalid_expression"),
        ({"payload": "mapped", "mapping": "nope(@)"}, "invalid_expression"),
        ({"payload": "mapped", "mapping": "(" * 4_000}, "invalid_expression"),
        ({"payload": "full", "mapping": "data"}, "invalid_input"),
        ({"mapping": "data"}, "invalid_input"),
    ],
)
async def test_an_invalid_mapping_is_rejected_where_it_is(
    common_client: httpx2.AsyncClient, common_tenant: str, members: Json, code: str
) -> None:
    form = {"tenant_id": common_tenant, "url": "http://127.0.0.1:4/", "verification": "none"}
    endpoint = (await common_client.post("/endpoints", json=form | {"events": ["**"]})).json()["id"]
    form = {"endpoint_id": endpoint, "events": ["**"]}
    answer = await common_client.post("/subscriptions", json=form | members)
    assert_problem(answer, 422, code=code, pointer="/mapping")
    listed = await common_client.get("/subscriptions", params={"endpoint_id": endpoint})
    [first] = listed.json()["data"]
    answer = await common_client.patch(f"/subscriptions/{first['id']}", json=members)
    assert_problem(answer, 422, code=code, pointer="/mapping")


async def test_a_test_sends_and_a_dry_run_shows_the_mapped_body(
    client: httpx2.AsyncClient,
    receiver: Receiver,
    endpoint: Json,
    make_subscription: Make,
    make_tenant: Make,
    make_endpoint: Make,
    key_client: KeyClient,
) -> None:
    path = f"/endpoints/{endpoint['id']}/test"

    async def tested(**members: Any) -> Json:
        answer = await client.post(path, json={"type": TYPE} | members)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    # without a subscription to the type, as before
    view = await tested(dry_run=True)
    assert (view["payload"], view["dry_run"], view["succeeded"]) == ("full", True, None)
    assert json.loads(view["body"])["data"] == EXAMPLE

    mapped = {"endpoint_id": endpoint["id"], "payload": "mapped"}
    first = await make_subscription(**mapped, events=["order.**"], mapping=MAPPING)
    other = await make_subscription(**mapped, events=["order.**"], mapping="data")
    body = '{"text":"Invoice in_1"}'
    view = await tested(dry_run=True)
    assert (view["payload"], view["body"]) == ("mapped", body)
    assert (await tested(dry_run=True, subscription_id=other["id"]))["body"] == (
        '{"invoice_id":"in_1"}'
    )
    # data of one's own, with exact numbers, and a mapping that is not saved yet
    content = f'{{"type":"{TYPE}","dry_run":true,"mapping":"data.n","data":{{"n":12.50}}}}'
    headers = {"Content-Type": "application/json"}
    assert (await client.post(path, content=content, headers=headers)).json()["body"] == "12.50"
    assert receiver.requests == []

    view = await tested(subscription_id=first["id"])
    assert (view["payload"], view["body"], view["succeeded"]) == ("mapped", body, True)
    [request] = receiver.requests
    assert request.body.decode() == body

    for members, code, pointer in (
        ({"dry_run": True, "mapping": "data."}, "invalid_expression", "/mapping"),
        ({"dry_run": True, "mapping": "data.missing"}, "mapping_failed", "/mapping"),
        ({"mapping": "data"}, "invalid_input", "/mapping"),
        ({"subscription_id": "sub_1"}, "invalid_input", "/subscription_id"),
    ):
        answer = await client.post(path, json={"type": TYPE} | members)
        assert_problem(answer, 422, code=code, pointer=pointer)
    await client.patch(f"/subscriptions/{first['id']}", json={"mapping": "data.missing"})
    answer = await client.post(path, json={"type": TYPE, "subscription_id": first["id"]})
    assert_problem(answer, 422, code="mapping_failed", pointer="/mapping")
    assert len(receiver.requests) == 1

    # a subscription of another endpoint, or of another tenant
    own = await make_endpoint(tenant_id=(await make_tenant())["id"], url=receiver.url("/b"))
    async with key_client(own["tenant_id"]) as another:
        members = {"type": TYPE, "subscription_id": other["id"], "dry_run": True}
        answer = await another.post(f"/endpoints/{own['id']}/test", json=members)
        assert_problem(answer, 404, code="not_found")


async def polled_endpoint(client: httpx2.AsyncClient, tenant_id: str) -> str:
    answer = await client.post("/endpoints", json={"tenant_id": tenant_id, "mode": "poll"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_a_poll_returns_mapped_bodies_and_says_where_a_mapping_fails(
    client: httpx2.AsyncClient, endpoint: Json, make_subscription: Make
) -> None:
    tenant = endpoint["tenant_id"]
    polled = await polled_endpoint(client, tenant)
    mapped = {"events": [TYPE], "payload": "mapped", "mapping": "{n: abs(data.n)}"}
    await make_subscription(endpoint_id=polled, **mapped)
    await make_subscription(endpoint_id=endpoint["id"], **mapped)
    for n in ("12.50", '"x"', "-2"):
        content = f'{{"type":"{TYPE}","tenant_id":"{tenant}","data":{{"n":{n}}}}}'
        headers = {"Content-Type": "application/json"}
        assert (await client.post("/events", content=content, headers=headers)).is_success
    for one in (polled, endpoint["id"]):
        answer = await client.get(f"/endpoints/{one}/poll")
        good, failed, last = answer.json()["data"]
        assert answer.json()["done"]
        assert (good["payload"], good["mapping_error"], last["event"]) == ("mapped", None, {"n": 2})
        assert failed["event"]["data"] == {"n": "x"}
        assert "abs() takes a number, and was given a string" in failed["mapping_error"]


async def test_a_poll_with_costly_mappings_ends_early_and_continues(
    client: httpx2.AsyncClient,
    endpoint: Json,
    make_subscription: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poll, "_MAX_SECONDS", 0.0)  # how far a page gets depends on the machine
    polled = await polled_endpoint(client, endpoint["tenant_id"])
    costly = {"payload": "mapped", "mapping": "{n: data.n}"}
    await make_subscription(endpoint_id=polled, events=[TYPE], **costly)
    for n in range(3):
        data = {"n": n}
        form = {"type": TYPE, "tenant_id": endpoint["tenant_id"], "data": data}
        assert (await client.post("/events", json=form)).is_success
    seen: list[int] = []
    cursor, pages = None, 0
    while True:
        params = {} if cursor is None else {"cursor": cursor}
        page = (await client.get(f"/endpoints/{polled}/poll", params=params)).json()
        seen += [item["event"]["n"] for item in page["data"]]
        cursor, pages = page["next_cursor"], pages + 1
        if page["done"]:
            break
    assert seen == [0, 1, 2]
    assert pages == 3
