"""Attempts across deliveries, listed and tailed; which ones, and in which order, is tested with
`attempt_feed`."""

from __future__ import annotations

from datetime import timedelta

import httpx2
import pytest

from api.context.context import Context
from hookfast.clock import rfc3339
from hookfast.deliveries.facts import Attempt, Trigger
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from tests.integration.storage.retention.ended import MINUTES, ended
from tests.support.api_client import Json, KeyClient, Make, MakeEventType, assert_problem
from tests.support.emitted import TYPE, emit

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def event_types(make_event_type: MakeEventType) -> None:
    await make_event_type(TYPE)


async def attempted(context: Context, delivery: Json, status_code: int, number: int = 1) -> None:
    """Record an attempt that ends now."""
    trigger = Trigger.FIRST if number == 1 else Trigger.RETRY
    planned = Attempt(number=number, trigger=trigger, round=0, in_plan=True, position=number - 1)
    fact = ended(planned, status_code, context.clock(), plan=MINUTES)
    recorder = Recorder(context.database)
    await recorder.record(AttemptRecord(delivery_id=delivery["id"], ended=fact))
    await recorder.close()


async def test_attempts_are_listed_and_then_tailed(
    client: httpx2.AsyncClient, context: Context, tenant: str
) -> None:
    delivery = await emit(client, tenant, TYPE)
    await attempted(context, delivery, 503)
    page = (await client.get("/attempts")).json()
    [attempt] = page["data"]
    began = attempt["started_at"]
    assert attempt == {
        "id": attempt["id"],
        "number": 1,
        "trigger": "first",
        "started_at": began,
        "duration_ms": 5.0,
        "result": "status",
        "status_code": 503,
        "error": "The receiver answered 503.",
        "delivery_id": delivery["id"],
        **{
            name: delivery[name]
            for name in ("event_id", "event_type", "subscription_id", "endpoint_id", "tenant_id")
        },
        "delivery_status": "retrying",
        "delivery_reason": None,
        "attempt_count": 1,
        "next_attempt_at": attempt["next_attempt_at"],
    }
    assert attempt["next_attempt_at"] > began
    assert (page["next_cursor"], page["done"]) == (None, True)

    async def tail(after: str) -> tuple[list[int], str]:
        response = await client.get("/attempts", params={"after": after})
        assert response.status_code == 200, response.text
        document = response.json()
        assert (document["next_cursor"], document["done"]) == (None, True)
        return [one["number"] for one in document["data"]], document["tail_cursor"]

    found, cursor = await tail(page["tail_cursor"])
    assert found == []
    await attempted(context, delivery, 504, number=2)
    assert (await tail(cursor))[0] == [2]
    assert (await tail(page["tail_cursor"]))[0] == [2]
    first = (await client.get("/attempts", params={"limit": 1})).json()
    assert [one["status_code"] for one in first["data"]] == [504]
    assert first["done"] is False
    query = {"limit": 1, "cursor": first["next_cursor"]}
    second = (await client.get("/attempts", params=query)).json()
    assert [one["status_code"] for one in second["data"]] == [503]
    later = rfc3339(context.clock() + timedelta(days=1))
    assert (await client.get("/attempts", params={"since": later})).json()["data"] == []
    for answer, numbers in (("503", [1]), ("5xx", [2, 1]), ("success", [])):
        listed = (await client.get("/attempts", params={"answer": answer})).json()["data"]
        assert [one["number"] for one in listed] == numbers
    query = {"cursor": first["next_cursor"], "after": cursor}
    assert_problem(
        await client.get("/attempts", params=query), 422, code="invalid_input", pointer="cursor"
    )
    for wrong in ("x", first["next_cursor"]):
        response = await client.get("/attempts", params={"after": wrong})
        assert_problem(response, 422, code="invalid_cursor", pointer="after")


async def test_a_tenants_key_sees_only_its_own_attempts(
    client: httpx2.AsyncClient,
    context: Context,
    tenant: str,
    make_tenant: Make,
    key_client: KeyClient,
) -> None:
    other = (await make_tenant())["id"]
    start = (await client.get("/attempts")).json()["tail_cursor"]
    delivery = await emit(client, tenant, TYPE)
    await attempted(context, delivery, 200)
    for owner, count in ((tenant, 1), (other, 0)):
        async with key_client(owner, scope="tenant:read") as own:
            for query in ({}, {"after": start}, {"event_id": delivery["event_id"]}):
                page = (await own.get("/attempts", params=query)).json()
                assert len(page["data"]) == count, (owner, query)
    async with key_client(other) as own:
        response = await own.get("/attempts", params={"tenant_id": tenant})
        assert response.status_code == 404
    async with key_client(tenant, scope="emit") as own:
        assert_problem(await own.get("/attempts"), 403, code="forbidden")
