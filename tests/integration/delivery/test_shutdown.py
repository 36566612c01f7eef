"""Shutdown of a worker: it takes no more work, and completes the attempts in flight."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from hookfast.deliveries.messages import DELIVERIES_QUEUE, RETRIES_QUEUE
from hookfast.sender import Sender
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.workflow_request import CONTROL_QUEUE
from tests.integration.delivery.conftest import running_stack
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


async def test_every_task_queue_stops_at_once_while_attempts_complete(
    temporal: WorkflowEnvironment,
    settings: Settings,
    database: Database,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One after the other, each queue would use the whole grace period, and the worker would be
    killed before it has ended."""
    stopping: set[str] = set()
    all_stopping, in_flight = asyncio.Event(), asyncio.Event()
    post, shutdown = Sender.post, Worker.shutdown

    async def post_late(self: Sender, *args: Any, **options: Any) -> Any:
        in_flight.set()
        await all_stopping.wait()
        return await post(self, *args, **options)

    async def note_shutdown(self: Worker) -> None:
        stopping.add(self.task_queue)
        if stopping == {DELIVERIES_QUEUE, RETRIES_QUEUE, CONTROL_QUEUE}:
            all_stopping.set()
        await shutdown(self)

    monkeypatch.setattr(Sender, "post", post_late)
    monkeypatch.setattr(Worker, "shutdown", note_shutdown)
    async with (
        asyncio.timeout(PATIENCE),
        running_stack(temporal, settings, database, receiver) as stack,
    ):
        delivery = await stack.deliver(await stack.endpoint("/ok", timeout=20))
        await in_flight.wait()
    row = await stack.row(delivery)
    assert (row.status, row.attempts, len(receiver.requests)) == ("delivered", 1, 1)
