"""One tenant's slow deliveries of large bodies do not fill a worker's memory, nor delay others'."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from hookfast.storage.database.engine import Database
from tests.e2e.large_deliveries import (
    KINDS,
    SlowReceiver,
    deliver_large,
    delivered,
    memory,
    slow_endpoint,
)
from tests.e2e.processes import environment, worker
from tests.support.receiver import Receiver
from tests.support.seed import seed_delivery, seed_endpoint
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.timeout(1800),
]

COUNT = 400
WATCH_SECONDS = 90.0
"""How long the receivers are slow: several times as long as one answer takes."""
FINISH_SECONDS = 600.0


@pytest.mark.parametrize("kinds", [["raw"], list(KINDS)], ids=["raw", "all"])
async def test_worker_with_400_slow_deliveries_of_5_mb_stays_within_150_mib(
    temporal: WorkflowEnvironment,
    temporal_address: str,
    tmp_path: Path,
    database_url: str,
    database: Database,
    kinds: list[str],
) -> None:
    slow = SlowReceiver()
    env = environment(tmp_path, database_url, temporal_address)
    async with Receiver() as receiver, Receiver(serve=slow) as slow_receiver:
        fine = await seed_endpoint(database, receiver.url("/ok"))
        endpoints = [await slow_endpoint(database, slow_receiver.url(), one) for one in kinds]
        async with worker(env, tmp_path / "worker.log") as process:
            for _ in range(200):
                await seed_delivery(database, fine)

            async def warm() -> bool:
                return await delivered(database, [fine]) == 200

            await eventually(warm)
            idle = memory(process.pid)
            for number in range(COUNT):
                await deliver_large(database, endpoints[number % len(endpoints)], number)
            small = 200
            until = asyncio.get_running_loop().time() + WATCH_SECONDS
            while asyncio.get_running_loop().time() < until:
                small += 1
                await seed_delivery(database, fine)

                async def has_passed(small: int = small) -> bool:
                    return await delivered(database, [fine]) == small

                await eventually(has_passed)  # although the memory is full
                await asyncio.sleep(1)
            assert slow.in_flight > 0
            slow.seconds = 0

            async def all_delivered() -> bool:
                return await delivered(database, endpoints) == COUNT

            await eventually(all_delivered, timeout=FINISH_SECONDS)
            most = memory(process.pid, "VmHWM")
            assert set(slow.received.values()) == {1}
            assert most <= idle + 150, f"{idle:.0f} MiB idle, {most:.0f} at most"
