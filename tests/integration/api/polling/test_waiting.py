"""A poll may wait for what comes, and is woken, ended or refused."""

from __future__ import annotations

import asyncio
import contextlib

import httpx2
import pytest

from api.process.context import Context
from tests.integration.api.polling.polls import emit, numbers, poll
from tests.support.api_client import assert_problem
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


async def test_a_waiting_poll_is_woken_by_an_event(tenant: httpx2.AsyncClient, polled: str) -> None:
    waiting = asyncio.create_task(poll(tenant, polled, wait=30))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    await emit(tenant, 1)
    async with asyncio.timeout(PATIENCE):
        assert numbers(await waiting) == [1]


async def test_a_waiting_poll_ends_when_its_endpoint_is_paused(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    waiting = asyncio.create_task(
        tenant.get(f"/endpoints/{polled}/poll", params={"wait": 30}, timeout=60)
    )
    await asyncio.sleep(0.3)
    await tenant.post(f"/endpoints/{polled}/pause")
    await emit(tenant, 1)
    async with asyncio.timeout(PATIENCE):
        assert_problem(await waiting, 409, code="endpoint_paused")


async def test_a_poll_that_waits_in_vain_answers_where_to_go_on(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    page = await poll(tenant, polled, wait=1)
    assert (page["data"], page["done"]) == ([], True)
    await emit(tenant, 1)
    assert numbers(await poll(tenant, polled, cursor=page["next_cursor"])) == [1]


async def test_a_tenant_waits_with_no_more_than_its_share(
    tenant: httpx2.AsyncClient, polled: str, context: Context, tenant_id: str
) -> None:
    with contextlib.ExitStack() as taken:
        for _ in range(context.settings.max_streams // 4):
            taken.enter_context(context.stream_slots.enter(tenant_id))
        refused = await tenant.get(f"/endpoints/{polled}/poll", params={"wait": 30})
        assert_problem(refused, 429, code="too_many_streams")
        # who does not wait needs no seat
        assert (await poll(tenant, polled))["data"] == []
