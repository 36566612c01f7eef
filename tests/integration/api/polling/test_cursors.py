"""Polling returns events in commit order, and the cursor acknowledges them."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from sqlalchemy import delete

from api.context.context import Context
from hookfast.clock import utc_now
from hookfast.storage.retention import retention_runs
from hookfast.storage.tables import Event, RetentionRun
from tests.integration.api.polling.polls import emit, numbers, poll
from tests.support.api_client import KeyClient, assert_problem

pytestmark = pytest.mark.anyio


async def everything(client: httpx2.AsyncClient, endpoint: str, **query: Any) -> list[int]:
    """Return all events, as a consumer that never dies gets them."""
    got: list[int] = []
    while True:
        page = await poll(client, endpoint, **query)
        got += numbers(page)
        if page["done"]:
            return got
        query["cursor"] = page["next_cursor"]


async def test_polling_starts_with_events_since_the_endpoint_was_created(
    tenant: httpx2.AsyncClient,
) -> None:
    await emit(tenant, 1)
    answer = await tenant.post("/endpoints", json={"mode": "poll", "events": ["**"]})
    await emit(tenant, 2)
    assert numbers(await poll(tenant, answer.json()["id"])) == [2]
    # earlier events are returned on request
    assert numbers(await poll(tenant, answer.json()["id"], cursor="start", ack="none")) == [1, 2]


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_consumer_that_dies_at_any_point_misses_nothing(
    tenant: httpx2.AsyncClient, polled: str, limit: int
) -> None:
    """A consumer dies after each response, before or after processing it, and restarts."""
    for n in range(6):
        await emit(tenant, n)
    done: list[int] = []
    cursor: dict[str, str] = {}
    for round_ in range(12):
        page = await poll(tenant, polled, limit=limit, **cursor)
        if round_ % 2 == 0:
            cursor = {}  # the cursor is lost with the page
            continue
        done += numbers(page)
        cursor = {"cursor": page["next_cursor"]}
        # dies after processing, before acknowledging: the events are returned again
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


async def test_older_cursor_reads_again_without_undoing_acknowledgements(
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


async def test_read_key_acknowledges_nothing(
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


async def test_malformed_cursor_is_rejected(tenant: httpx2.AsyncClient, polled: str) -> None:
    for query, code in (
        ({"cursor": "nonsense"}, "invalid_cursor"),
        ({"ack": "set"}, "invalid_input"),
        ({"wait": "31"}, "invalid_input"),
        ({"limit": "201"}, "invalid_input"),
    ):
        refused = await tenant.get(f"/endpoints/{polled}/poll", params=query)
        assert_problem(refused, 422, code=code)


async def test_cursor_end_skips_existing_events(tenant: httpx2.AsyncClient, polled: str) -> None:
    await emit(tenant, 1)
    page = await poll(tenant, polled, cursor="end")
    assert (page["data"], page["gap"]) == ([], None)
    await emit(tenant, 2)
    assert numbers(await poll(tenant, polled)) == [2]


async def test_events_deleted_by_retention_are_a_gap(
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
