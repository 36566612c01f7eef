"""A worker whose memory for bodies is full: large ones wait, and nobody else does."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from temporalio.testing import WorkflowEnvironment

from activities import waiting_room, worker_parts
from hookfast.byte_budget import ByteBudget, Claim
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from tests.integration.delivery.conftest import running_stack
from tests.support.receiver import Receiver
from tests.support.seed import seed_endpoint
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

MIB = 1024 * 1024
LARGE = 900_000
FAST = 400_000
"""Bytes of a body; one of this size goes by the fast lane."""
COUNT = 30


class Noted(ByteBudget):
    """A budget that notes the most that was used."""

    made: Noted
    most = 0

    def __init__(self, limit: int, *, largest: int) -> None:
        super().__init__(limit, largest=largest)
        Noted.made = self

    def _count(self, claim: Claim, size: int) -> None:
        super()._count(claim, size)
        self.most = max(self.most, self.used)


class Holding:
    """Receives bodies, and answers when `release` is set. `in_flight` wait for that."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.in_flight = self.most_in_flight = 0
        self.received: Counter[str] = Counter()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:-1])
            await reader.readexactly(int(headers["content-length"]))
            self.received[headers["x-hook-id"]] += 1
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            await self.release.wait()
            self.in_flight -= 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("size", "first_attempts"),
    [
        pytest.param(LARGE, "workflow", id="large-workflow"),
        pytest.param(LARGE, "batch", id="large-batch", marks=pytest.mark.slow),
        pytest.param(FAST, "workflow", id="of the fast lane-workflow", marks=pytest.mark.slow),
        pytest.param(FAST, "batch", id="of the fast lane-batch"),
    ],
)
async def test_large_bodies_of_one_tenant_wait_for_room_and_delay_nobody(
    temporal: WorkflowEnvironment,
    settings: Settings,
    database: Database,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
) -> None:
    monkeypatch.setattr(worker_parts, "ByteBudget", Noted)
    monkeypatch.setattr(waiting_room, "_LONGEST_PAUSE", 1.0)
    limited: dict[str, Any] = {"max_body_memory": 6 * MIB, "max_inbox_bytes": MIB}
    holding = Holding()
    async with (
        Receiver(serve=holding) as slow,
        running_stack(temporal, settings.model_copy(update=limited), database, receiver) as stack,
    ):
        endpoint = await seed_endpoint(database, slow.url(), timeout=30)
        large = [await stack.deliver(endpoint, data="x" * size) for _ in range(COUNT)]

        async def several_in_flight() -> bool:
            return holding.in_flight >= 2

        await eventually(several_in_flight)
        others = [await stack.endpoint(f"/{number}") for number in range(3)]
        small = [await stack.deliver(others[number % 3]) for number in range(30)]
        await stack.until_all(small, "delivered")
        assert holding.in_flight >= 2
        assert holding.most_in_flight < COUNT / 2
        holding.release.set()
        await stack.until_all(large, "delivered")
        assert holding.received == Counter(large)
        attempts = [len(await stack.attempts(one)) for one in large]
        assert attempts == [1] * COUNT
        budget = Noted.made
        assert 2 * size < budget.most <= 6 * MIB
        assert budget.used <= 6 * MIB // 8
