"""Workers with settings that other tests do not have."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_network

import pytest
from sqlalchemy import update
from temporalio.testing import WorkflowEnvironment

from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Endpoint
from tests.integration.delivery.conftest import running_stack
from tests.support.receiver import Receiver

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

ONCE = {"delays_seconds": [], "jitter": 0, "retry_on": "all"}


async def test_backstop_sends_held_deliveries_after_a_lost_signal(
    temporal: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> None:
    hurried = settings.model_copy(update={"held_backstop": timedelta(seconds=1)})
    async with running_stack(temporal, hurried, database, receiver) as stack:
        endpoint = await stack.endpoint("/ok")
        await stack.change_endpoint(endpoint_state.pause, endpoint)
        delivery = await stack.deliver(endpoint)
        await stack.until_status(delivery, "held")
        async with stack.database.write() as connection:  # resumed, without waking a workflow
            table = Endpoint.__table__
            await connection.execute(
                update(table).where(table.c.id == endpoint).values(state="enabled")
            )
        await stack.until_status(delivery, "delivered")


@pytest.mark.parametrize(
    "narrowed",
    [{"denied_networks": (ip_network("127.0.0.1/32"),)}, {"allowed_ports": "443"}],
    ids=["network", "port"],
)
async def test_a_worker_never_connects_to_networks_and_ports_that_its_settings_block(
    temporal: WorkflowEnvironment,
    settings: Settings,
    database: Database,
    receiver: Receiver,
    narrowed: dict[str, object],
) -> None:
    narrow = settings.model_copy(update=narrowed)
    async with running_stack(temporal, narrow, database, receiver) as stack:
        delivery = await stack.deliver_until("dead", "/ok", plan=ONCE)
        [attempt] = await stack.attempts(delivery)
    assert attempt.result == "address"
    assert receiver.connections == 0
