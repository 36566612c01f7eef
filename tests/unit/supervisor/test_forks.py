"""Forks that run a command as a process of its own would."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from hookfast.supervisor.forks import Fork, ForkServer, can_fork
from hookfast.supervisor.processes import Part, Running
from tests.support.waiting import PATIENCE, within

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, parts are not forked"),
]

# without the imports of the API and the worker, which take seconds
_SERVER = (
    *(sys.executable, "-P", "-c"),
    "from hookfast.cli import fork_server; fork_server.import_parts = int; fork_server.main()",
)
# Writes what it is started with to its standard output; waits for SIGTERM if it is told to.
_PROGRAM = """
import json, os, signal, sys, time
print(json.dumps({
    "name": __name__,
    "words": sys.argv,
    "added": os.environ.get("ADDED"),
    "inherited": os.environ["INHERITED"],
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/dev/fd/{fd}")),
    "session": os.getsid(0) == os.getpid(),
}), flush=True)
if "wait" in sys.argv:
    signal.pause()
sys.exit(3)
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def part(tmp_path: Path) -> Part:
    """A part that writes to `out` in the folder, and inherits a file descriptor of a file."""
    (tmp_path / "program.py").write_text(_PROGRAM)
    inherited = os.open(tmp_path / "program.py", os.O_RDONLY)
    out = os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "INHERITED": "1"}
    return Part(
        name="one",
        command=(sys.executable, "-P", "-m", "program", "a word"),
        environment=environment,
        grace=0,
        output=out,
        fds=(inherited,),
    )


@pytest.fixture
async def forks(part: Part) -> AsyncIterator[ForkServer]:
    assert can_fork()
    async with ForkServer(_SERVER, part.environment, fds=(*part.fds, part.output)) as server:
        yield server


def _written(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "out").read_text())
    return found


async def _until_written(folder: Path) -> None:
    while not (folder / "out").read_text():  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.02)


async def test_fork_runs_the_command_with_its_words_environment_and_files(
    forks: ForkServer, part: Part, tmp_path: Path
) -> None:
    added = replace(part, environment={**part.environment, "ADDED": "2"})

    process = await within(PATIENCE, forks.spawn(added))

    assert isinstance(process, Fork)
    assert await within(PATIENCE, process.wait()) == 3
    assert _written(tmp_path) == {
        "name": "__main__",
        "words": [str(tmp_path / "program.py"), "a word"],
        "added": "2",
        "inherited": "1",
        "fds": [0, 1, 2, *part.fds],
        "session": True,
    }
    with pytest.raises(ProcessLookupError):
        process.send_signal(signal.SIGTERM)


async def test_fork_is_a_child_of_ours_by_the_name_of_its_command_and_gets_signals(
    forks: ForkServer, part: Part, tmp_path: Path
) -> None:
    waiting = replace(part, command=(*part.command, "wait"))

    process = await within(PATIENCE, forks.spawn(waiting))

    await within(PATIENCE, _until_written(tmp_path))
    seen = psutil.Process(process.pid)
    assert (seen.ppid(), " ".join(seen.cmdline())) == (os.getpid(), " ".join(waiting.command))
    await forks.close()
    assert seen.is_running()
    process.send_signal(signal.SIGTERM)
    assert await within(PATIENCE, process.wait()) == -signal.SIGTERM


@pytest.mark.parametrize("how", ["closed", "killed"])
async def test_part_starts_as_a_process_of_its_own_once_the_fork_server_has_ended(
    forks: ForkServer, part: Part, tmp_path: Path, how: str
) -> None:
    if how == "closed":
        await forks.close()
    else:
        forks._process.kill()

    process: Running = await within(PATIENCE, forks.spawn(part))

    assert not isinstance(process, Fork)
    assert await within(PATIENCE, process.wait()) == 3
    assert _written(tmp_path)["words"] == [str(tmp_path / "program.py"), "a word"]


async def test_fork_that_ends_before_its_command_is_an_error_and_not_waited_for(
    part: Part,
) -> None:
    killed = "import os; fork_server.kill_with_parent = lambda _: os.kill(os.getpid(), 9)"
    command = (
        *_SERVER[:-1],
        _SERVER[-1].replace("fork_server.main", f"{killed}; fork_server.main"),
    )
    async with ForkServer(command, part.environment, fds=(*part.fds, part.output)) as forks:
        for _ in range(2):
            with pytest.raises(OSError, match="ended before"):
                await within(PATIENCE, forks.spawn(part))


@pytest.mark.parametrize("answered", [False, True])
async def test_end_of_the_supervisor_is_no_error_of_an_order_that_it_gave_up(
    forks: ForkServer, part: Part, capfd: pytest.CaptureFixture[str], answered: bool
) -> None:
    given_up = asyncio.create_task(forks.spawn(part))
    await asyncio.sleep(0)  # the order is sent
    given_up.cancel()
    if answered:
        while not select.select([forks._control], [], [], 0)[0]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    forks._control.close()

    assert await within(PATIENCE, forks._process.wait()) == 0
    assert capfd.readouterr().err == ""


_LEFT_BY_IMPORTS = """
import gc, random
from hookfast.cli.fork_server import import_parts
import_parts()
print([one for one in gc.get_objects() if type(one) is random.Random and one is not random._inst])
"""


def test_imports_start_no_thread_and_leave_no_random_numbers_that_forks_would_share() -> None:
    # `random` itself is seeded again in each fork; threads are an error of `import_parts`
    command = (sys.executable, "-c", _LEFT_BY_IMPORTS)
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "[]\n"
