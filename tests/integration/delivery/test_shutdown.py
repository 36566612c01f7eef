"""A worker that is told to end: it takes no more work, and ends what is under way."""

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


async def test_no_queue_is_served_on_while_what_came_by_another_one_ends(
    temporal: WorkflowEnvironment,
    settings: Settings,
    database: Database,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else each would have the whole grace after the other, which is more than whoever stops a
    worker waits before he kills it."""
    told: set[str] = set()
    all_told, under_way = asyncio.Event(), asyncio.Event()
    post, shutdown = Sender.post, Worker.shutdown

    async def post_at_last(self: Sender, *args: Any, **options: Any) -> Any:
        under_way.set()
        await all_told.wait()
        return await post(self, *args, **options)

    async def told_to_end(self: Worker) -> None:
        told.add(self.task_queue)
        if told == {DELIVERIES_QUEUE, RETRIES_QUEUE, CONTROL_QUEUE}:
            all_told.set()
        await shutdown(self)

    monkeypatch.setattr(Sender, "post", post_at_last)
    monkeypatch.setattr(Worker, "shutdown", told_to_end)
    async with (
        asyncio.timeout(PATIENCE),
        running_stack(temporal, settings, database, receiver) as stack,
    ):
        delivery = await stack.deliver(await stack.endpoint("/ok", timeout=20))
        await under_way.wait()
    row = await stack.row(delivery)
    assert (row.status, row.attempts, len(receiver.requests)) == ("delivered", 1, 1)
