from __future__ import annotations

import httpx2
import pytest

from api.context.context import Context
from hookfast.storage.endpoints import subscriptions
from tests.support.api_client import Json, KeyClient, Make, assert_problem

pytestmark = pytest.mark.anyio


@pytest.fixture
async def endpoint(make_tenant: Make, make_endpoint: Make) -> Json:
    return await make_endpoint(tenant_id=(await make_tenant())["id"])


async def test_it_creates_and_shows_a_subscription(
    client: httpx2.AsyncClient, endpoint: Json
) -> None:
    answer = await client.post(
        "/subscriptions",
        json={"endpoint_id": endpoint["id"], "events": ["a.**", "a.**"], "payload": "thin"},
    )
    assert answer.status_code == 201
    subscription = answer.json()
    assert subscription["tenant_id"] == endpoint["tenant_id"]
    assert subscription["events"] == ["a.**"]
    assert subscription["payload"] == "thin"
    assert subscription["active"] is True
    del subscription["warnings"]
    assert (await client.get(f"/subscriptions/{subscription['id']}")).json() == subscription


async def test_changed_events_change_the_matches(
    client: httpx2.AsyncClient, context: Context, endpoint: Json, make_subscription: Make
) -> None:
    subscription = await make_subscription(endpoint_id=endpoint["id"], events=["a.**", "b.b.b"])
    path = f"/subscriptions/{subscription['id']}"
    changed = await client.patch(path, json={"events": ["b.b.b", "*.c.*"]})
    assert changed.json()["events"] == ["b.b.b", "*.c.*"]
    assert changed.json()["payload"] == "full"
    async with context.database.read() as connection:
        patterns = await subscriptions.patterns_of_endpoint(connection, endpoint["id"])
    assert patterns == ["*.c.*", "b.b.b"]
    for event_type, count in (("a.a.a", 0), ("a.c.a", 1), ("b.b.b", 1)):
        found = await client.get("/subscriptions", params={"matches": event_type})
        assert len(found.json()["data"]) == count, event_type


@pytest.mark.parametrize(
    ("event_type", "wanted"),
    [
        ("order.invoice.paid", {"exact", "middle", "rest", "all"}),
        ("order.invoice.sent", {"rest", "all"}),
        ("order.refund.paid", {"middle", "rest", "all"}),
        ("user.account.created", {"all"}),
    ],
)
async def test_matches_lists_subscriptions_that_would_receive_an_event(
    client: httpx2.AsyncClient,
    endpoint: Json,
    make_subscription: Make,
    event_type: str,
    wanted: set[str],
) -> None:
    patterns = {
        "exact": ["order.invoice.paid", "order.invoice.paid"],
        "middle": ["order.*.paid"],
        "rest": ["order.**", "order.*.*"],
        "all": ["**"],
    }
    names = {}
    for name, events in patterns.items():
        made = await make_subscription(endpoint_id=endpoint["id"], events=events)
        names[made["id"]] = name
    await make_subscription(endpoint_id=endpoint["id"], events=["**"], active=False)
    answer = await client.get("/subscriptions", params={"matches": event_type})
    found = [names[row["id"]] for row in answer.json()["data"]]
    assert sorted(found) == sorted(wanted)


async def test_matches_can_be_limited_to_one_tenant(
    client: httpx2.AsyncClient, endpoint: Json, make_tenant: Make, make_endpoint: Make
) -> None:
    other = await make_tenant()
    theirs = await make_endpoint(tenant_id=other["id"], events=["**"])
    params = {"matches": "a.b.c", "tenant_id": other["id"]}
    found = (await client.get("/subscriptions", params=params)).json()["data"]
    assert [row["id"] for row in found] == [theirs["subscription"]["id"]]
    params["tenant_id"] = endpoint["tenant_id"]
    assert (await client.get("/subscriptions", params=params)).json()["data"] == []


async def test_the_list_filters_by_endpoint(
    client: httpx2.AsyncClient, endpoint: Json, make_endpoint: Make, make_subscription: Make
) -> None:
    other = await make_endpoint(tenant_id=endpoint["tenant_id"], events=["**"])
    mine = await make_subscription(endpoint_id=endpoint["id"], events=["**"])
    answer = await client.get("/subscriptions", params={"endpoint_id": endpoint["id"]})
    assert [row["id"] for row in answer.json()["data"]] == [mine["id"]]
    assert other["subscription"]["id"] != mine["id"]
    unknown = await client.get("/subscriptions", params={"endpoint_id": "ep_" + "0" * 32})
    assert_problem(unknown, 404, code="not_found")


async def test_delete_removes_its_patterns_too(
    client: httpx2.AsyncClient, context: Context, endpoint: Json, make_subscription: Make
) -> None:
    subscription = await make_subscription(endpoint_id=endpoint["id"], events=["**"])
    path = f"/subscriptions/{subscription['id']}"
    assert (await client.delete(path)).status_code == 204
    assert_problem(await client.delete(path), 404, code="not_found")
    async with context.database.read() as connection:
        assert await subscriptions.patterns_of_endpoint(connection, endpoint["id"]) == []


async def test_two_changes_at_once_do_not_overwrite_each_other(
    context: Context, endpoint: Json, make_subscription: Make
) -> None:
    made = await make_subscription(endpoint_id=endpoint["id"], events=["**"])
    async with context.database.read() as connection:
        row = await subscriptions.get(connection, made["id"])
    assert row is not None
    seen, outcomes = row.updated_at, []
    for events in (["a.**"], ["b.**"]):
        row.events, row.updated_at = events, context.clock()
        async with context.database.write() as connection:
            outcomes.append(await subscriptions.change(connection, row, seen=seen))
    assert outcomes == [True, False]
    async with context.database.read() as connection:
        patterns = await subscriptions.patterns_of_endpoint(connection, endpoint["id"])
    assert patterns == ["a.**"]


async def test_subscription_to_another_tenants_endpoint_answers_404(
    endpoint: Json, make_tenant: Make, key_client: KeyClient
) -> None:
    other = await make_tenant()
    async with key_client(other["id"]) as theirs:
        body = {"endpoint_id": endpoint["id"], "events": ["**"]}
        assert_problem(await theirs.post("/subscriptions", json=body), 404, code="not_found")


@pytest.mark.parametrize(
    ("member", "value", "code", "pointer"),
    [
        ("events", [], "invalid_input", "/events"),
        ("events", ["**.a"], "invalid_pattern", "/events/0"),
        ("events", [5], "invalid_input", "/events/0"),
        ("payload", "slim", "invalid_input", "/payload"),
        ("active", 1, "invalid_input", "/active"),
        ("active", "true", "invalid_input", "/active"),
        ("endpoint_id", "ep_1", "invalid_input", "/endpoint_id"),
        ("tenant_id", "tnt_1", "invalid_input", "/tenant_id"),
    ],
)
async def test_invalid_subscription_is_rejected(
    client: httpx2.AsyncClient, endpoint: Json, member: str, value: object, code: str, pointer: str
) -> None:
    body = {"endpoint_id": endpoint["id"], "events": ["**"]} | {member: value}
    answer = await client.post("/subscriptions", json=body)
    assert_problem(answer, 422, code=code, pointer=pointer)


async def test_matches_rejects_an_invalid_event_type(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/subscriptions", params={"matches": "order.**"})
    assert_problem(answer, 422, code="invalid_event_type", pointer="matches")
