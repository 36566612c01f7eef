"""Batches: every event has its own result, and accepted events are committed together."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import func, select

from api.context.context import Context
from hookfast.storage.tables import Delivery, Event
from tests.support.api_client import Json, KeyClient, Make, MakeEventType, assert_problem

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"
TENANT = "tnt_" + "0" * 32


@pytest.fixture(autouse=True)
async def tenant(make_event_type: MakeEventType, make_tenant: Make, make_endpoint: Make) -> str:
    """A tenant whose endpoint is subscribed to all events."""
    await make_event_type(TYPE, schema={"not": {"const": "bad"}})
    tenant_id = str((await make_tenant())["id"])
    await make_endpoint(tenant_id=tenant_id, events=["**"])
    return tenant_id


async def send(client: httpx2.AsyncClient, *events: Any, **headers: str) -> Json:
    answer = await client.post("/events/batch", json={"events": events}, headers=headers)
    assert answer.status_code == 202, answer.text
    document: Json = answer.json()
    assert document["accepted"] + document["rejected"] == len(events)
    return document


async def test_each_event_has_its_own_result(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    good = {"type": TYPE, "data": 1}
    batch = await send(
        client,
        good,
        good | {"tenant_id": tenant},
        {"type": TYPE},
        {"type": "order.invoice.voided", "data": 1},
        good | {"data": "bad"},
        good | {"tenant_id": TENANT},
        good | {"color": "red"},
        "not an object",
        good | {"data": "x" * context.settings.max_event_bytes},
        good | {"idempotency_key": "a b"},
        good | {"deliver_at": "9999-01-01T00:00:00Z"},
        good,
    )
    assert (batch["accepted"], batch["rejected"]) == (3, 9)
    found = [
        (item["status"], item.get("problem", {}).get("code"), _pointers(item))
        for item in batch["data"]
    ]
    assert found == [
        (202, None, []),
        (202, None, []),
        (422, "invalid_input", ["/data"]),
        (422, "unknown_event_type", ["/type"]),
        (422, "schema_violation", ["/data"]),
        (404, "not_found", []),
        (422, "invalid_input", ["/color"]),
        (422, "invalid_input", [""]),
        (413, "too_large", []),
        (422, "invalid_input", ["/idempotency_key"]),
        (422, "too_far_ahead", ["/deliver_at"]),
        (202, None, []),
    ]
    assert await count(context, Event) == 3
    assert await count(context, Delivery) == 3
    for item in batch["data"]:
        if item["status"] == 202:
            assert (await client.get(f"/events/{item['id']}")).is_success


def _pointers(item: Json) -> list[str]:
    return [error["pointer"] for error in item.get("problem", {}).get("errors") or []]


async def count(context: Context, table: type[Event] | type[Delivery]) -> int:
    async with context.database.read() as connection:
        rows = await connection.execute(select(func.count()).select_from(table.__table__))
        return rows.scalar_one()


async def test_events_of_a_batch_are_listed_in_its_order(client: httpx2.AsyncClient) -> None:
    batch = await send(client, *({"type": TYPE, "data": n} for n in range(100)))
    sent = [item["id"] for item in batch["data"]]
    listed = (await client.get("/events", params={"limit": 100})).json()["data"]
    assert [event["id"] for event in listed] == sent[::-1]
    assert [event["created_at"] for event in listed] == [
        item["created_at"] for item in batch["data"][::-1]
    ]


async def test_data_in_a_batch_is_kept_byte_for_byte(client: httpx2.AsyncClient) -> None:
    raw = b'{"events" : [ {"data": {"b" : 1.50, "a":\t"\\u00e9"} ,"type":"order.invoice.paid"} ]}'
    headers = {"Content-Type": "application/json"}
    answer = await client.post("/events/batch", content=raw, headers=headers)
    [item] = answer.json()["data"]
    shown = (await client.get(f"/events/{item['id']}")).content
    assert b'"data":{"b" : 1.50, "a":\t"\\u00e9"},' in shown


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ([], ""),
        ({}, ""),
        ({"events": [], "more": 1}, ""),
        ({"events": {}}, "/events"),
        ({"events": None}, "/events"),
        ({"events": []}, "/events"),
        ({"events": [{}] * 1001}, "/events"),
    ],
)
async def test_malformed_batch_is_rejected_as_a_whole(
    client: httpx2.AsyncClient, body: Any, pointer: str
) -> None:
    answer = await client.post("/events/batch", json=body)
    assert_problem(answer, 422, code="invalid_input", pointer=pointer)


async def test_tenant_key_emits_batches_only_for_its_tenant(
    client: httpx2.AsyncClient, tenant: str, key_client: KeyClient, make_tenant: Make
) -> None:
    other = (await make_tenant())["id"]
    async with key_client(tenant, scope="emit") as own:
        batch = await send(
            own, {"type": TYPE, "data": 1}, {"type": TYPE, "data": 1, "tenant_id": other}
        )
    assert [item["status"] for item in batch["data"]] == [202, 404]
    stored = (await client.get(f"/events/{batch['data'][0]['id']}")).json()
    assert stored["tenant_id"] == tenant


# -- idempotency


async def test_items_have_their_own_idempotency_keys(
    client: httpx2.AsyncClient, context: Context
) -> None:
    items = [{"type": TYPE, "data": n, "idempotency_key": f"k{n}"} for n in range(3)]
    first = await send(client, *items)
    again = await send(client, *items, {"type": TYPE, "data": 3})
    assert [item["replayed"] for item in again["data"]] == [True, True, True, False]
    assert [item["id"] for item in again["data"][:3]] == [item["id"] for item in first["data"]]
    assert await count(context, Event) == 4


async def test_items_join_their_own_trace_or_the_requests(
    client: httpx2.AsyncClient, context: Context
) -> None:
    own, shared = (f"00-{digit * 32}-{digit * 16}-01" for digit in "12")
    event = {"type": TYPE, "data": 1}
    items = [event | {"traceparent": own}, event, event | {"traceparent": "garbage"}]
    too_long = event | {"traceparent": "0" * 513}
    batch = await send(client, *items, too_long, traceparent=shared)
    assert [item["status"] for item in batch["data"]] == [202, 202, 202, 422]
    async with context.database.read() as connection:
        rows = await connection.execute(select(Event.__table__.c.traceparent).order_by("id"))
    assert list(rows.scalars()) == [own, shared, shared]


async def test_header_gives_keys_to_items_without_one(
    client: httpx2.AsyncClient, context: Context
) -> None:
    items = [{"type": TYPE, "data": 0}, {"type": TYPE, "data": 1, "idempotency_key": "own"}]
    first = await send(client, *items, **{"Idempotency-Key": "batch"})
    again = await send(client, *items, **{"Idempotency-Key": "batch"})
    assert [item["id"] for item in again["data"]] == [item["id"] for item in first["data"]]
    # the keys are `batch:0` and `own`
    answer = await client.post("/events", json=items[0], headers={"Idempotency-Key": "batch:0"})
    assert answer.json()["id"] == first["data"][0]["id"]
    answer = await client.post(
        "/events", json={"type": TYPE, "data": 1}, headers={"Idempotency-Key": "own"}
    )
    assert answer.json()["id"] == first["data"][1]["id"]
    assert await count(context, Event) == 2


async def test_repeated_key_in_a_batch_is_one_event(
    client: httpx2.AsyncClient, context: Context
) -> None:
    same = {"type": TYPE, "data": 1, "idempotency_key": "k"}
    batch = await send(client, same | {"data": "bad"}, same, same, same | {"data": 2})
    assert [item["status"] for item in batch["data"]] == [422, 202, 202, 409]
    assert batch["data"][1]["id"] == batch["data"][2]["id"]
    assert [item["replayed"] for item in batch["data"][1:3]] == [False, True]
    assert await count(context, Event) == 1


# -- cost


async def test_batch_of_a_thousand_events_needs_few_statements(
    client: httpx2.AsyncClient, context: Context, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the count of the backlog is not the request's: all requests within two seconds share it
    monkeypatch.setattr(context.backlog, "_limit", 0)
    statements: list[str] = []

    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    engines = {context.database._reader.sync_engine, context.database._writer.sync_engine}
    for engine in engines:
        sqlalchemy_event.listen(engine, "before_cursor_execute", note)
    batch = await send(
        client, *({"type": TYPE, "data": n, "tenant_id": tenant} for n in range(1000))
    )
    await asyncio.sleep(0)
    for engine in engines:
        sqlalchemy_event.remove(engine, "before_cursor_execute", note)
    assert batch["accepted"] == 1000
    cached = ("api_keys", "tenants.quotas")  # read every two seconds
    wanted = [
        text
        for text in statements
        if "BEGIN" not in text and not any(one in text for one in cached)
    ]
    # the type's version, its schema (not cached yet), its subscribers; the events, the deliveries
    # and the figures, which PostgreSQL gets as one
    together = context.database._writer.dialect.name == "postgresql"
    assert len(wanted) == (4 if together else 6), wanted
    assert await count(context, Delivery) == 1000
