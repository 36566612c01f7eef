"""Idempotency keys: one event per key, no matter how often and concurrently it is sent."""

from __future__ import annotations

import asyncio
from datetime import timedelta, timezone
from typing import Any

import httpx2
import pytest
from sqlalchemy import func, select

from api.context.context import Context
from hookfast.clock import rfc3339
from hookfast.storage.tables import Delivery, Event
from tests.support.api_client import KeyClient, Make, MakeEventType, assert_problem

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"
REPLAYED = "Idempotent-Replayed"


@pytest.fixture(autouse=True)
async def tenant(make_event_type: MakeEventType, make_tenant: Make, make_endpoint: Make) -> str:
    """A tenant whose endpoint is subscribed to all events."""
    await make_event_type(TYPE)
    tenant_id = str((await make_tenant())["id"])
    await make_endpoint(tenant_id=tenant_id, events=["**"])
    return tenant_id


async def emit(
    client: httpx2.AsyncClient, key: str | None, content: str | None = None, **members: Any
) -> httpx2.Response:
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Idempotency-Key"] = key
    if content is not None:
        return await client.post("/events", content=content, headers=headers)
    return await client.post("/events", json={"type": TYPE, "data": 1} | members, headers=headers)


async def counts(context: Context) -> tuple[int, int]:
    """Count the stored events and deliveries."""
    async with context.database.read() as connection:
        events = await connection.execute(select(func.count()).select_from(Event.__table__))
        deliveries = await connection.execute(select(func.count()).select_from(Delivery.__table__))
        return events.scalar_one(), deliveries.scalar_one()


async def test_same_key_and_event_get_the_same_response(
    client: httpx2.AsyncClient, context: Context
) -> None:
    first, again = await emit(client, "k"), await emit(client, "k")
    assert first.status_code == again.status_code == 202
    assert first.json() == again.json()
    assert REPLAYED not in first.headers
    assert again.headers[REPLAYED] == "true"
    assert await counts(context) == (1, 1)


async def test_white_space_around_a_key_is_not_part_of_it(client: httpx2.AsyncClient) -> None:
    first = await emit(client, "k")
    assert (await emit(client, " k\t ")).json() == first.json()


async def test_key_that_comes_twice_is_rejected(client: httpx2.AsyncClient) -> None:
    twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    answer = await client.post("/events", json={"type": TYPE, "data": 1}, headers=twice)
    assert_problem(answer, 400, code="bad_request", pointer="Idempotency-Key")


async def test_every_request_without_a_key_is_a_new_event(
    client: httpx2.AsyncClient, context: Context
) -> None:
    first, second = await emit(client, None), await emit(client, None)
    assert first.json()["id"] != second.json()["id"]
    assert await counts(context) == (2, 2)


async def test_equivalent_json_counts_as_the_same_event(
    client: httpx2.AsyncClient, context: Context
) -> None:
    first = await emit(client, "k", '{"type":"order.invoice.paid","data":{"a":1,"b":"\\u00e9"}}')
    again = await emit(client, "k", '{"data": {"b": "é", "a": 1}, "type": "order.invoice.paid"}')
    assert again.headers[REPLAYED] == "true"
    assert first.json() == again.json()
    assert await counts(context) == (1, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"data": 2},
        {"data": "1"},
        {"data": True},
        {"data": None},
        {"tenant_id": None, "data": [1]},
        {"type": "order.invoice.voided"},
        {"deliver_at": "2020-01-01T00:00:00Z"},
    ],
)
async def test_same_key_with_another_event_answers_409(
    client: httpx2.AsyncClient, context: Context, other: dict[str, Any]
) -> None:
    assert (await emit(client, "k")).status_code == 202
    assert_problem(await emit(client, "k", **other), 409, code="idempotency_key_reused")
    assert await counts(context) == (1, 1)


async def test_tenant_is_part_of_the_compared_event(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    assert (await emit(client, "k")).status_code == 202
    assert_problem(await emit(client, "k", tenant_id=tenant), 409, code="idempotency_key_reused")


async def test_a_time_that_has_passed_meanwhile_is_still_the_same_event(
    client: httpx2.AsyncClient, context: Context
) -> None:
    soon = context.clock() + timedelta(seconds=0.3)
    first = await emit(client, "k", deliver_at=rfc3339(soon))
    await asyncio.sleep(0.4)
    elsewhere = soon.astimezone(timezone(timedelta(hours=1)))
    again = await emit(client, "k", deliver_at=elsewhere.isoformat())
    assert first.json() == again.json()


async def test_keys_belong_to_the_tenant_or_to_the_operator(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    make_tenant: Make,
    key_client: KeyClient,
) -> None:
    other = str((await make_tenant())["id"])
    ids = {(await emit(client, "k")).json()["id"]}
    async with key_client(tenant) as own, key_client(other) as others:
        for who in (own, others):
            answer = await emit(who, "k", data="else")
            assert answer.status_code == 202, answer.text
            ids.add(answer.json()["id"])
    assert len(ids) == 3
    async with key_client(tenant, scope="emit") as again:  # another key of the same tenant
        assert (await emit(again, "k", data="else")).headers[REPLAYED] == "true"


async def test_rejected_event_does_not_use_up_its_key(
    client: httpx2.AsyncClient, make_event_type: MakeEventType
) -> None:
    await make_event_type(TYPE, schema={"type": "string"})
    assert_problem(await emit(client, "k", data=1), 422, code="schema_violation")
    answer = await emit(client, "k", data="good")
    assert answer.status_code == 202
    assert REPLAYED not in answer.headers


async def test_replay_succeeds_even_if_the_event_would_now_be_rejected(
    client: httpx2.AsyncClient, make_event_type: MakeEventType
) -> None:
    first = await emit(client, "k")
    await make_event_type(TYPE, schema=False)
    assert (await emit(client, "k")).json() == first.json()
    assert (await client.delete(f"/event-types/{TYPE}")).status_code == 204
    assert (await emit(client, "k")).json() == first.json()


async def test_twenty_simultaneous_requests_create_one_event(
    client: httpx2.AsyncClient, context: Context
) -> None:
    answers = await asyncio.gather(*(emit(client, "k") for _ in range(20)))
    assert [answer.status_code for answer in answers] == [202] * 20
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum(REPLAYED not in answer.headers for answer in answers) == 1
    assert await counts(context) == (1, 1)


async def test_one_of_twenty_different_simultaneous_events_wins(
    client: httpx2.AsyncClient, context: Context
) -> None:
    answers = await asyncio.gather(*(emit(client, "k", data=n) for n in range(20)))
    assert sorted(answer.status_code for answer in answers) == [202] + [409] * 19
    assert await counts(context) == (1, 1)


async def test_batches_that_share_keys_in_any_order_neither_deadlock_nor_double(
    client: httpx2.AsyncClient, context: Context
) -> None:
    events = [{"type": TYPE, "data": n, "idempotency_key": f"k{n}"} for n in range(50)]

    async def send(turn: int) -> httpx2.Response:
        order = events[turn:] + events[:turn] if turn % 2 else events[::-1]
        return await client.post("/events/batch", json={"events": order})

    answers = await asyncio.gather(*(send(turn) for turn in range(10)))
    assert [answer.json()["accepted"] for answer in answers] == [50] * 10
    assert await counts(context) == (50, 50)


async def test_key_of_255_visible_characters_is_accepted(client: httpx2.AsyncClient) -> None:
    key = "".join(map(chr, range(0x21, 0x7F))) + "x" * (255 - 94)
    assert (await emit(client, key)).status_code == 202
    assert (await emit(client, key)).headers[REPLAYED] == "true"


async def test_an_emit_key_of_the_operator_shares_its_keys(
    client: httpx2.AsyncClient, tenant: str, key_client: KeyClient
) -> None:
    first = await emit(client, "k", tenant_id=tenant)
    async with key_client(tenant, scope="emit") as own:
        second = await emit(own, "k")
    assert first.json()["id"] != second.json()["id"]


async def test_event_is_found_by_its_idempotency_key(
    client: httpx2.AsyncClient, tenant: str, make_tenant: Make, key_client: KeyClient
) -> None:
    operators = (await emit(client, "k", tenant_id=tenant)).json()["id"]
    async with key_client(tenant) as own, key_client((await make_tenant())["id"]) as other:
        tenants = (await emit(own, "k")).json()["id"]

        async def found(who: httpx2.AsyncClient, key: str, **query: str) -> list[str]:
            answer = await who.get("/events", params={"idempotency_key": key} | query)
            return [event["id"] for event in answer.json()["data"]]

        assert await found(client, "k") == [operators]
        assert await found(client, "k", tenant_id=tenant) == [tenants, operators]
        assert await found(own, "k") == [tenants]
        assert await found(other, "k") == []
        assert await found(client, "K") == []
        # filters are combined
        assert await found(client, "k", type=TYPE) == [operators]
        assert await found(client, "k", type="order.invoice.sent") == []
        assert await found(client, "k", until="2020-01-01T00:00:00Z") == []
        assert await found(own, "k", since="2020-01-01T00:00:00Z") == [tenants]


async def test_list_by_idempotency_key_ends_with_its_last_page(
    client: httpx2.AsyncClient, tenant: str, key_client: KeyClient
) -> None:
    operators = (await emit(client, "k", tenant_id=tenant)).json()["id"]
    async with key_client(tenant) as own:
        tenants = (await emit(own, "k")).json()["id"]
    query = {"idempotency_key": "k", "tenant_id": tenant, "limit": "1"}
    first = (await client.get("/events", params=query)).json()
    assert [event["id"] for event in first["data"]] == [tenants]
    query["cursor"] = first["next_cursor"]
    second = (await client.get("/events", params=query)).json()
    assert [event["id"] for event in second["data"]] == [operators]
    assert second["next_cursor"] is None
