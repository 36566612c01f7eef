"""Ordered delivery through the API: keys, settings, and what a queued delivery shows."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from api.context.context import Context
from hookfast.deliveries.lane import DeadLetterPolicy
from tests.integration.storage.deliveries.ordered import end
from tests.support.api_client import Json, Make, MakeEventType, assert_problem

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"
LATER = "2026-12-01T00:00:00Z"


@pytest.fixture(autouse=True)
async def endpoint(make_event_type: MakeEventType, make_tenant: Make, make_endpoint: Make) -> Json:
    """An endpoint with ordered deliveries of all events."""
    await make_event_type(TYPE)
    tenant = (await make_tenant())["id"]
    return await make_endpoint(tenant_id=tenant, events=["**"], ordered=True)


def event(key: str | None = None, **members: Any) -> Json:
    return {"type": TYPE, "data": 1} | ({} if key is None else {"ordering_key": key}) | members


async def emit(client: httpx2.AsyncClient, *keys: str | None) -> list[str]:
    """Emit events with these keys in one request. Return their deliveries, in this order."""
    answer = await client.post("/events/batch", json={"events": [event(key) for key in keys]})
    assert answer.json()["accepted"] == len(keys), answer.text
    found = []
    for one in answer.json()["data"]:
        deliveries = await client.get(f"/events/{one['id']}/deliveries")
        found.append(deliveries.json()["data"][0]["id"])
    return found


async def get(client: httpx2.AsyncClient, delivery: str) -> Json:
    answer: Json = (await client.get(f"/deliveries/{delivery}")).json()
    return answer


def seen(delivery: Json) -> tuple[Any, ...]:
    names = ("place", "ordering_key", "waits_behind")
    return tuple(delivery[name] for name in names)


async def test_queued_delivery_shows_what_it_waits_behind(
    client: httpx2.AsyncClient, context: Context
) -> None:
    one, two, other = await emit(client, "é/1", "é/1", None)
    first, second = await get(client, one), await get(client, two)
    assert (seen(first), first["waiting_behind"]) == (("head", "é/1", None), 1)
    assert (seen(second), second["waiting_behind"]) == (("queued", "é/1", one), 0)
    assert (second["status"], second["next_attempt_at"]) == ("pending", None)
    assert seen(await get(client, other)) == ("head", None, None)
    listed = {row["id"]: row for row in (await client.get("/deliveries")).json()["data"]}
    assert seen(listed[two]) == ("queued", "é/1", one)
    await end(context.database, one)
    assert seen(await get(client, two)) == ("head", "é/1", None)
    assert seen(await get(client, one)) == ("left", "é/1", None)
    event_id = second["event_id"]
    assert (await client.get(f"/events/{event_id}")).json()["ordering_key"] == "é/1"


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"ordering_key": ""}, "/ordering_key"),
        ({"ordering_key": "x" * 257}, "/ordering_key"),
        ({"ordering_key": "a\x01"}, "/ordering_key"),
        ({"ordering_key": "a\n"}, "/ordering_key"),
        ({"ordering_key": "a\x85"}, "/ordering_key"),
        ({"ordering_key": 7}, "/ordering_key"),
        ({"ordering_key": "a", "deliver_at": LATER}, "/ordering_key"),
    ],
)
async def test_impossible_ordering_key_is_rejected(
    client: httpx2.AsyncClient, members: Json, pointer: str
) -> None:
    answer = await client.post("/events", json=event(**members))
    problem = assert_problem(answer, 422, code="invalid_input")
    assert [error["pointer"] for error in problem["errors"]] == [pointer]
    batch = await client.post("/events/batch", json={"events": [event(**members), event("ok")]})
    assert (batch.json()["accepted"], batch.json()["rejected"]) == (1, 1)


@pytest.mark.parametrize("key", ["x" * 256, "é" * 256, "\U0001f600" * 256, " ", "a/b", "'\"\\%"])
async def test_any_text_without_control_characters_is_a_key(
    client: httpx2.AsyncClient, key: str
) -> None:
    one, two = await emit(client, key, key)
    assert seen(await get(client, two)) == ("queued", key, one)


async def test_ordering_key_belongs_to_what_an_idempotency_key_protects(
    client: httpx2.AsyncClient,
) -> None:
    headers = {"Idempotency-Key": "k"}
    first = await client.post("/events", json=event("a"), headers=headers)
    again = await client.post("/events", json=event("a"), headers=headers)
    assert first.json() == again.json()
    for key in ("b", None):
        other = await client.post("/events", json=event(key), headers=headers)
        assert_problem(other, 409, code="idempotency_key_reused")


async def test_subscription_can_be_ordered_by_itself(
    client: httpx2.AsyncClient, endpoint: Json, make_subscription: Make
) -> None:
    path = f"/endpoints/{endpoint['id']}"
    assert endpoint["ordered"]
    answer = await client.patch(path, json={"ordered": False})
    assert answer.json()["ordered"] is False
    added = await make_subscription(endpoint_id=endpoint["id"], events=["**"], ordered=True)
    assert added["ordered"]
    await client.post("/events", json=event("a"))
    rows = (await client.get("/deliveries")).json()["data"]
    assert {row["subscription_id"] == added["id"]: row["place"] for row in rows} == {
        True: "head",
        False: None,
    }
    changed = await client.patch(f"/subscriptions/{added['id']}", json={"ordered": False})
    assert changed.json()["ordered"] is False


async def test_polled_endpoint_cannot_be_ordered(
    client: httpx2.AsyncClient, endpoint: Json
) -> None:
    form = {"mode": "poll", "tenant_id": endpoint["tenant_id"]}
    assert_problem(
        await client.post("/endpoints", json=form | {"ordered": True}), 422, code="invalid_input"
    )
    polled = (await client.post("/endpoints", json=form)).json()
    subscription = {"endpoint_id": polled["id"], "events": ["**"]}
    answer = await client.post("/subscriptions", json=subscription | {"ordered": True})
    problem = assert_problem(answer, 422, code="invalid_input")
    assert problem["errors"][0]["pointer"] == "/ordered"
    added = (await client.post("/subscriptions", json=subscription)).json()
    patch = await client.patch(f"/subscriptions/{added['id']}", json={"ordered": True})
    assert_problem(patch, 422, code="invalid_input")


async def test_blocking_dead_letter_says_how_many_wait_and_can_be_cancelled(
    client: httpx2.AsyncClient, context: Context
) -> None:
    one, two, three, other = await emit(client, "a", "a", "a", "b")
    await end(context.database, one, 500, policy=DeadLetterPolicy.WAIT)
    await end(context.database, other, 500)
    dead = await get(client, one)
    assert (dead["status"], dead["place"], dead["waiting_behind"]) == ("dead", "head", 2)
    assert_problem(await client.post(f"/deliveries/{other}/cancel"), 409, code="delivery_finished")
    assert (await client.post(f"/deliveries/{one}/cancel")).status_code == 202
    assert (await get(client, one))["status"] == "cancelled"
    assert seen(await get(client, three)) == ("queued", "a", two)


async def test_queued_delivery_can_be_paused_resumed_resent_and_cancelled(
    client: httpx2.AsyncClient, context: Context
) -> None:
    one, two, three = await emit(client, "a", "a", "a")
    for action, status in (
        ("pause", "paused"),
        ("resume", "pending"),
        ("resend", "pending"),
    ):
        answer = await client.post(f"/deliveries/{two}/{action}")
        assert answer.status_code == 202
        delivery = await get(client, two)
        assert (delivery["status"], *seen(delivery)) == (status, "queued", "a", one)
        assert delivery["next_attempt_at"] is None
    assert (await client.post(f"/deliveries/{two}/cancel")).status_code == 202
    assert seen(await get(client, two)) == ("left", "a", None)
    await end(context.database, one)
    assert seen(await get(client, three)) == ("head", "a", None)
