"""Pause, resume, resend and cancel one delivery."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from sqlalchemy import insert, select

from api.context.context import Context
from hookfast.clock import rfc3339, utc_now
from hookfast.deliveries.messages import Urgency
from hookfast.storage.tables import Delivery, EndpointHealth
from tests.support.api_client import Json, MakeEventType, assert_problem
from tests.support.emitted import TYPE, change, emit, listed

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def event_type(make_event_type: MakeEventType) -> None:
    await make_event_type(TYPE)


async def stored(context: Context, delivery_id: str) -> Any:
    table = Delivery.__table__
    async with context.database.read() as connection:
        return (await connection.execute(select(table).where(table.c.id == delivery_id))).one()


# The action, the status before it, and the status right after it.
ACTION_RESULTS = [
    ("pending", "pause", "paused"),
    ("pending", "resume", "pending"),
    ("pending", "resend", "pending"),
    ("pending", "cancel", "cancelled"),
    ("retrying", "pause", "paused"),
    ("retrying", "cancel", "cancelled"),
    ("held", "pause", "paused"),
    ("held", "resend", "held"),
    ("paused", "resume", "retrying"),
    ("paused", "resend", "paused"),
    ("paused", "cancel", "cancelled"),
    ("delivered", "resend", "retrying"),
    ("dead", "resend", "retrying"),
    ("gone", "resend", "retrying"),
    ("cancelled", "resend", "retrying"),
]


@pytest.mark.parametrize(("before", "action", "then"), ACTION_RESULTS)
async def test_action_is_stored_at_once_even_while_temporal_is_away(
    client: httpx2.AsyncClient, context: Context, tenant: str, before: str, action: str, then: str
) -> None:
    delivery = await emit(client, tenant)
    later = utc_now() + timedelta(hours=1)
    values: Json = {"status": before, "started_at": utc_now()}
    if before != "pending":
        values |= {"attempts": 1, "next_attempt_at": later, "due_at": later}
    if before in ("delivered", "dead", "gone", "cancelled"):
        values |= {"next_attempt_at": None, "due_at": None, "finished_at": utc_now()}
    await change(context, delivery["id"], **values)
    asked = utc_now()
    answer = await client.post(f"/deliveries/{delivery['id']}/{action}")
    assert answer.status_code == 202, answer.text
    assert answer.json() == {"id": delivery["id"], "action": action}

    shown = (await client.get(f"/deliveries/{delivery['id']}")).json()
    assert shown["status"] == then
    assert (shown["finished_at"] is not None) == (then == "cancelled")
    assert await listed(client, status=then) == [delivery["id"]]
    if then in ("cancelled", "paused") and action != "resend":
        assert shown["next_attempt_at"] is None
    if action == "resend":
        assert shown["next_attempt_at"] <= rfc3339(utc_now())
    if action == "resend" and then == "retrying":
        assert shown["next_attempt_at"] >= rfc3339(asked)
    row = await stored(context, delivery["id"])
    if then == before and action == "resume":
        assert (row.started_at, row.wake_count) == (values["started_at"], 0)
    else:  # its workflow is not notified yet
        assert (row.started_at, row.wake_count, row.urgency) == (None, 1, Urgency.PERSON)


async def test_resent_delivery_is_no_longer_a_dead_letter(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    delivery = await emit(client, tenant)
    await change(context, delivery["id"], status="dead", reason="gone", finished_at=utc_now())
    assert (await client.get("/dead-letters/stats")).json()["total"] == 1
    assert (await client.post(f"/deliveries/{delivery['id']}/resend")).status_code == 202
    assert (await client.get("/dead-letters/stats")).json()["total"] == 0
    assert (await client.get("/dead-letters")).json()["data"] == []


@pytest.mark.parametrize("action", ["pause", "cancel"])
async def test_pause_responds_only_once_no_attempt_can_start(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
) -> None:
    """A worker that read the delivery just before the commit may start its request just after
    it."""
    monkeypatch.setattr("api.routes.deliveries.FRESH_SECONDS", 3600)
    later = utc_now() + timedelta(hours=1)
    scheduled = await emit(client, tenant)
    await change(context, scheduled["id"], due_at=later, next_attempt_at=later)
    answer = await client.post(f"/deliveries/{scheduled['id']}/{action}")
    assert answer.status_code == 202  # no attempt was about to start

    held = {"status": "held", "recheck_at": later, "next_attempt_at": later}
    let_go = held | {"released": True, "recheck_at": utc_now()}
    for case in ({"status": "pending"}, let_go, held):
        delivery = await emit(client, tenant)
        await change(context, delivery["id"], **case)
        if case == held:
            await choose_as_probe(context, delivery)
        asking = asyncio.create_task(client.post(f"/deliveries/{delivery['id']}/{action}"))
        while (await stored(context, delivery["id"])).wake_count == 0:
            assert not asking.done(), case
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert not asking.done(), case
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking


async def choose_as_probe(context: Context, delivery: Json) -> None:
    """Make the delivery the probe of its endpoint's circuit."""
    async with context.database.write() as connection:
        await connection.execute(
            insert(EndpointHealth.__table__).values(
                endpoint_id=delivery["endpoint_id"],
                consecutive_failures=5,
                circuit="half_open",
                probe_delivery_id=delivery["id"],
            )
        )


@pytest.mark.parametrize("status", ["delivered", "dead", "gone", "cancelled"])
@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
async def test_finished_delivery_allows_only_resend(
    client: httpx2.AsyncClient, context: Context, tenant: str, status: str, action: str
) -> None:
    delivery = await emit(client, tenant)
    await change(context, delivery["id"], status=status)
    answer = await client.post(f"/deliveries/{delivery['id']}/{action}")
    assert_problem(answer, 409, code="delivery_finished")


@pytest.mark.parametrize("over", ["disabled", "deleted"])
@pytest.mark.parametrize("status", ["pending", "paused", "delivered", "dead"])
async def test_resend_to_a_disabled_or_deleted_endpoint_answers_409(
    client: httpx2.AsyncClient, context: Context, tenant: str, status: str, over: str
) -> None:
    delivery = await emit(client, tenant)
    await change(context, delivery["id"], status=status)
    endpoint = f"/endpoints/{delivery['endpoint_id']}"
    if over == "disabled":
        assert (await client.post(f"{endpoint}/disable")).is_success
    else:
        assert (await client.delete(endpoint)).is_success
    answer = await client.post(f"/deliveries/{delivery['id']}/resend")
    assert_problem(answer, 409, code="endpoint_disabled")
    assert (await client.get(f"/deliveries/{delivery['id']}")).json()["status"] == status
