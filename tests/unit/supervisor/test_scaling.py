"""Further workers of `up`, started and stopped beside the first ones."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Literal

import psutil
import pytest

from hookfast.supervisor import scaling
from hookfast.supervisor.autoscaler import Autoscaler, Load
from hookfast.supervisor.processes import Part, Supervisor
from tests.support.waiting import PATIENCE, within

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere up does not read any load"),
]


class _Told(Autoscaler):
    """Takes the step that the test wants, and keeps the loads."""

    def __init__(self) -> None:
        super().__init__(least=1, most=2)
        self.step: Literal["start", "stop"] | None = None
        self.loads: list[Load] = []

    def next(self, load: Load) -> Literal["start", "stop"] | None:
        self.loads.append(load)
        step, self.step = self.step, None
        return step


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _sleeper(number: int) -> Part:
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    return Part(name=f"sleeper {number}", command=command, environment=os.environ, grace=30)


async def test_further_worker_is_started_stopped_and_ends_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scaling, "_SAMPLE_SECONDS", 0.05)
    told = _Told()
    async with Supervisor(asyncio.Event()) as supervisor:
        workers = supervisor.start(_sleeper(0))
        run = scaling.scale(supervisor, told, apis=(), workers=workers, worker=_sleeper)
        task = asyncio.create_task(run)

        seen = []
        for step, count in (("start", 2), ("stop", 1), ("start", 2)):
            told.step = step  # type: ignore[assignment] # a literal
            await within(PATIENCE, _until_seen(told, count))
            seen.append([one.part.name for one in workers])
            living = [await within(PATIENCE, _process_of(supervisor, at)) for at in range(count)]

        task.cancel()
    assert seen == [["sleeper 0", "sleeper 1"], ["sleeper 0"], ["sleeper 0", "sleeper 1"]]
    assert not [one for one in living if one.is_running()]


async def _until_seen(told: _Told, workers: int) -> None:
    while not told.loads or len(told.loads[-1].workers) != workers:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def _process_of(supervisor: Supervisor, at: int) -> psutil.Process:
    while len(supervisor.pids()) <= at:  # noqa: ASYNC110 - it is being started
        await asyncio.sleep(0.02)
    return psutil.Process(supervisor.pids()[at])
