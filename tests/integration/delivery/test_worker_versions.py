"""Workers that register with a deployment: workflows move to the version that is current."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from hookfast.clock import utc_now
from hookfast.doctor.worker_versions import check_worker_versions
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.temporal.payloads import DATA_CONVERTER
from hookfast.temporal.versioning import BUILD, DEPLOYMENT, deployment_of
from tests.integration.delivery.conftest import SANDBOX, Stack, idle_stack
from tests.integration.delivery.plans import PATIENT
from tests.support.receiver import Receiver
from tests.support.temporal_server import temporal_server
from tests.support.waiting import PATIENCE, eventually
from worker import running_worker

pytestmark = [pytest.mark.anyio, pytest.mark.temporal]

NAME = "hookfast/worker"  # the Kubernetes controller's names have this form


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One kind of database: versions are Temporal's."""
    return sqlite_url


@pytest.fixture
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A dev server of its own: versions belong to task queues."""
    async with temporal_server() as environment:
        yield environment


@asynccontextmanager
async def worker_of(
    build: str, client: Client, settings: Settings, database: Database
) -> AsyncIterator[None]:
    deployment = deployment_of({DEPLOYMENT: NAME, BUILD: build})
    async with running_worker(
        settings, client, database, workflow_runner=SANDBOX, deployment=deployment
    ):
        yield


async def make_current(client: Client, build: str) -> None:
    """Make this version the current one, as soon as its workers have registered it. Temporal tells
    each partition of each task queue a moment later, and has no reliable answer to whether it
    has."""

    async def made() -> bool:
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace=client.namespace, deployment_name=NAME, build_id=build
        )
        try:
            await client.workflow_service.set_worker_deployment_current_version(request)
        except RPCError:
            return False
        return True

    await eventually(made)


async def builds_of(stack: Stack, delivery: str) -> list[str]:
    """The versions that completed the workflow's tasks, one after the other."""
    history = await stack.workflow(delivery).fetch_history()
    return [
        event.workflow_task_completed_event_attributes.deployment_version.build_id
        for event in history.events
        if event.HasField("workflow_task_completed_event_attributes")
    ]


async def until_moved(stack: Stack, delivery: str, build: str) -> None:
    """Give the workflow tasks until this version completes one."""

    async def moved() -> bool:
        await stack.workflow(delivery).signal("pause")
        await stack.workflow(delivery).signal("resume")
        return (await builds_of(stack, delivery))[-1] == build

    await eventually(moved)


async def problems(client: Client) -> list[tuple[str, str]]:
    found = check_worker_versions(client, utc_now)
    return [(one.status, one.saw) async for one in found]


async def test_retries_stand_still_until_a_version_is_current(
    temporal: WorkflowEnvironment, settings: Settings, database: Database, receiver: Receiver
) -> None:
    client = temporal.client
    async with (
        asyncio.timeout(PATIENCE),
        worker_of("1", client, settings, database),
        idle_stack(client, settings, database, receiver) as stack,
    ):
        # its first task needs no routing, because the worker that started it runs it
        delivery = await stack.deliver_until("retrying", "/fail-first/1", plan=PATIENT)

        async def polls() -> bool:
            return bool(await problems(client))

        await eventually(polls)
        [(status, saw)] = await problems(client)
        assert status == "fail"
        assert "all workers belong to version 1 of deployment hookfast/worker" in saw

        await make_current(client, "1")
        await stack.workflow(delivery).signal("resend")
        await stack.until_status(delivery, "delivered")
        assert (await problems(client))[0][0] == "ok"
    assert set(await builds_of(stack, delivery)) == {"1"}


@pytest.mark.slow
async def test_workflows_move_to_the_current_version_and_back(
    temporal: WorkflowEnvironment,
    settings: Settings,
    database_url: str,
    database: Database,
    receiver: Receiver,
) -> None:
    client = temporal.client
    other = await temporal.connect_client(data_converter=DATA_CONVERTER)
    async with (
        asyncio.timeout(PATIENCE),
        Database(database_url) as second,
        worker_of("1", client, settings, database),
        idle_stack(client, settings, database, receiver) as stack,
    ):
        await make_current(client, "1")
        delivery = await stack.deliver_until("retrying", "/fail-first/2", plan=PATIENT)
        async with worker_of("2", other, settings, second):
            await make_current(client, "2")
            await until_moved(stack, delivery, "2")
            await stack.workflow(delivery).signal("resend")
            await stack.until_attempts(delivery, 2)
            await make_current(client, "1")
            await until_moved(stack, delivery, "1")
        await stack.workflow(delivery).signal("resend")
        await stack.until_status(delivery, "delivered")
        await stack.until_closed(delivery)
        builds = await builds_of(stack, delivery)
    assert builds[0] == builds[-1] == "1"
    assert "2" in builds
