"""The doctor on a Temporal that is unreachable, empty, not set up, or without workers."""

from __future__ import annotations

import asyncio
import os
import socket
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
from hookfast.doctor.pollers import _read_heartbeats, _read_polls, find_stale
from hookfast.doctor.temporal import _check_schedule
from hookfast.process import name_of
from hookfast.retention import ages, daily
from hookfast.settings import up_file
from hookfast.settings.up_file import UpFile
from hookfast.storage.database.engine import Database
from hookfast.storage.figures.workers import Heartbeat
from hookfast.supervisor import home_lock
from hookfast.temporal.connection import register_search_attributes
from tests.e2e.service_process import free_ports
from tests.integration.doctor.conftest import NOW, beat, installation, problems, run_check
from tests.support.waiting import PATIENCE
from worker import running_worker

pytestmark = pytest.mark.anyio


async def _until_known(client: Client, namespace: str) -> Client:
    """A client of a namespace that was just created: the server needs a moment to know it."""
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


async def test_unreachable_temporal_is_reported_with_its_address(tmp_path: Path) -> None:
    found = problems(await run_check("temporal", installation(tmp_path, None)))
    assert list(found) == ["temporal"]
    assert "no Temporal at 127.0.0.1:" in found["temporal"][1]


async def test_temporal_at_the_default_address_is_a_warning(
    temporal: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may belong to another installation, on the port that an embedded one would use."""
    monkeypatch.delenv("TEMPORAL_ADDRESS")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    host = temporal.client.service_client.config.target_host
    settings = installation(tmp_path, None, temporal_port=int(host.rpartition(":")[2]))

    found = problems(_first(await run_check("temporal", settings)))
    assert found["temporal"][0] == "warn"
    assert "TEMPORAL_ADDRESS" in found["temporal"][1]

    monkeypatch.setenv("TEMPORAL_ADDRESS", host)
    assert not problems(_first(await run_check("temporal", settings)))


async def test_unreachable_embedded_temporal_is_reported_with_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    taken = UpFile(temporal_address=address, temporal_namespace="default")
    with home_lock.locked(tmp_path), up_file.written(tmp_path, taken):
        found = problems(await run_check("temporal", installation(tmp_path, None)))
    assert f"no Temporal at {address}" in found["temporal"][1]
    assert "temporal.log" in found["temporal"][1]


@pytest.mark.usefixtures("at_temporal")
async def test_missing_namespace_is_reported_with_the_command_that_creates_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "nobodys")
    found = problems(await run_check("temporal", installation(tmp_path, None)))
    assert found["temporal.namespace"][0] == "fail"
    assert "namespace create -n nobodys" in found["temporal.namespace"][1]


@pytest.mark.usefixtures("at_temporal")
async def test_everything_that_a_worker_creates_is_reported_before_the_first_worker(
    temporal: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The namespace is created as an operator would."""
    await temporal.client.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace="fresh", workflow_execution_retention_period=Duration(seconds=86_400)
        )
    )
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "fresh")
    settings = installation(tmp_path, None)

    async def found_it() -> dict[str, tuple[str, str]]:
        findings = await run_check("temporal", settings)
        by_schedule = [one for one in findings if one.check == "temporal.schedules"]
        assert all(one.status == "fail" for one in by_schedule)
        return problems([one for one in findings if one.check != "temporal.schedules"])

    async with asyncio.timeout(PATIENCE):
        while "temporal.workers" not in (found := await found_it()):  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # the server does not know the namespace yet

    assert found["temporal.namespace"][0] == "warn"  # a day is shorter than a retry plan
    assert "--retention 4d" in found["temporal.namespace"][1]
    assert "HookTenant" in found["temporal.search_attributes"][1]
    assert found["temporal.workers"][0] == "fail"

    # once the attributes are registered, that check is ok
    await _until_known(temporal.client, "fresh")
    assert "temporal.search_attributes" not in await found_it()


async def test_schedule_without_a_next_run_is_a_warning(temporal: WorkflowEnvironment) -> None:
    """The schedule has ended, or the server has not processed it yet."""
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
async def test_working_temporal_has_no_problems(
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
        while wrong(findings := await run_check("temporal", settings)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        polls = await _read_polls(temporal.client)
        # a worker's first heartbeat may come after its first poll
        while not (heartbeats := await _read_heartbeats(settings)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        handle = temporal.client.get_schedule_handle(ages.SCHEDULE_ID)
        await handle.pause()
        paused = problems(await run_check("temporal", settings))
        await handle.unpause()

    seen = " ".join(one.saw for one in findings)
    assert daily.SCHEDULE_ID in seen
    assert ages.SCHEDULE_ID in seen
    assert "All task queues are polled" in seen
    assert "--unpause" in paused["temporal.schedules"][1]
    # the name by which a poller is found among the heartbeats
    name = f"{os.getpid()}@{socket.gethostname()}"
    assert [name_of(one.worker_id) for one in heartbeats] == [name]
    assert all(name in of_queue for of_queue in polls.values())


@pytest.mark.parametrize(
    ("beat", "polled", "words"),
    [
        (beat("a"), 1.0, None),
        (beat("a"), 3.0, "7@a is alive and has not polled deliveries since 11:57:00 UTC"),
        (beat("a"), None, "7@a is alive and has not polled deliveries for five minutes"),
        (beat("a", started=1), None, None),  # it may not have polled yet
        (beat("a", seen=1), 3.0, None),  # it is dead, which the check `workers` says
        (beat("no-name"), 1.0, None),
    ],
)
def test_only_a_worker_with_a_heartbeat_is_stale(
    beat: Heartbeat, polled: float | None, words: str | None
) -> None:
    """Workers that have left are listed by Temporal for five minutes, and have no heartbeat."""
    of_queue = {"7@other": NOW, "7@left": NOW - timedelta(minutes=4), "7@no-name": NOW}
    if polled is not None:
        of_queue["7@a"] = NOW - timedelta(minutes=polled)
    found = find_stale({"deliveries": of_queue}, [beat], now=NOW)
    assert found == ([] if words is None else [words])
