"""A worker and an API in control groups with the memory that `docker-compose.yml` gives them, under
all attacks at once: neither is killed, and the others keep their service."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import Counter
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from hookfast.storage.database.engine import Database
from tests.e2e.hostile_clients import MIB, TYPE, Service, api_process, connections, head, send
from tests.e2e.large_deliveries import SlowReceiver, deliver_large, delivered, slow_endpoint
from tests.e2e.processes import environment, running
from tests.e2e.service_process import free_ports
from tests.support.memory_group import MemoryGroup, memory_group
from tests.support.receiver import Receiver
from tests.support.seed import seed_delivery, seed_endpoint
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.timeout(1800),
]

WORKER_BYTES = 512 * MIB
API_BYTES = 768 * MIB
LARGE = 200
ATTACK_SECONDS = 60.0


async def test_worker_and_api_survive_all_attacks_at_once(
    temporal: WorkflowEnvironment,
    temporal_address: str,
    tmp_path: Path,
    database_url: str,
    database: Database,
) -> None:
    [port] = free_ports(1)
    env = environment(tmp_path, database_url, temporal_address, HOOKFAST_PORT=str(port))
    slow = SlowReceiver()
    with memory_group(WORKER_BYTES) as of_worker, memory_group(API_BYTES) as of_api:
        async with (
            Receiver() as receiver,
            Receiver(serve=slow) as slow_receiver,
            api_process(env, tmp_path / "api.log", group=of_api) as service,
            running(
                *of_worker.joined(sys.executable, "worker.py"),
                env=env,
                log=tmp_path / "worker.log",
            ) as worker,
        ):
            fine = await seed_endpoint(database, receiver.url("/ok"))
            full = await slow_endpoint(database, slow_receiver.url(), "raw")
            for number in range(LARGE):
                await deliver_large(database, full, number)
            attacks = asyncio.gather(*(_attack(service, kind) for kind in range(3)))
            small, statuses = 0, Counter[int]()
            _, key = await service.tenant("emit")
            event = {"type": TYPE, "data": "x" * 200_000}
            until = asyncio.get_running_loop().time() + ATTACK_SECONDS
            while asyncio.get_running_loop().time() < until:
                answer = await service.operator.post(
                    "/v1/events", json=event, headers={"Authorization": f"Bearer {key}"}
                )
                statuses[answer.status_code] += 1
                small += 1
                await seed_delivery(database, fine)

                async def has_passed(small: int = small) -> bool:
                    return await delivered(database, [fine]) == small

                await eventually(has_passed)
            await attacks
            slow.seconds = 0

            async def all_delivered() -> bool:
                return await delivered(database, [full]) == LARGE

            await eventually(all_delivered, timeout=600)
            assert set(statuses) == {202}, statuses
            assert service.process.is_running()
            assert worker.returncode is None
            assert _most(of_worker) <= WORKER_BYTES


async def _attack(service: Service, kind: int) -> None:
    """Open 200 connections again and again that do not read their answers, or stall."""
    tenant, key = await service.tenant()
    source = await service.source(tenant)
    authorization = f"Authorization: Bearer {key}"
    requests = (
        head("GET", "/v1/stream?since=2026-01-01T00:00:00Z", authorization),
        head(
            *("POST", "/v1/events/batch", authorization, "Content-Type: application/json"),
            f"Content-Length: {16 * MIB}",
        )
        + b"[" * 1_000_000,
        head("POST", f"/in/{source}", "Content-Length: 5242880") + b"x" * 5_242_879,
    )

    async def one(endpoint: socket.socket) -> None:
        await send(endpoint, requests[kind], service.port)

    until = asyncio.get_running_loop().time() + ATTACK_SECONDS
    while asyncio.get_running_loop().time() < until:
        address = f"127.0.0.{2 + kind}"
        async with connections(200, receive_buffer=4_096, address=address) as sockets:
            attacking = asyncio.gather(*map(one, sockets), return_exceptions=True)
            await asyncio.sleep(10)
            attacking.cancel()


def _most(group: MemoryGroup) -> int:
    """Return the most memory that the group took, in bytes."""
    for name in ("memory.max_usage_in_bytes", "memory.peak"):
        if (group.folder / name).exists():
            return int((group.folder / name).read_text())
    raise AssertionError("the group does not say how much memory it took")
