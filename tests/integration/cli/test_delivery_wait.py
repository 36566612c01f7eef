"""`hookfast deliveries wait`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx2
import pytest
from sqlalchemy import update

from hookfast.storage.tables import Delivery
from tests.integration.cli.conftest import TYPE, Run
from tests.support.api_client import Json
from tests.support.api_server import ApiServer
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
async def event(client: httpx2.AsyncClient, endpoint: Json) -> str:
    """An event with one delivery, which no worker sends."""
    form = {"type": TYPE, "data": 1, "tenant_id": endpoint["tenant_id"]}
    return str((await client.post("/events", json=form)).json()["id"])


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.02)


async def set_status(served: ApiServer, status: str) -> None:
    async with served.context.database.write() as connection:
        await connection.execute(update(Delivery).values(status=status))


async def test_wait_returns_once_the_first_attempt_was_made(
    hookfast: Run, served: ApiServer, event: str
) -> None:
    waiting = asyncio.create_task(hookfast("deliveries", "wait", "--event", event, "--json"))
    expected = served.uvicorn.server_state.total_requests + 2
    await until(lambda: served.uvicorn.server_state.total_requests >= expected)
    assert not waiting.done()
    await set_status(served, "retrying")
    ended = await waiting
    assert ended.code == 0, ended.err
    assert [row["status"] for row in ended.json["data"]] == ["retrying"]


async def test_wait_returns_once_the_status_is_reached(
    hookfast: Run, served: ApiServer, client: httpx2.AsyncClient, event: str
) -> None:
    await set_status(served, "retrying")
    [row] = (await client.get("/deliveries", params={"event_id": event})).json()["data"]
    late = await hookfast("deliveries", "wait", row["id"], "--for", "delivered", "--timeout", "0")
    assert late.code == 1
    assert "1 of 1 is not delivered" in late.error_text
    await set_status(served, "delivered")
    ended = await hookfast("deliveries", "wait", row["id"], "--for", "delivered")
    assert ended.code == 0
    assert row["id"] in ended.out


async def test_wait_without_matches_exits_with_1(hookfast: Run, event: str) -> None:
    arguments = ("--event", event, "--status", "dead", "--timeout", "0")
    ended = await hookfast("deliveries", "wait", *arguments)
    assert (ended.code, ended.error_text) == (1, "No delivery matches.")


@pytest.mark.parametrize("arguments", [(), ("dlv_" + "1" * 32, "--event", "evt_" + "0" * 32)])
async def test_wait_needs_either_ids_or_filters(hookfast: Run, arguments: tuple[str, ...]) -> None:
    ended = await hookfast("deliveries", "wait", *arguments)
    assert ended.code == 2
    assert "give ids or filters such as --event, not both" in ended.error_text
