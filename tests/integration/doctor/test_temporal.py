"""The doctor on a Temporal that is away, empty, without our things, or without workers."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleSpec,
)
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from hookfast.doctor.finding import Finding
from hookfast.doctor.temporal import _check_schedule
from hookfast.retention import ages, daily
from hookfast.settings import up_file
from hookfast.settings.up_file import UpFile
from hookfast.storage.database.engine import Database
from hookfast.supervisor import home_lock
from hookfast.temporal.connection import register_search_attributes
from tests.e2e.service_process import free_ports
from tests.integration.doctor.conftest import bad, installation, look
from tests.support.waiting import PATIENCE
from worker import running_worker

pytestmark = pytest.mark.anyio


async def _until_known(client: Client, namespace: str) -> Client:
    """A client of a namespace that was just made: the server needs a moment to know it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await Client.connect(
                client.service_client.config.target_host, namespace=namespace
            )
            try:
                await register_search_attributes(found)
                await found.count_workflows()
            except RPCError:
                await asyncio.sleep(0.1)
            else:
                return found


def _first(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.check == "temporal"]


async def test_a_temporal_that_is_away_is_told_with_its_address(tmp_path: Path) -> None:
    found = bad(await look("temporal", installation(tmp_path, None)))
    assert list(found) == ["temporal"]
    assert "no Temporal at 127.0.0.1:" in found["temporal"][1]


async def test_a_temporal_that_nothing_calls_ours_is_not_taken_for_it(
    temporal: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another installation's, on the port that an embedded one would take."""
    monkeypatch.delenv("TEMPORAL_ADDRESS")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    host = temporal.client.service_client.config.target_host
    settings = installation(tmp_path, None, temporal_port=int(host.rpartition(":")[2]))

    found = bad(_first(await look("temporal", settings)))
    assert found["temporal"][0] == "warn"
    assert "TEMPORAL_ADDRESS" in found["temporal"][1]

    monkeypatch.setenv("TEMPORAL_ADDRESS", host)
    assert not bad(_first(await look("temporal", settings)))


async def test_an_embedded_one_that_is_away_is_told_with_the_address_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    taken = UpFile(temporal_address=address, temporal_namespace="default")
    with home_lock.locked(tmp_path), up_file.written(tmp_path, taken):
        found = bad(await look("temporal", installation(tmp_path, None)))
    assert f"no Temporal at {address}" in found["temporal"][1]
    assert "temporal.log" in found["temporal"][1]


@pytest.mark.usefixtures("at_temporal")
async def test_a_namespace_that_is_not_there_is_told_with_the_command_that_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "nobodys")
    found = bad(await look("temporal", installation(tmp_path, None)))
    assert found["temporal.namespace"][0] == "fail"
    assert "namespace create -n nobodys" in found["temporal.namespace"][1]


@pytest.mark.usefixtures("at_temporal")
async def test_before_the_first_worker_it_names_everything_a_worker_makes(
    temporal: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace as an operator makes one."""
    await temporal.client.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace="fresh", workflow_execution_retention_period=Duration(seconds=86_400)
        )
    )
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "fresh")
    settings = installation(tmp_path, None)

    async def found_it() -> dict[str, tuple[str, str]]:
        findings = await look("temporal", settings)
        by_schedule = [one for one in findings if one.check == "temporal.schedules"]
        assert all(one.status == "fail" for one in by_schedule)
        return bad([one for one in findings if one.check != "temporal.schedules"])

    async with asyncio.timeout(PATIENCE):
        while "temporal.workers" not in (found := await found_it()):  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # the server has yet to learn of the namespace

    assert found["temporal.namespace"][0] == "warn"  # a day is shorter than a plan
    assert "--retention" in found["temporal.namespace"][1]
    assert "HookTenant" in found["temporal.search_attributes"][1]
    assert found["temporal.workers"][0] == "fail"

    # and with the attributes registered, that much is well
    await _until_known(temporal.client, "fresh")
    assert "temporal.search_attributes" not in await found_it()


async def test_a_schedule_without_a_next_run_is_told_of(temporal: WorkflowEnvironment) -> None:
    """One that is over, or that the server has not come to yet."""
    action = ScheduleActionStartWorkflow("Nothing", id="nothing", task_queue="nobody")
    spec = ScheduleSpec(
        intervals=[ScheduleIntervalSpec(every=timedelta(hours=1))],
        end_at=datetime(2020, 1, 1, tzinfo=UTC),
    )
    await temporal.client.create_schedule("over", Schedule(action=action, spec=spec))
    found = await _check_schedule(temporal.client, "over")
    assert (found.status, "over has no next run" in found.saw) == ("warn", True)
    assert found.todo is not None
    assert "temporal schedule delete --schedule-id over" in found.todo


@pytest.mark.usefixtures("at_temporal")
async def test_an_installation_that_works_has_nothing_wrong(
    temporal: WorkflowEnvironment, sqlite_url: str, tmp_path: Path
) -> None:
    settings = installation(tmp_path, sqlite_url)

    def wrong(findings: list[Finding]) -> set[str]:
        return {one.check for one in findings if one.status == "fail"}

    async with (
        Database(sqlite_url) as database,
        running_worker(settings, temporal.client, database),
        asyncio.timeout(PATIENCE),
    ):
        while wrong(findings := await look("temporal", settings)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        handle = temporal.client.get_schedule_handle(ages.SCHEDULE_ID)
        await handle.pause()
        paused = bad(await look("temporal", settings))
        await handle.unpause()

    seen = " ".join(one.saw for one in findings)
    assert daily.SCHEDULE_ID in seen
    assert ages.SCHEDULE_ID in seen
    assert "All task queues are polled" in seen
    assert "--unpause" in paused["temporal.schedules"][1]
