"""Polling: who cannot receive fetches, in the order of commits, and acknowledges by the cursor."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from sqlalchemy import delete, func, select

from api.context import Context
from hookfast.clock import utc_now
from hookfast.storage import retention_runs
from hookfast.storage.retention_tables import RetentionRun
from hookfast.storage.tables import Delivery, Event
from tests.api_client import Json, KeyClient, Make, MakeEventType, assert_problem
from tests.integration.api.inbound import SECRET, send
from tests.waiting import PATIENCE

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"


@pytest.fixture
async def tenant_id(make_tenant: Make, make_event_type: MakeEventType) -> str:
    await make_event_type(TYPE)
    await make_event_type("order.refund.made")
    return str((await make_tenant())["id"])


@pytest.fixture
async def tenant(key_client: KeyClient, tenant_id: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with key_client(tenant_id) as client:
        yield client


@pytest.fixture
async def polled(tenant: httpx2.AsyncClient) -> str:
    """An endpoint that is polled and wants every order."""
    answer = await tenant.post("/endpoints", json={"mode": "poll", "events": ["order.**"]})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def emit(client: httpx2.AsyncClient, n: int, type_: str = TYPE, **members: Any) -> str:
    answer = await client.post("/events", json={"type": type_, "data": {"n": n}, **members})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def poll(client: httpx2.AsyncClient, endpoint: str, **query: Any) -> Json:
    answer = await client.get(f"/endpoints/{endpoint}/poll", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def numbers(page: Json) -> list[int]:
    return [item["event"]["data"]["n"] for item in page["data"]]


async def everything(client: httpx2.AsyncClient, endpoint: str, **query: Any) -> list[int]:
    """What a consumer gets that never dies."""
    got: list[int] = []
    while True:
        page = await poll(client, endpoint, **query)
        got += numbers(page)
        if page["done"]:
            return got
        query["cursor"] = page["next_cursor"]


async def test_an_endpoint_that_is_polled_has_no_url_no_secret_and_no_deliveries(
    tenant: httpx2.AsyncClient, context: Context
) -> None:
    answer = await tenant.post("/endpoints", json={"mode": "poll", "events": ["order.**"]})
    endpoint = answer.json()
    assert (endpoint["url"], endpoint["secret"], endpoint["secrets"]) == (None, None, [])
    assert (endpoint["verification"], endpoint["state"]) == ("none", "enabled")
    event = await emit(tenant, 1)
    assert (await tenant.get(f"/events/{event}")).json()["deliveries"] == 0
    async with context.database.read() as connection:
        rows = await connection.execute(select(func.count()).select_from(Delivery.__table__))
        assert rows.scalar_one() == 0
    matching = (await tenant.get("/subscriptions", params={"matches": TYPE})).json()["data"]
    assert [one["endpoint_id"] for one in matching] == [endpoint["id"]]
    assert numbers(await poll(tenant, endpoint["id"])) == [1]


async def test_it_begins_with_the_events_of_now(tenant: httpx2.AsyncClient) -> None:
    await emit(tenant, 1)
    answer = await tenant.post("/endpoints", json={"mode": "poll", "events": ["**"]})
    await emit(tenant, 2)
    assert numbers(await poll(tenant, answer.json()["id"])) == [2]
    # what was before is there for who asks for it
    assert numbers(await poll(tenant, answer.json()["id"], cursor="start", ack="none")) == [1, 2]


async def test_an_item_is_what_a_receiver_would_get(
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
    assert f'"data":{data}' in answer.text  # as it was emitted, to the last digit
    [item] = answer.json()["data"]
    assert item["message_id"] == item["event_id"] == item["event"]["id"] == event["id"]
    assert (item["payload"], item["delivery"], item["request"]) == ("full", None, None)


async def test_the_payload_style_of_the_oldest_subscription_counts(
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


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_consumer_that_dies_at_any_point_misses_nothing(
    tenant: httpx2.AsyncClient, polled: str, limit: int
) -> None:
    """It dies after each answer, before it has worked on it, and begins anew without a cursor."""
    for n in range(6):
        await emit(tenant, n)
    done: list[int] = []
    cursor: dict[str, str] = {}
    for round_ in range(12):
        page = await poll(tenant, polled, limit=limit, **cursor)
        if round_ % 2 == 0:
            cursor = {}  # it dies with the page
            continue
        done += numbers(page)
        cursor = {"cursor": page["next_cursor"]}
        # it dies after the work, before it says so: what it did comes again
        assert numbers(await poll(tenant, polled, limit=limit)) == numbers(page)
        await poll(tenant, polled, limit=1, **cursor)
        cursor = {}
        if page["done"]:
            break
    assert done[:6] == list(range(6))
    assert await everything(tenant, polled) == []


async def test_the_same_cursor_gives_the_same_page(tenant: httpx2.AsyncClient, polled: str) -> None:
    for n in range(4):
        await emit(tenant, n)
    first = await poll(tenant, polled, limit=2)
    again = [await poll(tenant, polled, limit=2, cursor=first["next_cursor"]) for _ in range(2)]
    assert again[0]["data"] == again[1]["data"]
    assert numbers(again[0]) == [2, 3]


async def test_an_older_cursor_reads_again_and_takes_nothing_back(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    for n in range(3):
        await emit(tenant, n)
    first = await poll(tenant, polled, limit=1)
    second = await poll(tenant, polled, limit=1, cursor=first["next_cursor"])
    third = await poll(tenant, polled, limit=1, cursor=second["next_cursor"])
    older = await poll(tenant, polled, limit=1, cursor=first["next_cursor"])
    assert numbers(older) == [1]
    assert older["acknowledged"] == third["acknowledged"] == second["next_cursor"]
    assert numbers(await poll(tenant, polled)) == [2]
    back = await poll(tenant, polled, cursor=first["next_cursor"], ack="set")
    assert back["acknowledged"] == first["next_cursor"]
    assert numbers(await poll(tenant, polled)) == [1, 2]


async def test_an_items_cursor_acknowledges_a_part_of_a_page(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    for n in range(3):
        await emit(tenant, n)
    page = await poll(tenant, polled)
    await poll(tenant, polled, cursor=page["data"][1]["cursor"])
    assert numbers(await poll(tenant, polled)) == [2]


async def test_a_key_that_only_reads_acknowledges_nothing(
    key_client: KeyClient, tenant: httpx2.AsyncClient, tenant_id: str, polled: str
) -> None:
    await emit(tenant, 1)
    async with key_client(tenant_id, scope="tenant:read") as reader:
        before = await poll(reader, polled)
        await poll(reader, polled, cursor=before["next_cursor"])
        assert (await poll(reader, polled))["data"] == before["data"]
        for ack in ("forward", "set"):
            query = {"cursor": before["next_cursor"], "ack": ack}
            refused = await reader.get(f"/endpoints/{polled}/poll", params=query)
            assert_problem(refused, 403, code="forbidden")
    async with key_client(tenant_id, scope="emit") as emitter:
        assert_problem(await emitter.get(f"/endpoints/{polled}/poll"), 403, code="forbidden")


async def test_it_gets_its_tenants_events_and_broadcasts(
    client: httpx2.AsyncClient, tenant: httpx2.AsyncClient, polled: str, make_tenant: Make
) -> None:
    other = (await make_tenant())["id"]
    await emit(client, 1, tenant_id=other)
    await emit(client, 2)
    await emit(tenant, 3)
    assert numbers(await poll(tenant, polled)) == [2, 3]


async def test_an_endpoint_that_is_sent_to_gives_its_deliveries(
    tenant: httpx2.AsyncClient,
) -> None:
    form = {"url": "http://127.0.0.1:9/", "verification": "none", "events": ["order.invoice.*"]}
    endpoint = (await tenant.post("/endpoints", json=form)).json()["id"]
    events = [await emit(tenant, n) for n in range(2)]
    await emit(tenant, 9, "order.refund.made")  # not wanted
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
    # one event for two subscriptions: the first of the two acknowledges only what is before both
    *_, first, second = page["data"]
    assert first["event_id"] == second["event_id"]
    assert {first["payload"], second["payload"]} == {"full", "thin"}
    await poll(tenant, endpoint, cursor=first["cursor"])
    assert [one["message_id"] for one in (await poll(tenant, endpoint))["data"]] == [
        first["message_id"],
        second["message_id"],
    ]
    # nothing about the deliveries changed
    await poll(tenant, endpoint, cursor=page["next_cursor"])
    after = (await tenant.get("/deliveries", params={"endpoint_id": endpoint})).json()["data"]
    assert after == deliveries


async def test_paused_or_disabled_it_waits_and_loses_nothing(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    for asked, code in (("pause", "endpoint_paused"), ("disable", "endpoint_disabled")):
        assert (await tenant.post(f"/endpoints/{polled}/{asked}")).status_code == 200
        refused = await tenant.get(f"/endpoints/{polled}/poll")
        assert_problem(refused, 409, code=code)
    event = await emit(tenant, 1)
    assert (await tenant.get(f"/events/{event}/deliveries")).json()["data"] == []
    await tenant.post(f"/endpoints/{polled}/enable")
    assert numbers(await poll(tenant, polled)) == [1]


async def test_without_an_active_subscription_there_is_nothing(
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


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("url", "http://127.0.0.1:9/"),
        ("headers", {"X-A": "b"}),
        ("owner_emails", ["ops@example.com"]),
        ("retry_plan", "capped"),
        ("circuit", {"failure_threshold": 3}),
        ("max_in_flight", 3),
        ("allowed_networks", ["10.0.0.0/8"]),
    ],
)
async def test_what_is_about_requests_is_refused(
    tenant: httpx2.AsyncClient, polled: str, member: str, value: Any
) -> None:
    created = await tenant.post("/endpoints", json={"mode": "poll", member: value})
    assert_problem(created, 422, code="invalid_input", pointer=f"/{member}")
    changed = await tenant.patch(f"/endpoints/{polled}", json={member: value})
    assert_problem(changed, 422, code="invalid_input", pointer=f"/{member}")


async def test_what_sends_a_request_is_a_conflict(tenant: httpx2.AsyncClient, polled: str) -> None:
    bodies = {
        "test": {"type": TYPE},
        "verify": None,
        "rotate-secret": None,
        "recover": {"since": "2026-01-01T00:00:00Z"},
    }
    for name, body in bodies.items():
        answer = await tenant.post(f"/endpoints/{polled}/{name}", json=body)
        assert_problem(answer, 409, code="endpoint_is_polled")


async def test_the_mode_stays_and_the_rest_can_change(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    changed = await tenant.patch(
        f"/endpoints/{polled}", json={"mode": "push", "url": "http://127.0.0.1:9/"}
    )
    assert_problem(changed, 409, code="mode_is_fixed")
    same = await tenant.patch(f"/endpoints/{polled}", json={"mode": "poll", "description": "x"})
    assert (same.status_code, same.json()["description"]) == (200, "x")
    pushed = (
        await tenant.post("/endpoints", json={"url": "http://127.0.0.1:9/", "verification": "none"})
    ).json()["id"]
    changed = await tenant.patch(f"/endpoints/{pushed}", json={"mode": "poll", "url": None})
    assert_problem(changed, 409, code="mode_is_fixed")
    neither = await tenant.post("/endpoints", json={"events": ["**"]})
    assert_problem(neither, 422, code="invalid_input", pointer="/url")


async def test_health_says_how_far_the_consumer_is(tenant: httpx2.AsyncClient, polled: str) -> None:
    for n in range(3):
        await emit(tenant, n)
    page = await poll(tenant, polled, limit=1)
    await poll(tenant, polled, cursor=page["next_cursor"])
    found = (await tenant.get(f"/endpoints/{polled}/health")).json()["polling"]
    assert (found["acknowledged"], found["behind"]) == (page["next_cursor"], 2)
    assert found["acknowledged_at"] is not None


async def test_what_is_no_cursor_is_refused(tenant: httpx2.AsyncClient, polled: str) -> None:
    for query, code in (
        ({"cursor": "nonsense"}, "invalid_cursor"),
        ({"ack": "set"}, "invalid_input"),
        ({"wait": "31"}, "invalid_input"),
        ({"limit": "201"}, "invalid_input"),
    ):
        refused = await tenant.get(f"/endpoints/{polled}/poll", params=query)
        assert_problem(refused, 422, code=code)


async def test_end_skips_what_is_there(tenant: httpx2.AsyncClient, polled: str) -> None:
    await emit(tenant, 1)
    page = await poll(tenant, polled, cursor="end")
    assert (page["data"], page["gap"]) == ([], None)
    await emit(tenant, 2)
    assert numbers(await poll(tenant, polled)) == [2]


async def test_what_retention_took_is_a_gap(
    tenant: httpx2.AsyncClient, polled: str, context: Context
) -> None:
    await emit(tenant, 1)
    now = utc_now()
    run = RetentionRun(id="ret_1", status="done", dry_run=False, workflow_id="", started_at=now)
    async with context.database.write() as connection:
        await connection.execute(delete(Event.__table__))
        await retention_runs.begin(connection, run, cutoffs={"events": now})
    await emit(tenant, 2)
    page = await poll(tenant, polled)
    assert page["gap"]["reason"] == "expired"
    assert numbers(page) == [2]
    assert (await poll(tenant, polled, cursor=page["next_cursor"]))["gap"] is None


async def test_a_waiting_poll_is_woken_by_an_event(tenant: httpx2.AsyncClient, polled: str) -> None:
    waiting = asyncio.create_task(poll(tenant, polled, wait=30))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    await emit(tenant, 1)
    async with asyncio.timeout(PATIENCE):
        assert numbers(await waiting) == [1]


async def test_a_waiting_poll_ends_when_its_endpoint_is_paused(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    waiting = asyncio.create_task(
        tenant.get(f"/endpoints/{polled}/poll", params={"wait": 30}, timeout=60)
    )
    await asyncio.sleep(0.3)
    await tenant.post(f"/endpoints/{polled}/pause")
    await emit(tenant, 1)
    async with asyncio.timeout(PATIENCE):
        assert_problem(await waiting, 409, code="endpoint_paused")


async def test_a_poll_that_waits_in_vain_answers_where_to_go_on(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    page = await poll(tenant, polled, wait=1)
    assert (page["data"], page["done"]) == ([], True)
    await emit(tenant, 1)
    assert numbers(await poll(tenant, polled, cursor=page["next_cursor"])) == [1]


async def test_a_tenant_waits_with_no_more_than_its_share(
    tenant: httpx2.AsyncClient, polled: str, context: Context, tenant_id: str
) -> None:
    with contextlib.ExitStack() as taken:
        for _ in range(context.settings.max_streams // 4):
            taken.enter_context(context.stream_seats.enter(tenant_id))
        refused = await tenant.get(f"/endpoints/{polled}/poll", params={"wait": 30})
        assert_problem(refused, 429, code="too_many_streams")
        # who does not wait needs no seat
        assert (await poll(tenant, polled))["data"] == []
