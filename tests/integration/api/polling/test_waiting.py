"""Polls that wait for events: what wakes or ends them, and their limit."""

from __future__ import annotations

import asyncio
import contextlib

import httpx2
import pytest

from api.context.context import Context
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


async def test_poll_that_waits_in_vain_returns_a_cursor(
    tenant: httpx2.AsyncClient, polled: str
) -> None:
    page = await poll(tenant, polled, wait=1)
    assert (page["data"], page["done"]) == ([], True)
    await emit(tenant, 1)
    assert numbers(await poll(tenant, polled, cursor=page["next_cursor"])) == [1]


async def test_waiting_polls_of_a_tenant_are_limited(
    tenant: httpx2.AsyncClient, polled: str, context: Context, tenant_id: str
) -> None:
    with contextlib.ExitStack() as taken:
        for _ in range(context.settings.max_streams // 4):
            taken.enter_context(context.stream_slots.enter(tenant_id))
        refused = await tenant.get(f"/endpoints/{polled}/poll", params={"wait": 30})
        assert_problem(refused, 429, code="too_many_streams")
        # a poll that does not wait needs no slot
        assert (await poll(tenant, polled))["data"] == []
