"""A tenant's requests to read, which wait for one another and not for those of others."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import httpx2
import pytest
from fastapi import FastAPI

from api.context.context import Context
from api.limits.turns import AT_ONCE
from tests.integration.dashboard.visitor import signed_in
from tests.support.api_client import KeyClient, Make

pytestmark = pytest.mark.anyio


async def test_requests_that_read_wait_for_earlier_ones_of_their_tenant_alone(
    app: FastAPI,
    context: Context,
    client: httpx2.AsyncClient,
    key_client: KeyClient,
    make_tenant: Make,
) -> None:
    busy, other = [str((await make_tenant())["id"]) for _ in range(2)]
    async with (
        key_client(busy) as of_busy,
        key_client(other) as of_other,
        signed_in(app, of_busy.headers["Authorization"].partition(" ")[2]) as visitor,
    ):
        polled = (await of_busy.post("/endpoints", json={"mode": "poll", "events": ["**"]})).json()
        async with AsyncExitStack() as earlier:
            for _ in range(AT_ONCE):
                await earlier.enter_async_context(context.turns.of(busy))
            waiting = [
                asyncio.create_task(of_busy.get("/deliveries")),
                asyncio.create_task(visitor.get("/dashboard/deliveries")),
            ]
            for answer in (
                await of_other.get("/deliveries"),
                await client.get("/deliveries", params={"tenant_id": busy}),
                await of_busy.get(f"/endpoints/{polled['id']}/poll"),  # may wait for events
                await of_busy.post("/endpoints", json={"mode": "poll", "events": ["**"]}),
            ):
                assert answer.is_success, answer.text
            assert not any(task.done() for task in waiting)
        assert [(await task).status_code for task in waiting] == [200, 200]


async def test_one_request_fewer_waits_for_none(
    context: Context, key_client: KeyClient, tenant: str
) -> None:
    async with key_client(tenant) as client, AsyncExitStack() as earlier:
        for _ in range(AT_ONCE - 1):
            await earlier.enter_async_context(context.turns.of(tenant))
        assert (await client.get("/deliveries")).status_code == 200
