"""Operational events in the API, for operators and tenants."""

from __future__ import annotations

import httpx2
import pytest

from api.context.context import Context
from hookfast.clock import utc_now
from hookfast.events.operational import SYSTEM_TENANT, Kind, OperationalEvent
from hookfast.storage.events import operational
from tests.support.api_client import Json, KeyClient, Make, MakeEventType, assert_problem

pytestmark = pytest.mark.anyio

EVENT_TYPE = "order.invoice.paid"


async def deliveries_to(client: httpx2.AsyncClient, endpoint: Json) -> list[Json]:
    answer = await client.get("/deliveries", params={"endpoint_id": endpoint["id"]})
    rows: list[Json] = answer.json()["data"]
    return rows


async def operational_events(client: httpx2.AsyncClient, kind: Kind) -> list[Json]:
    """Return the operational events of this kind, oldest first, as their receiver gets them."""
    listed = await client.get("/events", params={"type": kind.value, "limit": 200})
    events = [(await client.get(f"/events/{row['id']}")).json() for row in listed.json()["data"]]
    return events[::-1]


async def open_circuit(context: Context, tenant_id: str) -> None:
    event = OperationalEvent(
        kind=Kind.CIRCUIT_OPENED, tenant_id=tenant_id, data={"endpoint_id": "ep_1"}
    )
    async with context.database.write() as connection:
        await operational.emit(connection, [event], now=utc_now())


@pytest.mark.parametrize("name", [*Kind, "hookfast.something.new"])
async def test_reserved_event_types_cannot_be_registered_deleted_or_emitted(
    client: httpx2.AsyncClient, name: str
) -> None:
    path = f"/event-types/{name}"
    code = "reserved_event_type"
    assert_problem(await client.put(path, json={}), 422, code=code, pointer="name")
    assert_problem(await client.delete(path), 422, code=code, pointer="name")
    event = {"type": name, "data": {}, "tenant_id": SYSTEM_TENANT}
    assert_problem(await client.post("/events", json=event), 422, code=code, pointer="/type")


async def test_only_the_reserved_event_type_of_a_batch_is_rejected(
    client: httpx2.AsyncClient, make_event_type: MakeEventType
) -> None:
    await make_event_type(EVENT_TYPE)
    events = [{"type": Kind.DELIVERY_DEAD, "data": {}}, {"type": EVENT_TYPE, "data": {}}]
    batch = (await client.post("/events/batch", json={"events": events})).json()
    assert [item["status"] for item in batch["data"]] == [422, 202]
    assert batch["data"][0]["problem"]["code"] == "reserved_event_type"


async def test_event_type_with_a_similar_prefix_is_not_reserved(
    client: httpx2.AsyncClient, make_event_type: MakeEventType
) -> None:
    await make_event_type("hookfast_like.endpoint.disabled")
    event = {"type": "hookfast_like.endpoint.disabled", "data": {}}
    assert (await client.post("/events", json=event)).status_code == 202


@pytest.mark.parametrize("kind", list(Kind))
async def test_catalogue_lists_operational_event_types(
    client: httpx2.AsyncClient, kind: Kind
) -> None:
    shown = (await client.get(f"/event-types/{kind.value}")).json()
    assert shown["name"] == kind.value
    assert shown["description"]


async def test_system_tenant_is_not_listed_and_cannot_be_deleted(
    client: httpx2.AsyncClient, make_tenant: Make
) -> None:
    customer = await make_tenant()
    path = f"/tenants/{SYSTEM_TENANT}"
    assert_problem(await client.delete(path), 409, code="system_tenant")
    assert (await client.get(path)).json()["id"] == SYSTEM_TENANT
    listed = (await client.get("/tenants")).json()["data"]
    assert [tenant["id"] for tenant in listed] == [customer["id"]]


async def test_operator_can_subscribe_an_endpoint_of_the_system_tenant(
    client: httpx2.AsyncClient,
    context: Context,
    make_tenant: Make,
    make_endpoint: Make,
    key_client: KeyClient,
) -> None:
    tenant = await make_tenant()
    endpoint = await make_endpoint(tenant_id=SYSTEM_TENANT, events=["hookfast.**"])
    await open_circuit(context, tenant["id"])
    [delivery] = await deliveries_to(client, endpoint)
    assert delivery["event_type"] == Kind.CIRCUIT_OPENED
    async with key_client(SYSTEM_TENANT, scope="tenant:read") as monitor:
        event = (await monitor.get(f"/events/{delivery['event_id']}")).json()
        assert event["data"] == {"endpoint_id": "ep_1"}
        assert event["tenant_id"] == SYSTEM_TENANT


@pytest.mark.parametrize("pattern", ["**", "hookfast.**", "*.circuit.opened", Kind.CIRCUIT_OPENED])
async def test_other_tenants_never_see_operational_events(
    client: httpx2.AsyncClient,
    context: Context,
    make_tenant: Make,
    make_endpoint: Make,
    key_client: KeyClient,
    pattern: str,
) -> None:
    tenant = await make_tenant()
    endpoint = await make_endpoint(tenant_id=tenant["id"], events=[pattern])
    await open_circuit(context, tenant["id"])
    [event] = await operational_events(client, Kind.CIRCUIT_OPENED)
    assert await deliveries_to(client, endpoint) == []
    async with key_client(tenant["id"]) as theirs:
        assert (await theirs.get("/events")).json()["data"] == []
        assert_problem(await theirs.get(f"/events/{event['id']}"), 404, code="not_found")


async def test_dead_letter_on_arrival_emits_one_event_per_event_and_endpoint(
    client: httpx2.AsyncClient,
    make_tenant: Make,
    make_endpoint: Make,
    make_subscription: Make,
    make_event_type: MakeEventType,
) -> None:
    await make_event_type(EVENT_TYPE)
    tenant = await make_tenant()
    monitor = await make_endpoint(tenant_id=SYSTEM_TENANT, events=["hookfast.**"])
    endpoints = [await make_endpoint(tenant_id=tenant["id"], events=["order.**"]) for _ in "ab"]
    await make_endpoint(tenant_id=tenant["id"], events=["order.**"])  # enabled: no event
    for endpoint in endpoints:
        await make_subscription(endpoint_id=endpoint["id"], events=["**"])
        assert (await client.post(f"/endpoints/{endpoint['id']}/disable")).status_code == 200
    before = len(await deliveries_to(client, monitor))
    event = (await client.post("/events", json={"type": EVENT_TYPE, "data": {}})).json()
    events = await operational_events(client, Kind.DELIVERY_DEAD)
    assert sorted(one["data"]["endpoint_id"] for one in events) == sorted(
        endpoint["id"] for endpoint in endpoints
    )
    for one in events:
        assert one["data"]["event_id"] == event["id"]
        assert one["data"]["reason"] == "endpoint_disabled"
        assert one["data"]["tenant_id"] == tenant["id"]
    assert len(await deliveries_to(client, monitor)) == before + 2


async def test_repeated_event_emits_no_further_operational_event(
    client: httpx2.AsyncClient,
    make_tenant: Make,
    make_endpoint: Make,
    make_event_type: MakeEventType,
) -> None:
    await make_event_type(EVENT_TYPE)
    tenant = await make_tenant()
    endpoint = await make_endpoint(tenant_id=tenant["id"], events=["order.**"])
    await client.post(f"/endpoints/{endpoint['id']}/disable")
    for _ in range(2):
        answer = await client.post(
            "/events",
            json={"type": EVENT_TYPE, "data": {}},
            headers={"Idempotency-Key": "the-same"},
        )
        assert answer.status_code == 202
    assert len(await operational_events(client, Kind.DELIVERY_DEAD)) == 1


async def test_dead_letters_of_the_system_tenant_emit_nothing(
    client: httpx2.AsyncClient,
    context: Context,
    make_tenant: Make,
    make_endpoint: Make,
    make_event_type: MakeEventType,
) -> None:
    await make_event_type(EVENT_TYPE)
    tenant = await make_tenant()
    monitor = await make_endpoint(tenant_id=SYSTEM_TENANT, events=["**"])
    await client.post(f"/endpoints/{monitor['id']}/disable")
    await open_circuit(context, tenant["id"])  # its delivery is dead on arrival,
    await client.post("/events", json={"type": EVENT_TYPE, "data": {}})  # and so is the broadcast's
    assert {row["status"] for row in await deliveries_to(client, monitor)} == {"dead"}
    assert len(await deliveries_to(client, monitor)) == 2
    assert await operational_events(client, Kind.DELIVERY_DEAD) == []
