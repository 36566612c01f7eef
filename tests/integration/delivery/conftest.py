"""A whole worker on a real Temporal, with a receiver on loopback."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sqlalchemy import select
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from hookfast.clock import utc_now
from hookfast.deliveries.actions import UserAction
from hookfast.deliveries.facts import Action
from hookfast.deliveries.messages import DeliveryState, workflow_id
from hookfast.dispatch.workflow_starter import WorkflowStarter, workflow_starter_for
from hookfast.settings.settings import Settings
from hookfast.storage.database.doorbell import Doorbell, doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions, outbox
from hookfast.storage.tables import Delivery
from tests.integration.delivery.control import Control
from tests.support.receiver import Receiver
from tests.support.seed import (
    KEY,
    attempt_rows,
    delivery_row,
    seed_deliveries,
    seed_delivery,
    seed_endpoint,
)
from tests.support.temporal_server import temporal_server
from tests.support.waiting import PATIENCE, eventually
from worker import running_worker


class _Sandbox(SandboxedWorkflowRunner):
    """A sandbox that validates each workflow once in a process, and not for every worker."""

    _validated: ClassVar[set[type]] = set()

    def prepare_workflow(self, defn: Any) -> None:
        if defn.cls not in self._validated:
            super().prepare_workflow(defn)
            self._validated.add(defn.cls)


# The sandbox reloads every other module; our pure modules and pydantic are safe to share.
SANDBOX = _Sandbox(
    restrictions=SandboxRestrictions.default.with_passthrough_modules(
        "hookfast", "pydantic", "pydantic_core"
    )
)


@pytest.fixture(scope="session")
async def skipping_temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A Temporal dev server that skips time: days pass in seconds."""
    async with temporal_server(time_skipping=True) as environment:
        yield environment


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
def first_attempts() -> str:
    """Whether first attempts run in workflows or batches; modules override this fixture."""
    return os.environ.get("TEST_FIRST_ATTEMPTS", "workflow")


@pytest.fixture
def settings(tmp_path: Path, database_url: str, first_attempts: str) -> Settings:
    return settings_for(tmp_path, database_url, first_attempts)


def settings_for(home: Path, database_url: str, first_attempts: str) -> Settings:
    """Settings of a worker that sends to receivers on loopback."""
    return Settings(
        home=home,
        database_url=database_url,
        encryption_keys=_base64_key(),
        allowed_private_networks=(ip_network("127.0.0.0/8"),),
        allow_http=True,
        allow_unverified=True,
        shutdown_grace=timedelta(seconds=5),
        first_attempts=first_attempts,
        max_concurrent_attempts=48,  # a third of it, 16, is one endpoint's share of the fast lane
    )


@dataclass
class Stack:
    """A worker under test, with the methods that tests use to act and to wait."""

    client: Client
    database: Database
    receiver: Receiver
    doorbell: Doorbell
    workflow_starter: WorkflowStarter

    async def endpoint(self, path: str, **options: Any) -> str:
        return await seed_endpoint(self.database, self.receiver.url(path), **options)

    async def deliver(self, endpoint_id: str, **options: Any) -> str:
        """Store a delivery and tell the relay, as the API does; return its id."""
        delivery_id = await seed_delivery(self.database, endpoint_id, **options)
        self.doorbell.ring()
        return delivery_id

    async def deliver_until(self, status: str, path: str, **options: Any) -> str:
        """Store a delivery to a new endpoint, wait for this status, and return its id."""
        delivery = await self.deliver(await self.endpoint(path, **options))
        await self.until_status(delivery, status)
        return delivery

    async def signal(self, delivery_id: str, name: str, *, until: str) -> Any:
        """Signal the delivery's workflow, wait for this status, and return the row."""
        await self.workflow(delivery_id).signal(name)
        return await self.until_status(delivery_id, until)

    async def deliver_together(self, endpoint_id: str, count: int = 1, **options: Any) -> list[str]:
        """Store deliveries of one event and tell the relay, as the API does; return their ids,
        oldest first."""
        ids = await seed_deliveries(self.database, endpoint_id, count, **options)
        self.doorbell.ring()
        return ids

    async def change_endpoint(self, change: Any, endpoint_id: str, **options: Any) -> None:
        """Change the endpoint's row and start or wake its circuit's workflow, as the API does."""
        async with self.database.write() as connection:
            assert await change(connection, endpoint_id, now=utc_now(), **options)
        await self.workflow_starter.start_requested()

    def workflow(self, delivery_id: str) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(workflow_id(delivery_id))

    async def state(self, delivery_id: str) -> DeliveryState:
        """Query the workflow for the delivery's state."""
        state: DeliveryState = await self.workflow(delivery_id).query(
            "state", result_type=DeliveryState
        )
        return state

    async def request(self, delivery_id: str, action: UserAction) -> None:
        """Request an action, as the API does for a person."""
        async with self.database.write() as connection:
            await actions.request(connection, delivery_id, action, now=utc_now())
        self.doorbell.ring()

    async def request_many(self, delivery_ids: list[str], action: Action) -> None:
        """Request an action for many deliveries, as jobs and circuits do."""
        async with self.database.write() as connection:
            await actions.request_many(connection, delivery_ids, action, now=utc_now())
        self.doorbell.ring()

    async def wake(self, delivery_id: str) -> None:
        """Wake the workflow through its row, so that it reads the row."""
        async with self.database.write() as connection:
            await outbox.wake(connection, [delivery_id])
        self.doorbell.ring()

    async def row(self, delivery_id: str) -> Any:
        return await delivery_row(self.database, delivery_id)

    async def attempts(self, delivery_id: str) -> list[Any]:
        return await attempt_rows(self.database, delivery_id)

    async def until(self, delivery_id: str, reached: Callable[[Any], bool]) -> Any:
        """Wait until `reached` is true of the delivery's row, and return the row."""

        async def matching_row() -> Any:
            row = await self.row(delivery_id)
            return row if reached(row) else None

        return await eventually(matching_row)

    async def until_status(self, delivery_id: str, *statuses: str) -> Any:
        """Wait until the delivery has one of these statuses, and return its row."""
        return await self.until(delivery_id, lambda row: row.status in statuses)

    async def until_attempts(self, delivery_id: str, count: int) -> Any:
        """Wait until this number of attempts is recorded, and return the delivery's row."""
        return await self.until(delivery_id, lambda row: row.attempts == count)

    async def until_all(
        self, delivery_ids: Iterable[str], *statuses: str, timeout: float = PATIENCE
    ) -> None:
        """Wait until each of these deliveries has one of these statuses."""
        missing = set(delivery_ids)
        table = Delivery.__table__
        reached = select(table.c.id).where(table.c.status.in_(statuses))

        async def all_reached() -> bool:
            async with self.database.read() as connection:
                missing.difference_update((await connection.execute(reached)).scalars())
            return not missing

        await eventually(all_reached, timeout=timeout)

    async def until_relayed(self, delivery_id: str) -> None:
        """Wait until the relay has started the workflow or woken it for the last change."""
        await self.until(delivery_id, lambda row: row.started_at is not None)

    async def final_state(self, delivery_id: str) -> DeliveryState:
        """Wait until the workflow has ended, and query its state. A workflow that was terminated
        in its first task cannot answer."""
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


@asynccontextmanager
async def idle_stack(
    client: Client, settings: Settings, database: Database, receiver: Receiver
) -> AsyncIterator[Stack]:
    """What tests act with, without a worker."""
    doorbell = doorbell_for(database)
    try:
        starter = workflow_starter_for(settings, client, database)
        yield Stack(client, database, receiver, doorbell, starter)
    finally:
        await doorbell.close()


@asynccontextmanager
async def running_stack(
    environment: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> AsyncIterator[Stack]:
    async with (
        running_worker(settings, environment.client, database, workflow_runner=SANDBOX),
        idle_stack(environment.client, settings, database, receiver) as stack,
    ):
        yield stack


@pytest.fixture
async def stack(
    temporal: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> AsyncIterator[Stack]:
    """A running worker, in real time."""
    async with running_stack(temporal, settings, database, receiver) as stack:
        yield stack


@pytest.fixture
async def skipping_stack(
    skipping_temporal: WorkflowEnvironment,
    settings: Settings,
    database: Database,
    receiver: Receiver,
) -> AsyncIterator[Stack]:
    """A running worker, in skipped time."""
    async with running_stack(skipping_temporal, settings, database, receiver) as stack:
        yield stack


@pytest.fixture
def control(stack: Stack) -> Control:
    """The endpoint actions of people, carried out as the API does."""
    return Control(stack)


def _base64_key() -> str:
    return base64.b64encode(KEY).decode()
