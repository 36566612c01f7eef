"""The items of a poll: which events they are, each as a receiver would get it."""

from __future__ import annotations

import base64

import httpx2
import pytest

from tests.integration.api.inbound import SECRET, send
from tests.integration.api.polling.polls import TYPE, emit, numbers, poll
from tests.support.api_client import Make

pytestmark = pytest.mark.anyio


async def test_item_has_the_body_that_a_receiver_would_get(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    data = '{"price": 1.10, "big": 12345678901234567890123}'
    event = (
        await tenant.post(
            "/events",
            content=f'{{"type": "{TYPE}", "data": {data}}}',
            headers={"Content-Type": "application/json"},
        )
    ).json()
    answer = await tenant.get(f"/endpoints/{polled}/poll")
    assert f'"data":{data}' in answer.text  # exactly as emitted, to the last digit
    [item] = answer.json()["data"]
    assert item["message_id"] == item["event_id"] == item["event"]["id"] == event["id"]
    assert (item["payload"], item["delivery"], item["request"]) == ("full", None, None)


async def test_payload_style_is_that_of_the_oldest_subscription(
    tenant: httpx2.AsyncClient, client: httpx2.AsyncClient, tenant_id: str
) -> None:
    endpoint = (await tenant.post("/endpoints", json={"mode": "poll"})).json()["id"]
    styles = (("thin", ["order.invoice.*"]), ("raw", ["github.**"]), ("full", ["**"]))
    subscriptions = []
    for payload, events in styles:
        form = {"endpoint_id": endpoint, "events": events, "payload": payload}
        subscriptions.append((await tenant.post("/subscriptions", json=form)).json()["id"])
    form = {"name": "code", "provider": "github", "tenant_id": tenant_id, "secrets": [SECRET]}
    source = (await client.post("/sources", json=form)).json()["id"]
    event = await emit(tenant, 1)
    body = b'{"n":  2}'
    assert (await send(client, source, body)).status_code == 202
    await emit(tenant, 3, "order.refund.made")
    thin, raw, full = (await poll(tenant, endpoint))["data"]
    assert [one["subscription_id"] for one in (thin, raw, full)] == subscriptions
    assert thin["event"]["data"]["url"].endswith(f"/v1/events/{event}")
    assert (raw["event"], raw["type"]) == (None, "github.push.received")
    assert base64.b64decode(raw["request"]["body"]) == body
    sent = {name.lower(): value for name, value in raw["request"]["headers"]}
    assert sent["x-github-event"] == "push"
    assert full["event"]["data"] == {"n": 3}


async def test_polled_endpoint_gets_its_tenants_events_and_broadcasts(
    client: httpx2.AsyncClient, tenant: httpx2.AsyncClient, polled: str, make_tenant: Make
) -> None:
    other = (await make_tenant())["id"]
    await emit(client, 1, tenant_id=other)
    await emit(client, 2)
    await emit(tenant, 3)
    assert numbers(await poll(tenant, polled)) == [2, 3]


async def test_poll_of_a_push_endpoint_shows_its_deliveries(
    tenant: httpx2.AsyncClient,
) -> None:
    form = {"url": "http://127.0.0.1:4/", "verification": "none", "events": ["order.invoice.*"]}
    endpoint = (await tenant.post("/endpoints", json=form)).json()["id"]
    events = [await emit(tenant, n) for n in range(2)]
    await emit(tenant, 9, "order.refund.made")  # not subscribed
    form = {"endpoint_id": endpoint, "events": ["order.**"], "payload": "thin"}
    await tenant.post("/subscriptions", json=form)
    await emit(tenant, 2)
    page = await poll(tenant, endpoint)
    deliveries = (await tenant.get("/deliveries", params={"endpoint_id": endpoint})).json()["data"]
    assert [one["event_id"] for one in page["data"][:2]] == events
    assert sorted(one["message_id"] for one in page["data"]) == sorted(
        one["id"] for one in deliveries
    )
    assert {one["delivery"]["status"] for one in page["data"]} == {"pending"}
    # one event for two subscriptions: the first item acknowledges only events before both
    *_, first, second = page["data"]
    assert first["event_id"] == second["event_id"]
    assert {first["payload"], second["payload"]} == {"full", "thin"}
    await poll(tenant, endpoint, cursor=first["cursor"])
    assert [one["message_id"] for one in (await poll(tenant, endpoint))["data"]] == [
        first["message_id"],
        second["message_id"],
    ]
    # the deliveries did not change
    await poll(tenant, endpoint, cursor=page["next_cursor"])
    after = (await tenant.get("/deliveries", params={"endpoint_id": endpoint})).json()["data"]
    assert after == deliveries


async def test_poll_without_an_active_subscription_is_empty(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    [subscription] = (await tenant.get("/subscriptions", params={"endpoint_id": polled})).json()[
        "data"
    ]
    await emit(tenant, 1)
    await tenant.patch(f"/subscriptions/{subscription['id']}", json={"active": False})
    page = await poll(tenant, polled)
    assert (page["data"], page["done"]) == ([], True)
    await tenant.patch(f"/subscriptions/{subscription['id']}", json={"active": True})
    assert numbers(await poll(tenant, polled)) == [1]  # it was not acknowledged
