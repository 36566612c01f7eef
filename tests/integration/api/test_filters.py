"""Content filters of subscriptions, through the API: which events they let pass, and where."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from hookfast.storage.events import filtering
from tests.support.api_client import Json, KeyClient, Make, MakeEventType, assert_problem

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"
LARGE = {"amount": {"$gte": 100}}


@pytest.fixture
async def endpoint(make_tenant: Make, make_endpoint: Make, make_event_type: MakeEventType) -> Json:
    await make_event_type(TYPE)
    return await make_endpoint(tenant_id=(await make_tenant())["id"])


async def emit(client: httpx2.AsyncClient, data: Any, **members: Any) -> int:
    """Emit an event and return the number of its deliveries."""
    answer = await client.post("/events", json={"type": TYPE, "data": data, **members})
    assert answer.status_code == 202, answer.text
    return int(answer.json()["deliveries"])


@pytest.mark.both_databases  # a JSON column, read as text
async def test_only_events_that_match_become_deliveries(
    client: httpx2.AsyncClient, endpoint: Json, make_subscription: Make, make_endpoint: Make
) -> None:
    filters: list[Json | None] = [
        None,
        LARGE,
        LARGE,
        {"amount": {"$lt": 100}},
        {"n": 9_007_199_254_740_993},
        {"items": {"sku": "A", "quantity": {"$gt": 1}}},
        {"note": None, "currency": {"$in": ["EUR", None]}},
    ]
    made = [
        await make_subscription(endpoint_id=endpoint["id"], events=["order.**"], filter=each)
        for each in filters
    ]
    assert [each["filter"] for each in made] == filters
    assert await emit(client, {"amount": 100}) == 3
    assert await emit(client, {"amount": 5}) == 2
    assert await emit(client, {"amount": "100"}) == 1
    assert await emit(client, {"n": 9_007_199_254_740_992}) == 1
    assert await emit(client, {"n": 9_007_199_254_740_993}) == 2
    assert await emit(client, {"items": [{"sku": "A", "quantity": 1}, {"quantity": 2}]}) == 1
    assert await emit(client, {"items": [{"sku": "A", "quantity": 2}]}) == 2
    assert await emit(client, {"note": None, "currency": "EUR"}) == 2
    assert await emit(client, [1, 2]) == 1

    answer = await client.post(
        "/events/batch", json={"events": [{"type": TYPE, "data": {"amount": n}} for n in (100, 5)]}
    )
    assert [one["deliveries"] for one in answer.json()["data"]] == [3, 2]
    long = {"amount": 100, "note": "x" * 80_000}  # evaluated in a thread, and committed alone
    assert await emit(client, long) == 3
    assert await emit(client, {**long, "amount": 5}) == 2
    listed = await client.get("/deliveries", params={"subscription_id": made[1]["id"]})
    assert len(listed.json()["data"]) == 3

    # a repeated idempotency key answers as the first time, whatever the filters are now
    keyed = {"headers": {"Idempotency-Key": "k"}, "json": {"type": TYPE, "data": {"amount": 7}}}
    assert (await client.post("/events", **keyed)).json()["deliveries"] == 2
    await client.patch(f"/subscriptions/{made[3]['id']}", json={"filter": LARGE})
    assert (await client.post("/events", **keyed)).json()["deliveries"] == 2
    assert await emit(client, {"amount": 7}) == 1


async def test_requests_whose_filters_are_heavy_are_committed_alone(
    client: httpx2.AsyncClient,
    endpoint: Json,
    make_subscription: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filtering, "_GROUP_REQUEST_STEPS", 50)
    for conditions in (LARGE, {"lines": {"n": {"$gt": 5}}}):
        await make_subscription(endpoint_id=endpoint["id"], events=["**"], filter=conditions)
    sent = [
        {"amount": amount, "lines": [{"n": n} for n in range(lines)]}
        for amount in (5, 100)
        for lines in (1, 6, 7, 40)
    ]
    counts = await asyncio.gather(*(emit(client, data) for data in sent))
    assert counts == [0, 0, 1, 1, 1, 1, 2, 2]


@pytest.mark.both_databases  # a JSON column, read as text
async def test_patch_replaces_the_filter_as_a_whole(
    client: httpx2.AsyncClient, endpoint: Json, make_subscription: Make
) -> None:
    made = await make_subscription(
        endpoint_id=endpoint["id"], events=["**"], filter={"a": 1, "b": {"$gt": 1}}
    )
    path = f"/subscriptions/{made['id']}"
    for patch, expected in (
        ({"payload": "thin"}, {"a": 1, "b": {"$gt": 1}}),
        ({"filter": {"b": {"$lt": 5}, "c": None}}, {"b": {"$lt": 5}, "c": None}),
        ({"filter": None}, None),
        ({"filter": LARGE}, LARGE),
        ({"filter": {}}, None),
    ):
        changed = await client.patch(path, json=patch)
        assert (changed.status_code, changed.json()["filter"]) == (200, expected)
        assert (await client.get(path)).json() | {"warnings": []} == changed.json()
        assert await emit(client, {"amount": 1}) == (expected is None)
    entries = (await client.get("/audit", params={"resource_id": made["id"]})).json()["data"]
    changes = [entry["changes"].get("filter") for entry in entries]
    assert {"before": {"b": {"$lt": 5}, "c": None}, "after": None} in changes


async def test_matches_applies_filters_to_an_example_event(
    client: httpx2.AsyncClient, endpoint: Json, make_subscription: Make, key_client: KeyClient
) -> None:
    made = [
        await make_subscription(endpoint_id=endpoint["id"], events=["order.**"], filter=each)
        for each in (None, LARGE, {"amount": {"$lt": 100}})
    ]
    ids = [each["id"] for each in made]

    async def listed(source: httpx2.AsyncClient, **query: Any) -> list[str]:
        answer = await source.get("/subscriptions", params={"matches": TYPE, **query})
        assert answer.status_code == 200, answer.text
        return [row["id"] for row in answer.json()["data"]]

    assert await listed(client) == ids[::-1]
    assert await listed(client, data='{"amount": 100}') == [ids[1], ids[0]]
    assert await listed(client, data="{}") == [ids[0]]
    async with key_client(endpoint["tenant_id"], scope="tenant:read") as theirs:
        assert await listed(theirs, data='{"amount": 1}') == [ids[2], ids[0]]
    # a page that filters would have emptied
    query = {"matches": TYPE, "data": '{"amount": 100}', "limit": 1}
    first = (await client.get("/subscriptions", params=query)).json()
    assert [row["id"] for row in first["data"]] == [ids[1]]
    query["cursor"] = first["next_cursor"]
    second = (await client.get("/subscriptions", params=query)).json()
    assert [row["id"] for row in second["data"]] == [ids[0]]
    assert second["next_cursor"] is None


async def test_preview_says_how_many_of_the_last_events_match(
    client: httpx2.AsyncClient,
    endpoint: Json,
    key_client: KeyClient,
    make_tenant: Make,
    make_event_type: MakeEventType,
) -> None:
    await make_event_type("order.refund.made")
    other = await make_tenant()
    for number in range(22):
        amount = 100 if number in (0, 5, 20) else 1
        await emit(client, {"amount": amount}, tenant_id=endpoint["tenant_id"])
    await client.post("/events", json={"type": "order.refund.made", "data": {"amount": 100}})
    await emit(client, {"amount": 100}, tenant_id=other["id"])

    async def preview(source: httpx2.AsyncClient, **members: Any) -> Json:
        body = {"endpoint_id": endpoint["id"], "events": [TYPE], "filter": LARGE} | members
        answer = await source.post("/subscriptions/preview", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    found = await preview(client)
    assert (found["checked"], found["matching"]) == (20, 2)
    assert [one["matches"] for one in found["events"]].index(True) == 1
    assert {one["type"] for one in found["events"]} == {TYPE}
    assert (await preview(client, filter=None))["matching"] == 20
    assert (await preview(client, events=["order.refund.*"]))["matching"] == 1
    assert await preview(client, events=["a.b.c"]) == {"checked": 0, "matching": 0, "events": []}
    async with key_client(endpoint["tenant_id"]) as theirs:
        assert (await preview(theirs))["matching"] == 2
    async with key_client(other["id"]) as stranger:
        body = {"endpoint_id": endpoint["id"], "events": [TYPE], "filter": LARGE}
        assert_problem(
            await stranger.post("/subscriptions/preview", json=body), 404, code="not_found"
        )
    stored = await client.get("/subscriptions", params={"endpoint_id": endpoint["id"]})
    assert stored.json()["data"] == []


async def test_replay_with_new_subscriptions_applies_their_filters(
    client: httpx2.AsyncClient, endpoint: Json, make_subscription: Make
) -> None:
    emitted = await client.post("/events", json={"type": TYPE, "data": {"amount": 100}})
    for each in (LARGE, {"amount": 5}):
        await make_subscription(endpoint_id=endpoint["id"], events=["**"], filter=each)
    path = f"/events/{emitted.json()['id']}/replay"
    counted = await client.post(path, json={"include_new": True, "dry_run": True})
    assert counted.json()["new_deliveries"] == 1
    started = await client.post(path, json={"include_new": True})
    assert started.json()["new_deliveries"] == 1
    again = await client.post(path, json={"include_new": True})
    assert again.json()["new_deliveries"] == 0


@pytest.mark.parametrize(
    ("value", "pointer", "code"),
    [
        ({"a": {"$gtee": 1}}, "/filter/a/$gtee", "invalid_filter"),
        ({"a": {"$in": "x"}}, "/filter/a/$in", "invalid_filter"),
        ({"a": "x" * 9_000}, "/filter", "invalid_filter"),
        ([1], "/filter", "invalid_input"),
        ("a", "/filter", "invalid_input"),
    ],
)
async def test_invalid_filter_is_rejected_everywhere(
    common_client: httpx2.AsyncClient, common_tenant: str, value: Any, pointer: str, code: str
) -> None:
    made = await common_client.post(
        "/endpoints",
        json={
            "tenant_id": common_tenant,
            "url": "http://127.0.0.1:4/",
            "verification": "none",
            "events": ["**"],
        },
    )
    endpoint = made.json()
    body = {"endpoint_id": endpoint["id"], "events": ["**"], "filter": value}
    subscription = f"/subscriptions/{endpoint['subscription']['id']}"
    for answer in (
        await common_client.post("/subscriptions", json=body),
        await common_client.post("/subscriptions/preview", json=body),
        await common_client.patch(subscription, json={"filter": value}),
    ):
        assert_problem(answer, 422, code=code, pointer=pointer)


@pytest.mark.parametrize(
    ("query", "pointer", "code"),
    [
        ({"data": "{}"}, "data", "invalid_input"),
        ({"matches": TYPE, "data": "{"}, "data", "invalid_json"),
        ({"matches": TYPE, "data": '{"a":1,"a":2}'}, "data", "invalid_json"),
        ({"matches": TYPE, "data": json.dumps("x" * 17_000)}, "data", "invalid_input"),
    ],
)
async def test_invalid_example_event_is_rejected(
    common_client: httpx2.AsyncClient, query: dict[str, str], pointer: str, code: str
) -> None:
    answer = await common_client.get("/subscriptions", params=query)
    assert_problem(answer, 422, code=code, pointer=pointer)
