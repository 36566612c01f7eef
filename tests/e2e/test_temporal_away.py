"""Temporal is killed while events are emitted: all are accepted, and delivered when it is back. The
log says so in few lines. A worker that stops meanwhile does so within its grace."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest

from hookfast.storage.database.engine import Database
from tests.e2e.processes import (
    api,
    api_in_process,
    environment,
    kill,
    temporal_process,
    worker,
)
from tests.e2e.service_process import free_ports
from tests.support import log_lines
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

RETRIED_SECONDS = 6.0
"""After this time the SDK's lines about requests that it repeats have begun."""
BUSY_SECONDS = 20.0
"""The machine may be busy with other tests."""
EVENT = {"type": "order.invoice.paid", "data": {"total": 1}}


async def until_healthy(client: httpx2.AsyncClient) -> None:
    async def healthy() -> bool:
        with contextlib.suppress(httpx2.TransportError):
            return (await client.get("/healthz")).status_code == 200
        return False

    await eventually(healthy)


async def register(client: httpx2.AsyncClient, url: str) -> None:
    await client.put(f"/v1/event-types/{EVENT['type']}", json={})
    tenant = (await client.post("/v1/tenants", json={"name": "Acme"})).json()["id"]
    created = await client.post(
        "/v1/endpoints",
        json={"url": url, "tenant_id": tenant, "events": ["**"], "verification": "none"},
    )
    assert created.status_code == 201, created.text


async def emit(client: httpx2.AsyncClient, count: int, *, pause: float = 0.0) -> None:
    for _ in range(count):
        answer = await client.post("/v1/events", json=EVENT)
        assert answer.status_code == 202, answer.text
        assert answer.json()["deliveries"] == 1
        await asyncio.sleep(pause)


async def count(client: httpx2.AsyncClient, status: str) -> int:
    answer = await client.get("/v1/deliveries", params={"status": status, "limit": 200})
    return len(answer.json()["data"])


async def test_events_emitted_while_temporal_is_down_are_delivered_when_it_is_back(
    database_url: str, database: Database, tmp_path: Path
) -> None:
    [temporal_port] = free_ports(1)
    env = environment(tmp_path, database_url, f"127.0.0.1:{temporal_port}")
    log = tmp_path / "worker.log"

    async def is_away() -> bool:
        return "Temporal is away" in log.read_text()

    async def is_back() -> bool:
        return "Temporal is back" in log.read_text()

    async def all_delivered() -> bool:
        return await count(client, "delivered") == 110

    async with Receiver() as receiver, api_in_process(env) as client:
        await register(client, receiver.url("/ok"))
        async with AsyncExitStack() as running_worker:
            async with temporal_process(tmp_path, temporal_port) as temporal:
                await running_worker.enter_async_context(worker(env, log))
                await emit(client, 20)
                await receiver.wait_for(10)
                killed = asyncio.create_task(kill(temporal))
                await emit(client, 40, pause=0.05)  # during the starts of some
                await killed
            await emit(client, 40)
            await eventually(is_away)
            await asyncio.sleep(RETRIED_SECONDS)
            async with temporal_process(tmp_path, temporal_port):
                await emit(client, 10)
                await eventually(all_delivered)
                await eventually(is_back)  # the watch may ask later than the deliveries need

    assert len({request.message_id for request in receiver.requests}) == 110
    lines = log_lines.lines_of(log.read_text())
    warnings = [line for line in lines if line["level"] in ("warning", "error")]
    reports = [line["event"] for line in warnings if line.get("dependency") == "temporal"]
    assert reports[0].startswith("Temporal is away: events are accepted")
    assert reports[-1] == "Temporal is back."
    assert all("still away" in one for one in reports[1:-1])
    assert not [line["event"] for line in warnings if "gRPC call" in line["event"]]


@pytest.mark.slow
async def test_worker_ends_within_its_grace_while_receivers_and_temporal_are_silent(
    database_url: str, database: Database, tmp_path: Path
) -> None:
    temporal_port, api_port = free_ports(2)
    env = environment(
        tmp_path,
        database_url,
        f"127.0.0.1:{temporal_port}",
        HOOKFAST_PORT=str(api_port),
        HOOKFAST_SHUTDOWN_GRACE="3",
    )

    async def all_delivered() -> bool:
        return await count(client, "delivered") == 20

    async with (
        Receiver() as receiver,
        api(env, tmp_path / "api.log") as client,
        temporal_process(tmp_path, temporal_port) as temporal,
    ):
        await until_healthy(client)
        receiver.routes["/hook"] = "/slow/25"
        await register(client, receiver.url("/hook"))
        async with worker(env, tmp_path / "worker.log") as stopped:
            await emit(client, 20)
            await receiver.wait_for(10)
            temporal.send_signal(signal.SIGSTOP)
            stopped.terminate()
            async with asyncio.timeout(3 + BUSY_SECONDS):  # it was 78 s
                assert await stopped.wait() == 0
        temporal.send_signal(signal.SIGCONT)
        receiver.routes["/hook"] = "/ok"
        async with worker(env, tmp_path / "next.log"):
            await eventually(all_delivered, timeout=3 * PATIENCE)

    ids = [request.message_id for request in receiver.requests]
    assert len(set(ids)) == 20
    assert len(ids) > 20, "the requests in progress were not repeated"
