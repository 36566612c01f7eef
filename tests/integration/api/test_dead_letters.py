"""Dead letters: lists, counts and redrives."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from api.context.context import Context
from hookfast.storage.deliveries import jobs
from tests.support.api_client import Json, KeyClient, Make, MakeEventType, assert_problem
from tests.support.emitted import TYPE, change, emit, emit_as, finish

pytestmark = pytest.mark.anyio

OTHER_TYPE = "order.refund.made"
ALIVE = ["pending", "retrying", "held", "paused", "delivered", "cancelled"]


@pytest.fixture(autouse=True)
async def event_types(make_event_type: MakeEventType) -> None:
    await make_event_type(TYPE)
    await make_event_type(OTHER_TYPE)


@pytest.fixture
async def dead(
    client: httpx2.AsyncClient, context: Context, make_tenant: Make, make_endpoint: Make
) -> list[Json]:
    """Four dead letters of two tenants, oldest first, and one delivery of every other status."""
    now = context.clock()
    tenants = [str((await make_tenant())["id"]) for _ in range(2)]
    for tenant in tenants:
        await make_endpoint(tenant_id=tenant, events=["**"])
    made = []
    for tenant, event_type, status, reason, age in (
        (tenants[0], TYPE, "dead", "retries_exhausted", timedelta(minutes=1)),
        (tenants[0], OTHER_TYPE, "dead", "endpoint_disabled", timedelta(hours=5)),
        (tenants[1], TYPE, "gone", "gone", timedelta(days=2)),
        (tenants[0], TYPE, "dead", "retries_exhausted", timedelta(days=9)),
    ):
        delivery = await emit(client, tenant, event_type)
        values = {"status": status, "reason": reason, "finished_at": now - age}
        await change(context, delivery["id"], **values)
        made.append(delivery | {"status": status, "reason": reason})
    for status in ALIVE:
        await emit_as(client, context, tenants[0], status, reason="retries_exhausted")
    return made


async def listed(client: httpx2.AsyncClient, **filters: Any) -> list[str]:
    answer = await client.get("/dead-letters", params=filters)
    assert answer.status_code == 200, answer.text
    return [delivery["id"] for delivery in answer.json()["data"]]


async def test_only_dead_letters_are_listed_newest_first(
    client: httpx2.AsyncClient, dead: list[Json]
) -> None:
    a, b, c, d = (one["id"] for one in dead)
    assert await listed(client) == [d, c, b, a]
    assert await listed(client, tenant_id=dead[0]["tenant_id"]) == [d, b, a]
    assert await listed(client, endpoint_id=dead[2]["endpoint_id"]) == [c]
    assert await listed(client, event_type=TYPE) == [d, c, a]
    assert await listed(client, reason="retries_exhausted") == [d, a]
    assert await listed(client, since=dead[2]["created_at"]) == [d, c]
    assert await listed(client, until=dead[2]["created_at"]) == [b, a]
    both = {"tenant_id": dead[0]["tenant_id"], "event_type": OTHER_TYPE}
    assert await listed(client, **both) == [b]
    page = (await client.get("/dead-letters", params={"limit": 3})).json()
    assert await listed(client, limit=3, cursor=page["next_cursor"]) == [a]


async def test_dead_letters_are_counted_by_endpoint_type_reason_and_age(
    client: httpx2.AsyncClient, dead: list[Json]
) -> None:
    stats = (await client.get("/dead-letters/stats")).json()
    assert stats == {
        "total": 4,
        "by_endpoint": [
            {"endpoint_id": dead[0]["endpoint_id"], "count": 3},
            {"endpoint_id": dead[2]["endpoint_id"], "count": 1},
        ],
        "by_event_type": [
            {"event_type": TYPE, "count": 3},
            {"event_type": OTHER_TYPE, "count": 1},
        ],
        "by_reason": [
            {"reason": "retries_exhausted", "count": 2},
            {"reason": "endpoint_disabled", "count": 1},
            {"reason": "gone", "count": 1},
        ],
        "by_age": {"under_1_hour": 1, "under_1_day": 1, "under_7_days": 1, "older": 1},
    }
    answer = await client.get("/dead-letters/stats", params={"tenant_id": dead[2]["tenant_id"]})
    assert (answer.json()["total"], answer.json()["by_age"]["under_7_days"]) == (1, 1)
    answer = await client.get("/dead-letters/stats", params={"endpoint_id": dead[0]["endpoint_id"]})
    assert answer.json()["total"] == 3


async def test_without_dead_letters_the_counts_are_zero(client: httpx2.AsyncClient) -> None:
    stats = (await client.get("/dead-letters/stats")).json()
    assert stats["total"] == 0
    assert stats["by_endpoint"] == []
    assert set(stats["by_age"].values()) == {0}


async def redrive(client: httpx2.AsyncClient, **members: Any) -> httpx2.Response:
    return await client.post("/dead-letters/redrive", json=members)


async def test_a_dry_run_counts_what_the_redrive_will_send(
    client: httpx2.AsyncClient, dead: list[Json]
) -> None:
    chosen = {"tenant_id": dead[0]["tenant_id"], "reason": "retries_exhausted"}
    dry = await redrive(client, filter=chosen, dry_run=True)
    assert dry.status_code == 200
    assert dry.json() == {"dry_run": True, "matching": 2, "by_status": {"dead": 2}}

    answer = await redrive(client, filter=chosen, rate_per_second=5)
    assert answer.status_code == 202
    job = answer.json()
    assert (job["kind"], job["action"], job["total"]) == ("redrive", "resend", 2)
    assert job["rate_per_second"] == 5


async def test_second_redrive_leaves_out_what_the_first_has_yet_to_send(
    client: httpx2.AsyncClient, context: Context, dead: list[Json]
) -> None:
    async def matching(**members: Any) -> int:
        answer = await redrive(client, dry_run=True, **members)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["matching"])

    one_tenants = {"tenant_id": dead[0]["tenant_id"], "reason": "retries_exhausted"}
    first = (await redrive(client, filter=one_tenants)).json()
    assert first["total"] == 2
    assert await matching(filter=one_tenants) == 0
    assert await matching(all=True) == 2  # the others
    again = (await redrive(client, filter=one_tenants)).json()
    assert again["total"] == 0
    # the filter does not show what we leave out
    assert again["filter"] == first["filter"]

    # the job has resent the first of its two deliveries, which is dead again
    async with context.database.write() as connection:
        job = await jobs.lock(connection, first["id"])
        assert job is not None
        await jobs.record_progress(
            connection,
            job,
            cursor=dead[0]["id"],
            in_hand=[],
            done=1,
            skipped=0,
            now=context.clock(),
        )
    await finish(context, again)
    assert await matching(filter=one_tenants) == 1
    await finish(context, first)
    assert await matching(filter=one_tenants) == 2


async def test_redrive_includes_deliveries_of_jobs_that_do_not_send(
    client: httpx2.AsyncClient, dead: list[Json]
) -> None:
    """A job that pauses or cancels does not send its deliveries."""
    body = {"action": "cancel", "all": True}
    assert (await client.post("/deliveries/actions", json=body)).status_code == 202
    answer = await redrive(client, all=True, dry_run=True)
    assert answer.json()["matching"] == 4


async def test_resend_by_reason_does_not_hide_deliveries_without_a_reason(
    client: httpx2.AsyncClient, dead: list[Json]
) -> None:
    body = {"action": "resend", "filter": {"reason": "gone"}}
    assert (await client.post("/deliveries/actions", json=body)).status_code == 202
    fresh = await emit(client, dead[0]["tenant_id"])
    body = {"action": "resend", "filter": {"ids": [fresh["id"]]}}
    assert (await client.post("/deliveries/actions", json=body)).json()["total"] == 1


async def test_unknown_reason_is_rejected(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/dead-letters", params={"reason": "retries_exausted"})
    problem = assert_problem(answer, 422, code="invalid_input", pointer="reason")
    assert "retries_exhausted" in str(problem)
    answer = await redrive(client, filter={"reason": "retries_exausted"}, dry_run=True)
    assert_problem(answer, 422, code="invalid_input", pointer="/filter/reason")


async def test_empty_filter_is_rejected_without_all(
    client: httpx2.AsyncClient, dead: list[Json]
) -> None:
    assert_problem(await redrive(client), 422, code="empty_filter", pointer="/filter")
    answer = await redrive(client, all=True, dry_run=True)
    assert answer.json() == {"dry_run": True, "matching": 4, "by_status": {"dead": 3, "gone": 1}}


async def test_redrive_cannot_filter_by_status(client: httpx2.AsyncClient) -> None:
    answer = await redrive(client, filter={"status": "delivered"})
    assert_problem(answer, 422, code="invalid_input", pointer="/filter/status")


async def test_tenant_sees_and_redrives_only_its_own_dead_letters(
    dead: list[Json], key_client: KeyClient
) -> None:
    async with key_client(dead[2]["tenant_id"]) as own:
        assert await listed(own) == [dead[2]["id"]]
        assert await listed(own, endpoint_id=dead[0]["endpoint_id"]) == []
        assert (await own.get("/dead-letters/stats")).json()["total"] == 1
        answer = await redrive(own, filter={"endpoint_id": dead[0]["endpoint_id"]}, dry_run=True)
        assert answer.json()["matching"] == 0
        assert (await redrive(own, all=True, dry_run=True)).json()["matching"] == 1
        for path in ("/dead-letters", "/dead-letters/stats"):
            answer = await own.get(path, params={"tenant_id": dead[0]["tenant_id"]})
            assert_problem(answer, 404, code="not_found")
    async with key_client(dead[2]["tenant_id"], scope="tenant:read") as own:
        assert await listed(own) == [dead[2]["id"]]
        assert_problem(await redrive(own, all=True), 403, code="forbidden")
