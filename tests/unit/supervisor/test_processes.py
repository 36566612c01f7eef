"""Parts that are restarted when they end, and stopped in order."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hookfast.supervisor.processes import Part, Running, Supervisor, run_once, spawn
from tests.e2e.service_process import lives
from tests.support.waiting import PATIENCE, within

pytestmark = pytest.mark.anyio

# Touches a file when it runs; after SIGTERM, touches another and waits until the others have too.
_TOGETHER = """
import pathlib, signal, sys, time
folder, name, others = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3].split()
signalled = []
signal.signal(signal.SIGTERM, lambda *_: signalled.append(1))
(folder / f"{name}.runs").touch()
while not signalled: time.sleep(0.02)
(folder / f"{name}.signalled").touch()
while not all((folder / f"{one}.signalled").exists() for one in others): time.sleep(0.02)
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _part(folder: Path, name: str, *, others: str = "") -> Part:
    return Part(
        name=name,
        command=(sys.executable, "-c", _TOGETHER, str(folder), name, others),
        environment=os.environ,
        grace=30,
    )


async def test_parts_started_together_are_stopped_together(tmp_path: Path) -> None:
    async def run() -> None:
        async with Supervisor(asyncio.Event()) as supervisor:
            supervisor.start(_part(tmp_path, "first"))
            supervisor.start(
                _part(tmp_path, "one", others="two"), _part(tmp_path, "two", others="one")
            )
            await _until(lambda: len(list(tmp_path.glob("*.runs"))) == 3)
        assert supervisor.exits("two") == 0

    await within(PATIENCE, run())
    assert _stopped_at(tmp_path, "first") > _stopped_at(tmp_path, "one"), (
        "the first is stopped last"
    )


@pytest.mark.parametrize("code", [0, 3])
async def test_run_once_returns_the_exit_code(code: int) -> None:
    command = (sys.executable, "-c", f"raise SystemExit({code})")
    part = Part(name="once", command=command, environment=os.environ, grace=0)
    assert await within(PATIENCE, run_once(part)) == code


async def test_run_once_kills_the_process_when_cancelled(tmp_path: Path) -> None:
    spawned: list[Running] = []

    async def noted_spawn(part: Part) -> Running:
        spawned.append(await spawn(part))
        return spawned[0]

    started = tmp_path / "pid"
    script = f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    part = Part(
        name="once",
        command=(sys.executable, "-c", script),
        environment=os.environ,
        grace=0,
        spawn=noted_spawn,
    )
    task = asyncio.create_task(run_once(part))

    await within(PATIENCE, _until(lambda: started.exists() and bool(started.read_text())))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await within(PATIENCE, _until(lambda: not lives(int(started.read_text()))))
    # also for this loop, which would otherwise be closed before it closes the process's pipe
    await within(PATIENCE, spawned[0].wait())


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.02)


def _stopped_at(folder: Path, name: str) -> int:
    """Return the time at which this part got SIGTERM."""
    return (folder / f"{name}.signalled").stat().st_mtime_ns
