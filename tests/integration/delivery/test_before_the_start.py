"""Actions on deliveries whose workflow has not started, because no worker ran yet."""

from __future__ import annotations

import pytest
from temporalio.testing import WorkflowEnvironment

from hookfast.deliveries.facts import Action
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from tests.integration.delivery.circuits import times_sent
from tests.integration.delivery.conftest import idle_stack, running_stack
from tests.support.receiver import Receiver

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def test_release_before_the_workflow_starts_sends_the_delivery_once(
    temporal: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> None:
    async with idle_stack(temporal.client, settings, database, receiver) as stack:
        delivery = await stack.deliver(await stack.endpoint("/ok"))
        await stack.request_many([delivery], Action.RELEASE)
        await stack.wake(delivery)
    async with running_stack(temporal, settings, database, receiver) as stack:
        await stack.until_status(delivery, "delivered")
        await stack.until_closed(delivery)
    assert times_sent(stack, [delivery]) == [1]


async def test_pause_before_the_workflow_starts_takes_effect(
    temporal: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> None:
    """The delivery is paused before its first attempt, and stays so."""
    async with idle_stack(temporal.client, settings, database, receiver) as stack:
        delivery = await stack.deliver(await stack.endpoint("/ok"))
        await stack.request(delivery, "pause")

    async with running_stack(temporal, settings, database, receiver) as stack:
        await stack.until_status(delivery, "paused")
        assert receiver.requests == []
        await stack.request(delivery, "resume")
        await stack.until_status(delivery, "delivered")
    assert len(receiver.requests) == 1
