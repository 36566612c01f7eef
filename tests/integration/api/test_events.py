"""Emitting and looking up events: who gets them, and that data stays exact."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from api.context.context import Context
from hookfast.clock import rfc3339
from hookfast.events.envelope import full_body
from hookfast.ids import new_id
from hookfast.storage.tables import Delivery, Event
from tests.support.api_client import KeyClient, Make, MakeEventType, assert_problem

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"


@pytest.fixture(autouse=True)
async def event_type(make_event_type: MakeEventType) -> None:
    await make_event_type(TYPE)


async def emit(client: httpx2.AsyncClient, **members: Any) -> dict[str, Any]:
    answer = await client.post("/events", json={"type": TYPE, "data": {"n": 1}} | members)
    assert answer.status_code == 202, answer.text
    event: dict[str, Any] = answer.json()
    return event


async def deliveries_of(client: httpx2.AsyncClient, event_id: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/events/{event_id}/deliveries")
    assert answer.status_code == 200, answer.text
    deliveries: list[dict[str, Any]] = answer.json()["data"]
    return deliveries


# -- recipients


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        (["order.invoice.paid"], True),
        (["order.*.paid"], True),
        (["*.*.*"], True),
        (["order.invoice.**"], True),
        (["order.**"], True),
        (["**"], True),
        (["order.invoice.paid", "order.**", "**"], True),  # one delivery, not three
        (["order.invoice.voided"], False),
        (["order.refund.*"], False),
        (["shop.**"], False),
    ],
)
async def test_an_event_goes_once_to_each_subscription_with_a_matching_pattern(
    client: httpx2.AsyncClient,
    make_tenant: Make,
    make_endpoint: Make,
    patterns: list[str],
    wanted: bool,
) -> None:
    tenant = await make_tenant()
    endpoint = await make_endpoint(tenant_id=tenant["id"], events=patterns)
    event = await emit(client, tenant_id=tenant["id"])
    assert event["deliveries"] == int(wanted)
    deliveries = await deliveries_of(client, event["id"])
    assert [row["endpoint_id"] for row in deliveries] == [endpoint["id"]] * wanted


async def test_event_for_one_tenant_reaches_no_other(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make
) -> None:
    mine, other = await make_tenant(), await make_tenant()
    await make_endpoint(tenant_id=mine["id"], events=["**"])
    await make_endpoint(tenant_id=other["id"], events=["**"])
    event = await emit(client, tenant_id=mine["id"])
    assert [row["tenant_id"] for row in await deliveries_of(client, event["id"])] == [mine["id"]]


async def test_a_broadcast_reaches_every_tenant(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make
) -> None:
    tenants = [(await make_tenant())["id"] for _ in range(3)]
    for tenant_id in tenants:
        await make_endpoint(tenant_id=tenant_id, events=["**"])
    event = await emit(client)
    assert event["deliveries"] == 3
    deliveries = await deliveries_of(client, event["id"])
    assert sorted(row["tenant_id"] for row in deliveries) == sorted(tenants)


async def test_one_endpoint_gets_one_delivery_for_each_of_its_subscriptions(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make, make_subscription: Make
) -> None:
    tenant = await make_tenant()
    endpoint = await make_endpoint(tenant_id=tenant["id"], events=["order.**"])
    await make_subscription(endpoint_id=endpoint["id"], events=["**"], payload="thin")
    event = await emit(client, tenant_id=tenant["id"])
    deliveries = await deliveries_of(client, event["id"])
    assert sorted(row["payload"] for row in deliveries) == ["full", "thin"]


async def test_inactive_subscription_gets_nothing(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make, make_subscription: Make
) -> None:
    tenant = await make_tenant()
    endpoint = await make_endpoint(tenant_id=tenant["id"])
    await make_subscription(endpoint_id=endpoint["id"], events=["**"], active=False)
    assert (await emit(client, tenant_id=tenant["id"]))["deliveries"] == 0


async def test_a_deleted_endpoint_gets_nothing(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant = await make_tenant()
    endpoint = await make_endpoint(tenant_id=tenant["id"], events=["**"])
    assert (await client.delete(f"/endpoints/{endpoint['id']}")).status_code == 204
    assert (await emit(client, tenant_id=tenant["id"]))["deliveries"] == 0


async def test_a_delivery_to_a_disabled_endpoint_is_a_dead_letter_at_once(
    client: httpx2.AsyncClient, context: Context, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant = await make_tenant()
    endpoint = await make_endpoint(tenant_id=tenant["id"], events=["**"])
    assert (await client.post(f"/endpoints/{endpoint['id']}/disable")).status_code == 200
    event = await emit(client, tenant_id=tenant["id"])
    [delivery] = await deliveries_of(client, event["id"])
    assert (delivery["status"], delivery["reason"]) == ("dead", "endpoint_disabled")
    assert delivery["finished_at"] == event["created_at"]
    assert delivery["next_attempt_at"] is None
    async with context.database.read() as connection:
        started = select(Delivery.__table__.c.started_at)
        assert (await connection.execute(started)).scalar_one() is not None  # not in the outbox


# -- stored data


async def test_a_pending_delivery_is_in_the_outbox_and_shares_the_events_instant(
    client: httpx2.AsyncClient, context: Context, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant = await make_tenant()
    await make_endpoint(tenant_id=tenant["id"], events=["**"])
    event = await emit(client, tenant_id=tenant["id"])
    async with context.database.read() as connection:
        row = (await connection.execute(select(Delivery.__table__))).one()
    created_at = datetime.fromisoformat(event["created_at"])
    assert row.started_at is None
    assert row.status == "pending"
    assert row.created_at == row.updated_at == row.next_attempt_at == created_at
    # the time parts of both ids are the same: 48 bits of milliseconds and 12 of their fraction
    assert row.id[4:20] == event["id"][4:20]
    assert row.id[4:20] == new_id("dlv", created_at)[4:20]


async def test_delayed_delivery_shows_its_time(
    client: httpx2.AsyncClient, context: Context, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant = await make_tenant()
    await make_endpoint(tenant_id=tenant["id"], events=["**"])
    later = context.clock() + timedelta(days=29)
    event = await emit(client, tenant_id=tenant["id"], deliver_at=rfc3339(later))
    [delivery] = await deliveries_of(client, event["id"])
    assert delivery["status"] == "pending"
    assert delivery["deliver_at"] == delivery["next_attempt_at"] == rfc3339(later)
    assert (await client.get(f"/events/{event['id']}")).json()["deliver_at"] == rfc3339(later)


async def test_a_time_in_the_past_means_now(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant = await make_tenant()
    await make_endpoint(tenant_id=tenant["id"], events=["**"])
    event = await emit(client, tenant_id=tenant["id"], deliver_at="2020-02-29T00:00:00+01:00")
    [delivery] = await deliveries_of(client, event["id"])
    assert delivery["deliver_at"] is None
    assert delivery["next_attempt_at"] == event["created_at"]


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(("header", "kept"), [(TRACE, True), ("garbage", False), (None, False)])
async def test_event_joins_the_callers_trace_or_starts_one(
    client: httpx2.AsyncClient, context: Context, header: str | None, kept: bool
) -> None:
    headers = {} if header is None else {"traceparent": header}
    answer = await client.post("/events", json={"type": TYPE, "data": 1}, headers=headers)
    assert answer.status_code == 202
    async with context.database.read() as connection:
        stored = (await connection.execute(select(Event.__table__.c.traceparent))).scalar_one()
    assert (stored == TRACE) is kept
    assert len(stored) == len(TRACE)


async def test_emitting_rings_the_doorbell_after_the_commit(
    client: httpx2.AsyncClient, context: Context
) -> None:
    await context.doorbell.listen()
    await context.doorbell.wait(0.5)  # on PostgreSQL, listening rings once for earlier events
    await emit(client)
    began = time.monotonic()
    await context.doorbell.wait(30)
    assert time.monotonic() - began < 10


NUMBERS = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """Generate a JSON text in one of its many possible spellings."""
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: "), (",\r\n", ":")]))
    text = json.dumps(
        draw(JSON),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 1, "\t"])),
        separators=separators,
    )
    # other spellings of the same value: an escaped solidus, an exponent
    return text.replace("/", draw(st.sampled_from(["/", "\\/"])))


@settings(
    max_examples=60,
    deadline=None,
    # all examples share one database on purpose
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=json_texts())
async def test_data_is_stored_and_shown_byte_for_byte(
    client: httpx2.AsyncClient, context: Context, text: str
) -> None:
    raw = f' {{ "data" :\n{text}\t, "type":"{TYPE}"}}\n'.encode()
    answer = await client.post("/events", content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code == 202, answer.text
    event = answer.json()
    expected = full_body(
        event_id=event["id"],
        event_type=TYPE,
        created_at=datetime.fromisoformat(event["created_at"]),
        tenant_id=None,
        data=text,
    )
    async with context.database.read() as connection:
        c = Event.__table__.c
        stored = await connection.execute(select(c.body).where(c.id == event["id"]))
        assert stored.scalar_one() == expected
    shown = (await client.get(f"/events/{event['id']}")).content
    more = b',"deliver_at":null,"deliveries":0,"inbox_id":null,"ordering_key":null}'
    assert shown == expected[:-1] + more


# -- lists


async def test_event_list_is_newest_first_without_gaps_between_pages(
    client: httpx2.AsyncClient,
) -> None:
    emitted = [(await emit(client, data=n))["id"] for n in range(7)]
    listed: list[str] = []
    cursor: str | None = None
    while True:
        params: dict[str, Any] = {"limit": 3} | ({} if cursor is None else {"cursor": cursor})
        page = (await client.get("/events", params=params)).json()
        listed += [event["id"] for event in page["data"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert listed == emitted[::-1]


async def test_filters_are_combined(
    client: httpx2.AsyncClient, make_tenant: Make, make_event_type: MakeEventType
) -> None:
    tenant = await make_tenant()
    await make_event_type("order.refund.made")
    first = await emit(client, tenant_id=tenant["id"])
    second = await emit(client, type="order.refund.made", tenant_id=tenant["id"])
    third = await emit(client, type="order.refund.made")

    async def listed(**filters: str) -> list[str]:
        answer = await client.get("/events", params=filters)
        assert answer.status_code == 200, answer.text
        return [event["id"] for event in answer.json()["data"]]

    assert await listed() == [third["id"], second["id"], first["id"]]
    assert await listed(type="order.refund.made") == [third["id"], second["id"]]
    assert await listed(tenant_id=tenant["id"]) == [second["id"], first["id"]]
    assert await listed(tenant_id=tenant["id"], type="order.refund.made") == [second["id"]]
    assert await listed(since=second["created_at"]) == [third["id"], second["id"]]
    assert await listed(until=second["created_at"]) == [first["id"]]
    assert await listed(since=second["created_at"], until=third["created_at"]) == [second["id"]]
    assert await listed(type="order.unknown.kind") == []


# -- visibility


async def test_leap_second_is_a_time(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/events?since=2016-12-31T23:59:60Z")).status_code == 200


async def test_plus_of_an_offset_that_is_not_encoded_is_explained(
    client: httpx2.AsyncClient,
) -> None:
    answer = await client.get("/events?since=2026-11-20T11:15:00+01:00")
    problem = assert_problem(answer, 422, code="invalid_input")
    assert "%2B" in problem["errors"][0]["detail"]
    assert (await client.get("/events?since=2026-11-20T11:15:00%2B01:00")).status_code == 200


async def test_tenant_key_implies_the_tenant_of_an_event(
    client: httpx2.AsyncClient, make_tenant: Make, key_client: KeyClient
) -> None:
    tenant = await make_tenant()
    async with key_client(tenant["id"]) as own:
        event = await emit(own)
    assert (await client.get(f"/events/{event['id']}")).json()["tenant_id"] == tenant["id"]


async def test_events_of_another_tenant_answer_404(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make, key_client: KeyClient
) -> None:
    mine, other = await make_tenant(), await make_tenant()
    await make_endpoint(tenant_id=other["id"], events=["**"])
    theirs = await emit(client, tenant_id=other["id"])
    async with key_client(mine["id"]) as own:
        for path in (f"/events/{theirs['id']}", f"/events/{theirs['id']}/deliveries"):
            assert (await own.get(path)).status_code == 404
        assert (await own.get("/events", params={"tenant_id": other["id"]})).status_code == 404
        assert (await own.get("/events")).json()["data"] == []
        answer = await own.post("/events", json={"type": TYPE, "data": 1, "tenant_id": other["id"]})
        assert answer.status_code == 404


async def test_a_tenant_sees_broadcasts_with_its_own_deliveries_only(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make, key_client: KeyClient
) -> None:
    mine, other = await make_tenant(), await make_tenant()
    await make_endpoint(tenant_id=mine["id"], events=["**"])
    await make_endpoint(tenant_id=other["id"], events=["**"])
    own_event = await emit(client, tenant_id=mine["id"])
    broadcast = await emit(client)
    async with key_client(mine["id"], scope="tenant:read") as own:
        listed = (await own.get("/events")).json()["data"]
        assert [event["id"] for event in listed] == [broadcast["id"], own_event["id"]]
        # a tenant does not see how many others subscribe
        assert [event["deliveries"] for event in listed] == [None, 1]
        shown = (await own.get(f"/events/{broadcast['id']}")).json()
        assert shown["deliveries"] is None
        assert shown["data"] == {"n": 1}
        [delivery] = await deliveries_of(own, broadcast["id"])
        assert delivery["tenant_id"] == mine["id"]


@pytest.mark.parametrize(
    ("scope", "emits", "reads"),
    [("tenant", 202, 200), ("emit", 202, 403), ("tenant:read", 403, 200)],
)
async def test_scope_of_a_key_limits_event_operations(
    make_tenant: Make, key_client: KeyClient, scope: str, emits: int, reads: int
) -> None:
    tenant = await make_tenant()
    async with key_client(tenant["id"], scope=scope) as own:
        event = {"type": TYPE, "data": 1}
        assert (await own.post("/events", json=event)).status_code == emits
        assert (await own.post("/events/batch", json={"events": [event]})).status_code == emits
        assert (await own.get("/events")).status_code == reads
