"""`hookfast up` as real processes, which the tests stop and kill in every way."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.docs.command_server import command_server
from tests.docs.fenced import ROOT, blocks
from tests.e2e.service_process import NO_TLS, environment, eventually, free_ports, lives
from tests.e2e.tour import KEY, on_ports, receiver
from tests.support.forked_command import run_forked
from tests.support.log_lines import check_file
from tests.support.waiting import PATIENCE

_TOUR = [one.text for one in blocks(ROOT / "README.md") if one.mark == "tour"]
_HOME = "my home?a%41#ü"
"""A folder with characters that a URL has too: no part of the service may read it as one."""
_DOUBLED = ["api", "api", "temporal", "worker", "worker"]


@dataclass(slots=True)
class Up:
    """A running `hookfast up`."""

    home: Path
    process: subprocess.Popen[str]
    ports: dict[str, int]
    children_seen: set[int] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports['api']}"

    def children(self) -> dict[str, int]:
        """Return the process ids of the parts by name; of one part, if several have the name."""
        return {name: pid for pid, name in self.parts().items()}

    def parts(self) -> dict[int, str]:
        """Return the names of the parts by process id."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                named = re.search(r"(start-dev|cli worker|cli api)", " ".join(child.cmdline()))
                if named:
                    found[child.pid] = (
                        named[1].removeprefix("cli ").replace("start-dev", "temporal")
                    )
        self.children_seen.update(found)
        return found

    def ready(self) -> bool:
        assert self.process.poll() is None, f"up ended; see {self.home.parent / 'up.log'}"
        with suppress(httpx2.TransportError):
            return self.readyz().status_code == 200
        return False

    def readyz(self) -> httpx2.Response:
        return httpx2.get(f"{self.url}/readyz", trust_env=False, verify=NO_TLS, timeout=PATIENCE)


@contextmanager
def running_up(home: Path, *options: str, wait: bool = True, **settings: str) -> Iterator[Up]:
    """Run `hookfast up` on this home, and kill it at the end if it still runs."""
    ports = dict(zip(("api", "temporal", "temporal_ui"), free_ports(3), strict=True))
    defaults = {
        "HOOKFAST_HOME": str(home),
        "HOOKFAST_PORT": str(ports["api"]),
        "HOOKFAST_TEMPORAL_PORT": str(ports["temporal"]),
        "HOOKFAST_TEMPORAL_UI_PORT": str(ports["temporal_ui"]),
    }
    with (
        (home.parent / "up.log").open("ab") as log,
        subprocess.Popen(
            [sys.executable, "-m", "hookfast.cli", "up", *options],
            env=environment() | defaults | settings,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            umask=0o022,  # the usual one
        ) as process,
    ):
        up = Up(home=home, process=process, ports=ports)
        try:
            if wait:
                eventually(up.ready)
                eventually(lambda: len(up.children()) == 3)
            yield up
        finally:
            process.kill()
            check_file(home.parent / "up.log")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / _HOME


@dataclass(frozen=True, slots=True)
class Toured:
    """A running `up` with two APIs and two workers, and what the README's tour on it showed."""

    up: Up
    printed: str
    tour: subprocess.CompletedProcess[str]
    received: list[str]


@pytest.fixture(scope="module")
def toured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toured]:
    """An `up` on which all blocks of the README's tour have run, in order, in one shell."""
    home = tmp_path_factory.mktemp("up") / _HOME
    home.mkdir(mode=0o755)
    folder = tmp_path_factory.mktemp("tour")
    (folder / "var/tour").mkdir(parents=True)
    [port] = free_ports(1)
    with running_up(
        home,
        *("--workers", "2"),
        HOOKFAST_API_PROCESSES="2",
        HOOKFAST_WORKER_METRICS_PORT="0",
        HOOKFAST_ALLOWED_PRIVATE_NETWORKS="127.0.0.0/8",
        HOOKFAST_ALLOW_HTTP="true",
    ) as up:
        printed = _until_last_address(up)
        [key] = re.findall(r"hf_[A-Za-z0-9_-]{32,}", printed)
        script = on_ports(
            "\n".join(_TOUR).replace("$PWD/.venv/bin", str(Path(sys.executable).parent)),
            {"8080": str(up.ports["api"]), "7233": str(up.ports["temporal"]), "9000": str(port)},
        )
        with receiver(folder, str(port)) as output, command_server(folder) as command:
            tour = subprocess.run(
                ["bash", "-c", f"set -euo pipefail\n{command}\n{script.replace(KEY, key)}"],
                cwd=folder,
                env=environment() | {"HOOKFAST_URL": up.url},
                check=False,
                capture_output=True,
                text=True,
            )
            if tour.returncode == 0:
                eventually(lambda: len(output.read_text().splitlines()) == 3)
            received = output.read_text().splitlines()
        yield Toured(up, printed, tour, received)


def test_the_tour_works_as_it_is_written(toured: Toured) -> None:
    assert len(_TOUR) == 5
    assert toured.tour.returncode == 0, toured.tour.stderr
    assert "delivered" in toured.tour.stdout
    assert "retrying" in toured.tour.stdout
    assert [line.partition(" ")[2] for line in toured.received] == [
        "attempt 1: order.invoice.paid, thanks",
        "attempt 1: order.invoice.paid, answering 503",
        "attempt 2: order.invoice.paid, thanks",
    ]


def test_only_its_user_can_read_what_it_keeps(toured: Toured) -> None:
    """Its home may be a folder that others can read, made by a person or by a volume."""
    home = toured.up.home
    assert home.stat().st_mode & 0o077
    modes = {path.relative_to(home): path.stat().st_mode & 0o777 for path in home.rglob("*")}
    names = {str(path) for path in modes}
    assert {"hookfast.db", "hookfast.db-wal", "temporal.db", "temporal.db-wal"} <= names
    assert {"temporal.log", "encryption.key"} <= names
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


def test_it_serves_in_40_mib_while_parts_are_killed_survives_its_own_kill_and_ctrl_c_ends_all(
    toured: Toured,
) -> None:
    up, home = toured.up, toured.up.home
    assert psutil.Process(up.process.pid).memory_info().rss < 40 * 2**20
    ui = httpx2.get(f"http://127.0.0.1:{up.ports['temporal_ui']}/", trust_env=False, verify=NO_TLS)
    assert ui.status_code == 200
    assert up.url in toured.printed
    eventually(lambda: _log(home).count("The worker is ready.") == 2)
    assert sorted(up.parts().values()) == _DOUBLED
    assert _doctors_findings(home)["workers"].startswith("2 alive")
    assert {"hookfast.db", "temporal.db", "encryption.key"} <= set(os.listdir(home))
    assert set(os.listdir(home.parent)) == {home.name, "up.log"}
    for name in ("api", "worker"):
        os.kill(up.children()[name], signal.SIGKILL)

    for _ in range(20):
        assert up.readyz().json() == {"status": "ready", "missing": []}

    eventually(lambda: sorted(up.parts().values()) == _DOUBLED)
    assert "Traceback" not in _log(home)
    up.process.kill()
    up.process.wait(timeout=PATIENCE)
    eventually(lambda: not _living(up.children_seen))

    with running_up(home) as again:
        for part in ("api", "temporal"):  # above, a worker was killed
            before = again.children()

            os.kill(before[part], signal.SIGKILL)

            # no caller is rejected meanwhile
            answer = httpx2.get(
                f"{again.url}/healthz", trust_env=False, verify=NO_TLS, timeout=PATIENCE
            )
            assert answer.status_code == 200
            eventually(lambda old=before[part], name=part: again.children().get(name, old) != old)
            eventually(again.ready)
            after = again.children()
            restarted = {name for name in before if before[name] != after.get(name)}
            assert restarted == {part}, _log(home)[-4000:]
        groups = {os.getpgid(pid) for pid in again.children().values()}
        assert os.getpgid(again.process.pid) not in groups, "Ctrl-C would reach a part directly"

        # other signals: tests/unit/supervisor/test_interrupt.py
        again.process.send_signal(signal.SIGINT)
        again.process.wait(timeout=PATIENCE)

        assert again.process.returncode == 0
        assert not _living(again.children_seen)
    log = _log(home)
    assert log.rindex("The worker is shutting down.") < log.rindex("Application shutdown complete.")


@pytest.mark.slow
def test_a_second_up_on_the_same_home_names_the_first(home: Path) -> None:
    with running_up(home) as up:
        code, error = _failing_up(home)
        assert code == 1
        assert f"another `hookfast up` (process {up.process.pid}) uses" in error
        assert "HOOKFAST_HOME" in error


@pytest.mark.slow
def test_taken_port_is_an_error_that_names_the_setting(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, error = _failing_up(home, HOOKFAST_PORT=str(port))
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in error
    assert "HOOKFAST_PORT" in error


@pytest.mark.slow
def test_temporal_gets_the_next_port_when_the_configured_one_is_taken(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running_up(home, HOOKFAST_TEMPORAL_PORT=str(port)) as up:
            assert up.process.stdout is not None
            # /readyz may answer before `up` has printed the addresses
            printed = next(line for line in up.process.stdout if "namespace default" in line)
            # and the doctor checks that server, not the one on the configured port; settings for
            # other servers, such as TLS, do not apply to it
            seen = _doctors_findings(home, HOOKFAST_TEMPORAL_PORT=str(port), TEMPORAL_TLS="true")
    found = re.search(r"127\.0\.0\.1:(\d+), namespace default", printed)
    assert found
    assert int(found[1]) > port
    assert f"at 127.0.0.1:{found[1]}." in seen["temporal"]
    assert "All task queues are polled" in seen["temporal.workers"]


@pytest.mark.slow
def test_port_0_takes_a_free_port_and_prints_it(home: Path) -> None:
    with running_up(home, wait=False, HOOKFAST_PORT="0") as up:
        assert up.process.stdout is not None
        line = next(line for line in up.process.stdout if line.startswith("API "))
        up.ports["api"] = int(line.rstrip().rpartition(":")[2])
        eventually(up.ready)


@pytest.mark.slow
def test_up_ends_when_a_part_cannot_start(home: Path) -> None:
    code, error = _failing_up(home, HOOKFAST_ENCRYPTION_KEYS="not a key")
    assert code == 1
    assert re.search(r"the (api|worker) does not start", error)


@pytest.mark.slow
def test_up_says_in_one_line_why_it_cannot_use_the_database(home: Path) -> None:
    assert _failing_up(home, HOOKFAST_DATABASE_URL="sqlite:///a?b.db") == (
        1,
        "hookfast: HOOKFAST_DATABASE_URL cannot be read: a SQLite file has no options; remove "
        "them, or write ? as %3F if it belongs to the name.\n",
    )


def _doctors_findings(home: Path, **settings: str) -> dict[str, str]:
    """Return what `hookfast doctor` found, by the name of the check."""
    env = environment() | {"HOOKFAST_HOME": str(home)} | settings
    doctor = run_forked(("doctor", "--json"), folder=home.parent, env=env, stdin=b"")
    _, out, _ = asyncio.run(doctor)
    return {one["check"]: one["saw"] for one in json.loads(out)["findings"]}


def _failing_up(home: Path, **settings: str) -> tuple[int, str]:
    ports = dict(zip(("PORT", "TEMPORAL_PORT", "TEMPORAL_UI_PORT"), free_ports(3), strict=True))
    ended = subprocess.run(
        [sys.executable, "-m", "hookfast.cli", "up"],
        env=environment()
        | {"HOOKFAST_HOME": str(home)}
        | {f"HOOKFAST_{name}": str(port) for name, port in ports.items()}
        | settings,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return ended.returncode, ended.stderr


def _until_last_address(up: Up) -> str:
    """Return what `up` has printed, which ends with the folder of its data."""
    assert up.process.stdout is not None
    printed = ""
    for line in up.process.stdout:
        printed += line
        if line.startswith("Data "):
            break
    return printed


def _log(home: Path) -> str:
    """Return what `up` and its parts have logged so far."""
    return (home.parent / "up.log").read_text()


def _living(pids: set[int]) -> set[int]:
    return {pid for pid in pids if lives(pid)}
