"""CPU per test, module and fixture: `make test COSTS=1`.

Each process of the run measures its phases, and writes them to a file when it ends. This module as
a command runs pytest, adds the files up, and compares them with what the system charged for the
whole run. The rest belongs to processes that no test waits for, such as PostgreSQL servers.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import pytest

FOLDER = "HOOKFAST_COSTS"
"""The environment variable with the folder to which each process writes its costs."""
_LIST = Path("var/costs.tsv")
_SHOWN = 25
_PR_SET_CHILD_SUBREAPER = 36


def _cpu(*whose: int) -> float:
    """Return the CPU seconds of this process, of the children that have ended, or of both."""
    used = map(getrusage, whose or (RUSAGE_SELF, RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


class Costs:
    """A pytest plugin that measures the CPU and wall seconds of every test.

    A test pays for its own fixtures. The set-up and teardown of a wider fixture are charged to that
    fixture, as are its children, such as a Temporal server, when they end.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cpu: Counter[str] = Counter()
        self._wall: Counter[str] = Counter()
        self._nested = [0.0]  # CPU of wider fixtures within each open measurement
        self._teardowns: dict[int, float] = {}  # CPU at the begin of each fixture's teardown

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began = time.perf_counter()
        with self._measured(f"test {item.nodeid}"):
            result = yield
        self._wall[f"test {item.nodeid}"] += time.perf_counter() - began
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[object]:
        if fixturedef.scope == "function":
            return (yield)
        with self._measured(_name(fixturedef)):
            result = yield
        # finalizers run in reverse order: this one right before the fixture's own
        fixturedef.addfinalizer(lambda: self._teardowns.update({id(fixturedef): _cpu()}))
        return result

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        if (began := self._teardowns.pop(id(fixturedef), None)) is not None:
            self._charge(_name(fixturedef), _cpu() - began)

    def pytest_collection_finish(self) -> None:
        self._cpu["rest imports and collection"] = _cpu()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self._cpu["rest pytest itself"] = _cpu() - self._cpu.total()
        if "PYTEST_XDIST_WORKER_COUNT" not in os.environ and not self._wall:
            # a controller: its children are the workers, which write files of their own
            self._cpu.clear()
            self._cpu["rest controller"] = _cpu(RUSAGE_SELF)
        text = json.dumps({"cpu": self._cpu, "wall": self._wall})
        (self._folder / f"{os.getpid()}.json").write_text(text)

    @contextmanager
    def _measured(self, name: str) -> Iterator[None]:
        """Charge the CPU used inside to `name`, without that of fixtures charged meanwhile."""
        began = _cpu()
        self._nested.append(0.0)
        yield
        used = _cpu() - began
        self._cpu[name] += used - self._nested.pop()
        self._nested[-1] += used

    def _charge(self, name: str, used: float) -> None:
        self._cpu[name] += used
        self._nested[-1] += used


def _name(fixturedef: pytest.FixtureDef[Any]) -> str:
    return f"fixture {fixturedef.argname} ({fixturedef.scope}, {fixturedef.baseid or 'tests'})"


def main(command: list[str]) -> int:
    """Run the command, report the costs of its tests, and return its exit code."""
    if sys.platform == "linux":
        # children of dead processes become ours, such as PostgreSQL's: so their CPU is counted
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, env=os.environ | {FOLDER: folder})
        code = _wait_for(process.pid)
        cpu: Counter[str] = Counter()
        wall: Counter[str] = Counter()
        for file in Path(folder).iterdir():
            costs = json.loads(file.read_text())
            cpu.update(costs["cpu"])
            wall.update(costs["wall"])
    cpu["rest processes that no test waits for"] = _cpu(RUSAGE_CHILDREN) - cpu.total()
    for name in [name for name in cpu if name.startswith("test ")]:
        cpu[f"module {name.split()[1].partition('::')[0]}"] += cpu[name]
        cpu["rest all tests"] += cpu[name]
    for name in [name for name in cpu if name.startswith("fixture ")]:
        cpu["rest all fixtures wider than a test"] += cpu[name]
    _report(cpu, wall)
    return code


def _wait_for(pid: int) -> int:
    """Wait for the process and for what it leaves behind; return its exit code."""
    code = None
    deadline = float("inf")
    while time.monotonic() < deadline:
        try:
            ended, status = os.waitpid(-1, 0 if code is None else os.WNOHANG)
        except ChildProcessError:
            break
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            deadline = time.monotonic() + 10
        elif ended == 0:
            time.sleep(0.1)
    assert code is not None
    return code


def _report(cpu: Counter[str], wall: Counter[str]) -> None:
    """Write the whole list to a file, and print the costliest of each kind."""
    _LIST.parent.mkdir(exist_ok=True)
    rows = [(*name.split(" ", 1), used, wall[name]) for name, used in cpu.most_common()]
    lines = [f"{kind}\t{used:.3f}\t{took:.3f}\t{what}" for kind, what, used, took in rows]
    _LIST.write_text("\n".join(["kind\tcpu\twall\tname", *lines, ""]))
    for kind in ("test", "module", "fixture", "rest"):
        print(f"\nCPU seconds, by {kind}" if kind != "rest" else "\nCPU seconds, in all")
        for _, what, used, _ in [row for row in rows if row[0] == kind][:_SHOWN]:
            print(f"{used:8.1f}  {what}")
    print(f"{_cpu(RUSAGE_CHILDREN):8.1f}  sum; the whole list is in {_LIST}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
