"""An API with a faulty proxy in front of it, and a worker that emits."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from hookfast_client import AsyncHookfast
from hookfast_client.temporal import HookfastPlugin
from tests.integration.client_temporal.emitting_workflow import TYPE, EmittingWorkflow, Plan
from tests.support.api_client import OPERATOR_KEY, development_settings
from tests.support.api_server import api_server
from tests.support.faulty_proxy import FaultyProxy

TASK_QUEUE = "emitting"


@dataclass
class Stack:
    """Clients of Temporal and of Hookfast, and the proxy between the worker and Hookfast."""

    client: Client
    hookfast: AsyncHookfast
    proxy: FaultyProxy
    tenant_id: str
    workflow_id: str = field(default_factory=lambda: f"invoice/{uuid.uuid4()}")

    def plan(self, **members: Any) -> Plan:
        return Plan(tenant_id=self.tenant_id, **members)

    async def start(self, plan: Plan, **options: Any) -> WorkflowHandle[Any, Any]:
        """Start the workflow with the id of this test."""
        handle: WorkflowHandle[Any, Any] = await self.client.start_workflow(
            EmittingWorkflow.run,
            plan,
            id=self.workflow_id,
            task_queue=TASK_QUEUE,
            **options,
        )
        return handle

    async def run(self, plan: Plan, **options: Any) -> Any:
        """Run the workflow and return its result."""
        return await (await self.start(plan, **options)).result()

    async def events(self) -> list[str]:
        """Return the ids of all events, oldest first."""
        listed = self.hookfast.events.list(tenant_id=self.tenant_id)
        return [event["id"] async for event in listed][::-1]

    def keys(self) -> list[str]:
        """Return the idempotency key of each emit that reached the proxy."""
        emits = (one for one in self.proxy.requests if one.path == "/v1/events")
        return [one.headers["idempotency-key"] for one in emits if one.method == "POST"]


@pytest.fixture
async def idle_stack(
    temporal: WorkflowEnvironment, sqlite_url: str, tmp_path: Path
) -> AsyncIterator[Stack]:
    """The stack without a worker."""
    async with (
        api_server(development_settings(sqlite_url, tmp_path)) as api,
        FaultyProxy(api.url) as proxy,
        AsyncHookfast(proxy.url, OPERATOR_KEY) as hookfast,
    ):
        await hookfast.event_types.put(TYPE)
        tenant = await hookfast.tenants.create(name="Acme")
        # as users connect: the environment's client has a data converter of our own
        client = Client(temporal.client.service_client)
        yield Stack(client, hookfast, proxy, tenant["id"])


@pytest.fixture
async def stack(idle_stack: Stack) -> AsyncIterator[Stack]:
    """The stack with a worker."""
    plugin = HookfastPlugin(idle_stack.hookfast)
    worker = Worker(
        idle_stack.client,
        task_queue=TASK_QUEUE,
        workflows=[EmittingWorkflow],
        plugins=[plugin],
        graceful_shutdown_timeout=timedelta(0),
    )
    async with worker:
        yield idle_stack


ONE_RETRY = RetryPolicy(initial_interval=timedelta(seconds=0.05), maximum_attempts=2)
