"""Deliveries while the egress proxy is away: they wait, without an attempt, and lose nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from tests.integration.delivery.conftest import Stack, running_stack
from tests.support.receiver import Receiver
from tests.support.tinyproxy import TinyProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[TinyProxy]:
    async with TinyProxy(tmp_path) as proxy:
        yield proxy


@pytest.mark.parametrize("first_attempts", ["workflow", "batch"])
async def test_an_outage_of_the_proxy_costs_no_attempt(
    temporal: WorkflowEnvironment,
    settings: Settings,
    database: Database,
    receiver: Receiver,
    proxy: TinyProxy,
) -> None:
    settings = settings.model_copy(update={"egress_proxy": SecretStr(proxy.url)})
    async with running_stack(temporal, settings, database, receiver) as stack:
        endpoint = await stack.endpoint("/ok")
        before = await stack.deliver(endpoint)
        await stack.until_status(before, "delivered")
        await proxy.stop()
        delayed = await stack.deliver_together(endpoint, 3)
        for delivery in delayed:
            await eventually(partial(_failed_step, stack, delivery))
        assert len(receiver.requests) == 1
        await proxy.start()
        for delivery in delayed:
            row = await stack.until_status(delivery, "delivered")
            assert row.attempts == 1
            [attempt] = await stack.attempts(delivery)
            assert attempt.number == 1
    assert len(receiver.requests) == 4
    assert {*proxy.asked} == {f"127.0.0.1:{receiver.port}"}


async def _failed_step(stack: Stack, delivery: str) -> bool:
    """Whether the workflow waits to repeat a step that failed because of the proxy."""
    try:
        described = await stack.workflow(delivery).describe()
    except RPCError:  # not started yet
        return False
    pending = described.raw_description.pending_activities
    failure = pending[0].last_failure if pending else None
    if failure is None or not failure.message:
        return False
    assert failure.message == (
        "The egress proxy does not work: it cannot be reached. Nothing was sent."
    )
    return True
