"""Recovering an endpoint's failed deliveries, and replaying one event."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from sqlalchemy import update

from api.context.context import Context
from hookfast.clock import rfc3339
from hookfast.storage.deliveries import jobs, selection
from hookfast.storage.deliveries.selection import DeliverySelection
from hookfast.storage.tables import Endpoint
from tests.support.api_client import Json, KeyClient, Make, MakeEventType, assert_problem
from tests.support.emitted import TYPE, change, emit, emit_as, finish

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def event_type(make_event_type: MakeEventType) -> None:
    await make_event_type(TYPE)


async def chosen_by(context: Context, job: Json) -> list[str]:
    """Return the deliveries that a job will act on."""
    async with context.database.read() as connection:
        row = await jobs.get(connection, job["id"])
        assert row is not None
        chosen = DeliverySelection.from_document(row.filter)
        return await selection.next_ids(connection, chosen, after=None, limit=100)


async def disable(context: Context, endpoint_id: str) -> None:
    table = Endpoint.__table__
    async with context.database.write() as connection:
        await connection.execute(
            update(table).where(table.c.id == endpoint_id).values(state="disabled")
        )


# -- recover


async def test_failed_deliveries_of_the_window_are_sent_again(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    make_endpoint: Make,
    make_tenant: Make,
) -> None:
    now = context.clock()
    minutes = [now - timedelta(minutes=ago) for ago in (50, 40, 30, 20, 10)]
    failed = []
    for at, status in zip(minutes, ["dead", "gone", "dead", "delivered", "dead"], strict=True):
        failed.append(await emit_as(client, context, tenant, status, finished_at=at))
    other = str((await make_tenant())["id"])
    await make_endpoint(tenant_id=other, events=["**"])
    await emit_as(client, context, other, "dead", finished_at=minutes[2])
    path = f"/endpoints/{failed[0]['endpoint_id']}/recover"
    window = {"since": rfc3339(minutes[1]), "until": rfc3339(minutes[4])}

    dry = await client.post(path, json=window | {"dry_run": True})
    assert dry.status_code == 200
    assert dry.json() == {"dry_run": True, "matching": 2, "by_status": {"dead": 1, "gone": 1}}

    answer = await client.post(path, json=window)
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert (job["kind"], job["action"], job["total"]) == ("recover", "resend", 2)
    assert await chosen_by(context, job) == [failed[1]["id"], failed[2]["id"]]

    # deliveries that this job has yet to send are not sent twice
    dry = await client.post(path, json={"since": window["since"], "dry_run": True})
    assert dry.json()["matching"] == 1
    answer = await client.post(path, json={"since": window["since"]})
    assert await chosen_by(context, answer.json()) == [failed[4]["id"]]

    for asked in (job, answer.json()):
        await finish(context, asked)
    answer = await client.post(path, json={"since": window["since"]})
    assert await chosen_by(context, answer.json()) == [failed[n]["id"] for n in (1, 2, 4)]


async def test_disabled_endpoint_allows_a_dry_run_and_no_recovery(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    ended = context.clock()
    delivery = await emit_as(client, context, tenant, "dead", finished_at=ended)
    await disable(context, delivery["endpoint_id"])
    path = f"/endpoints/{delivery['endpoint_id']}/recover"
    body: Json = {"since": rfc3339(ended)}
    assert_problem(await client.post(path, json=body), 409, code="endpoint_disabled")
    answer = await client.post(path, json=body | {"dry_run": True})
    assert answer.json()["matching"] == 1


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/since"),
        ({"since": "2026-11-20"}, "/since"),
        ({"since": "2026-11-20T11:00:00Z", "until": "2026-11-20T11:00:00Z"}, "/until"),
    ],
)
async def test_window_that_ends_before_it_starts_is_rejected(
    client: httpx2.AsyncClient, make_tenant: Make, make_endpoint: Make, body: Json, pointer: str
) -> None:
    endpoint = await make_endpoint(tenant_id=(await make_tenant())["id"])
    answer = await client.post(f"/endpoints/{endpoint['id']}/recover", json=body)
    assert_problem(answer, 422, code="invalid_input", pointer=pointer)


# -- replay


async def emit_event(client: httpx2.AsyncClient, **members: Any) -> str:
    answer = await client.post("/events", json={"type": TYPE, "data": 1} | members)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def deliveries_of(client: httpx2.AsyncClient, event_id: str) -> list[Json]:
    """Return the event's deliveries, oldest first."""
    data: list[Json] = (await client.get(f"/events/{event_id}/deliveries")).json()["data"]
    return data[::-1]


async def test_a_replay_sends_the_events_deliveries_that_have_ended(
    client: httpx2.AsyncClient, context: Context, tenant: str, make_endpoint: Make
) -> None:
    for _ in range(4):
        await make_endpoint(tenant_id=tenant, events=["**"])
    event_id = await emit_event(client, tenant_id=tenant)
    await emit_as(client, context, (await _another(client, make_endpoint)), "dead")
    made = await deliveries_of(client, event_id)
    for delivery, status in zip(
        made, ["delivered", "dead", "gone", "cancelled", "retrying"], strict=True
    ):
        await change(context, delivery["id"], status=status)
    ids = [delivery["id"] for delivery in made]
    path = f"/events/{event_id}/replay"

    job = (await client.post(path, json={})).json()
    assert (job["kind"], job["action"], job["total"]) == ("replay", "resend", 4)
    assert job["new_deliveries"] == 0
    assert await chosen_by(context, job) == sorted(ids[:4])
    answer = await client.post(path, json={"dry_run": True})
    assert answer.json() == {"dry_run": True, "matching": 0, "by_status": {}, "new_deliveries": 0}
    second = (await client.post(path, json={})).json()
    assert (second["total"], await chosen_by(context, second)) == (0, [])
    for asked in (job, second):
        await finish(context, asked)

    job = (await client.post(path, json={"only": "failed"})).json()
    assert await chosen_by(context, job) == sorted(ids[1:3])
    await finish(context, job)

    job = (await client.post(path, json={"endpoint_id": made[1]["endpoint_id"]})).json()
    assert await chosen_by(context, job) == [ids[1]]
    await finish(context, job)

    answer = await client.post(path, json={"dry_run": True})
    assert answer.status_code == 200
    assert answer.json() == {
        "dry_run": True,
        "matching": 4,
        "by_status": {"delivered": 1, "dead": 1, "gone": 1, "cancelled": 1},
        "new_deliveries": 0,
    }


async def _another(client: httpx2.AsyncClient, make_endpoint: Make) -> str:
    tenant_id = str((await client.post("/tenants", json={"name": "Other"})).json()["id"])
    await make_endpoint(tenant_id=tenant_id, events=["**"])
    return tenant_id


async def test_replay_can_include_later_subscriptions(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    make_endpoint: Make,
    make_subscription: Make,
    make_event_type: MakeEventType,
) -> None:
    await make_event_type("order.refund.made")
    event_id = await emit_event(client, tenant_id=tenant)
    [first] = await deliveries_of(client, event_id)
    await change(context, first["id"], status="delivered")
    late = await make_endpoint(tenant_id=tenant, events=["order.invoice.*"])
    await make_endpoint(tenant_id=tenant, events=["order.refund.made"])
    await make_subscription(endpoint_id=late["id"], events=["**"], active=False)
    await _another(client, make_endpoint)
    path = f"/events/{event_id}/replay"

    dry = (await client.post(path, json={"include_new": True, "dry_run": True})).json()
    assert (dry["matching"], dry["new_deliveries"]) == (1, 1)
    assert len(await deliveries_of(client, event_id)) == 1

    job = (await client.post(path, json={"include_new": True})).json()
    assert (job["total"], job["new_deliveries"]) == (1, 1)
    assert await chosen_by(context, job) == [first["id"]]
    [_, new] = await deliveries_of(client, event_id)
    assert new["endpoint_id"] == late["id"]
    assert new["subscription_id"] == late["subscription"]["id"]
    assert (new["status"], new["event_type"], new["payload"]) == ("pending", TYPE, "full")
    assert (await client.get(f"/events/{event_id}")).json()["deliveries"] == 2

    job = (await client.post(path, json={"include_new": True})).json()
    assert job["new_deliveries"] == 0


async def test_simultaneous_replays_deliver_once_to_a_new_subscription(
    client: httpx2.AsyncClient, tenant: str, make_endpoint: Make
) -> None:
    event_id = await emit_event(client, tenant_id=tenant)
    for _ in range(3):
        await make_endpoint(tenant_id=tenant, events=["**"])
    answers = await asyncio.gather(
        *(client.post(f"/events/{event_id}/replay", json={"include_new": True}) for _ in range(6))
    )
    assert sum(answer.json()["new_deliveries"] for answer in answers) == 3
    made = await deliveries_of(client, event_id)
    assert len({delivery["subscription_id"] for delivery in made}) == len(made) == 4
    assert (await client.get(f"/events/{event_id}")).json()["deliveries"] == 4


async def test_a_new_delivery_to_a_disabled_endpoint_is_a_dead_letter(
    client: httpx2.AsyncClient, context: Context, tenant: str, make_endpoint: Make
) -> None:
    event_id = await emit_event(client, tenant_id=tenant)
    late = await make_endpoint(tenant_id=tenant, events=["**"])
    await disable(context, late["id"])
    body = {"include_new": True, "endpoint_id": late["id"]}
    job = (await client.post(f"/events/{event_id}/replay", json=body)).json()
    assert (job["new_deliveries"], job["total"]) == (1, 0)
    new = (await deliveries_of(client, event_id))[-1]
    assert (new["status"], new["reason"]) == ("dead", "endpoint_disabled")
    assert await chosen_by(context, job) == []


async def test_tenant_replays_a_broadcast_only_to_itself(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    make_endpoint: Make,
    key_client: KeyClient,
) -> None:
    other = await _another(client, make_endpoint)
    event_id = await emit_event(client)
    made = await deliveries_of(client, event_id)
    for delivery in made:
        await change(context, delivery["id"], status="delivered")
    await make_endpoint(tenant_id=other, events=["**"])
    async with key_client(tenant) as own:
        answer = await own.post(f"/events/{event_id}/replay", json={"include_new": True})
        theirs = next(one for one in made if one["tenant_id"] == other)
        body = {"endpoint_id": theirs["endpoint_id"]}
        refused = await own.post(f"/events/{event_id}/replay", json=body)
    assert_problem(refused, 404, code="not_found")
    assert answer.json()["new_deliveries"] == 0
    [mine] = [one["id"] for one in made if one["tenant_id"] == tenant]
    assert await chosen_by(context, answer.json()) == [mine]
    await finish(context, answer.json())
    operators = await client.post(f"/events/{event_id}/replay", json={"include_new": True})
    assert (operators.json()["total"], operators.json()["new_deliveries"]) == (2, 1)


async def test_recovery_of_an_unknown_endpoint_or_event_answers_404(
    client: httpx2.AsyncClient, tenant: str
) -> None:
    zeros = "0" * 32
    since = {"since": "2026-11-20T11:00:00Z"}
    answer = await client.post(f"/endpoints/ep_{zeros}/recover", json=since)
    assert_problem(answer, 404, code="not_found")
    assert_problem(await client.post(f"/events/evt_{zeros}/replay", json={}), 404, code="not_found")
    event_id = (await emit(client, tenant))["event_id"]
    body = {"endpoint_id": f"ep_{zeros}"}
    answer = await client.post(f"/events/{event_id}/replay", json=body)
    assert_problem(answer, 404, code="not_found")
