"""A whole worker on a real Temporal, with a receiver on loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.deliveries.messages import DeliveryState, workflow_id
from hookfast.settings.settings import Settings
from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, outbox
from hookfast.storage.deliveries.actions import UserAction
from tests.integration.delivery.control import Control
from tests.support.receiver import Receiver
from tests.support.seed import KEY, attempt_rows, delivery_row, seed_delivery, seed_endpoint
from tests.support.temporal_server import temporal_server
from tests.support.waiting import PATIENCE
from worker import running_worker

# The sandbox reloads what is not passed through; our pure modules and pydantic are safe to share.
SANDBOX = SandboxedWorkflowRunner(
    restrictions=SandboxRestrictions.default.with_passthrough_modules(
        "hookfast", "pydantic", "pydantic_core"
    )
)


@pytest.fixture(scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A real dev server, shared by the tests of one process."""
    async with temporal_server() as environment:
        yield environment


@pytest.fixture(scope="session")
async def skipping_temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A real dev server on which days pass in seconds."""
    async with temporal_server(time_skipping=True) as environment:
        yield environment


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
def first_attempts() -> str:
    """How first attempts travel. A module that says more of it overrides this."""
    return os.environ.get("TEST_FIRST_ATTEMPTS", "workflow")


@pytest.fixture
def settings(tmp_path: Path, database_url: str, first_attempts: str) -> Settings:
    return Settings(
        home=tmp_path,
        database_url=database_url,
        encryption_keys=_base64_key(),
        allowed_private_networks=(ip_network("127.0.0.0/8"),),
        allow_http=True,
        allow_unverified=True,
        shutdown_grace=timedelta(seconds=5),
        first_attempts=first_attempts,
        max_concurrent_attempts=48,  # so 16 to one endpoint fit into the fast lane, a third
    )


@dataclass
class Stack:
    """A worker under test, and what a test asks of it."""

    client: Client
    database: Database
    receiver: Receiver

    async def endpoint(self, path: str, **options: Any) -> str:
        return await seed_endpoint(self.database, self.receiver.url(path), **options)

    async def deliver(self, endpoint_id: str, **options: Any) -> str:
        return await seed_delivery(self.database, endpoint_id, **options)

    def workflow(self, delivery_id: str) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(workflow_id(delivery_id))

    async def state(self, delivery_id: str) -> DeliveryState:
        """What the workflow answers when it is asked for its state."""
        state: DeliveryState = await self.workflow(delivery_id).query(
            "state", result_type=DeliveryState
        )
        return state

    async def ask(self, delivery_id: str, action: UserAction) -> None:
        """Do as a person asks, as the API does it."""
        async with self.database.write() as connection:
            await actions.request(connection, delivery_id, action, now=utc_now())
        await self.ring()

    async def request_many(self, delivery_ids: list[str], action: Action) -> None:
        """Do with them as a job or a circuit does."""
        async with self.database.write() as connection:
            await actions.request_many(connection, delivery_ids, action, now=utc_now())
        await self.ring()

    async def wake(self, delivery_id: str) -> None:
        """Have the workflow look at its row."""
        async with self.database.write() as connection:
            await outbox.wake(connection, [delivery_id])
        await self.ring()

    async def ring(self) -> None:
        doorbell = doorbell_for(self.database)
        doorbell.ring()
        await asyncio.sleep(0)  # PostgreSQL's rings in a task
        await doorbell.close()

    async def row(self, delivery_id: str) -> Any:
        return await delivery_row(self.database, delivery_id)

    async def attempts(self, delivery_id: str) -> list[Any]:
        return await attempt_rows(self.database, delivery_id)

    async def until_status(self, delivery_id: str, *statuses: str) -> Any:
        """The delivery's row, once it has one of these statuses."""

        async def reached() -> Any:
            row = await self.row(delivery_id)
            return row if row.status in statuses else None

        return await eventually(reached)

    async def until_relayed(self, delivery_id: str) -> None:
        """The relay has started the delivery's workflow, and told it of every change."""

        async def told() -> bool:
            return (await self.row(delivery_id)).started_at is not None

        await eventually(told)

    async def last_state(self, delivery_id: str) -> DeliveryState:
        """What the workflow answers once it has started and ended. It needs to have ended by
        itself: one that is terminated in its first task has no answer."""
        await self.until_closed(delivery_id)
        return await self.state(delivery_id)

    async def until_closed(self, delivery_id: str) -> None:
        """Wait until the workflow has started and ended."""
        handle = self.workflow(delivery_id)

        async def started() -> bool:
            with contextlib.suppress(RPCError):
                await handle.describe()
                return True
            return False

        await eventually(started)
        with contextlib.suppress(WorkflowFailureError):  # dead, gone, cancelled
            await handle.result()


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """The first truthy answer of `check`."""
    async with asyncio.timeout(PATIENCE):
        while not (answer := await check()):  # noqa: ASYNC110 - the other side is a database
            await asyncio.sleep(0.02)
        return answer


@asynccontextmanager
async def running_stack(
    environment: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> AsyncIterator[Stack]:
    async with running_worker(settings, environment.client, database, workflow_runner=SANDBOX):
        yield Stack(environment.client, database, receiver)


@pytest.fixture
async def stack(
    temporal: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> AsyncIterator[Stack]:
    """A running worker on real time."""
    async with running_stack(temporal, settings, database, receiver) as stack:
        yield stack


@pytest.fixture
async def skipping_stack(
    skipping_temporal: WorkflowEnvironment,
    settings: Settings,
    database: Database,
    receiver: Receiver,
) -> AsyncIterator[Stack]:
    """A running worker on skipped time."""
    async with running_stack(skipping_temporal, settings, database, receiver) as stack:
        yield stack


@pytest.fixture
def control(stack: Stack, settings: Settings) -> Control:
    """What people do to endpoints, as the API does it."""
    return Control(stack.client, stack.database, settings)


def _base64_key() -> str:
    return base64.b64encode(KEY).decode()
