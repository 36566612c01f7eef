"""The Temporal dev server as a part of `up`: its ports, its command line, its log.

It stores everything in `temporal.db` of the home folder, so deliveries survive when it is killed,
and logs to `temporal.log`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hookfast.errors import Misconfigured
from hookfast.supervisor.plan import Plan, TemporalPlan
from hookfast.supervisor.processes import Part

HOST = "127.0.0.1"
_GRACE = 10.0
_LOG_BYTES = 10_000_000
_LAST_LINES = 8
# On a busy machine the API has priority, because callers wait for its 202.
_NICE = ("nice", "-n", "5") if shutil.which("nice") else ()
_DYNAMIC_CONFIG = {
    # without this, the fairness keys of retries (one per endpoint) have no effect
    "matching.enableFairness": True,
    # By default the server caches 128,000 workflows for an hour, ended ones too, which take 30 KiB
    # each. With only the first of these limits, 56 MiB of its heap were live after 50,000
    # deliveries, and 38 with all three. Workflows in progress have to fit.
    "history.hostLevelCacheMaxSize": 1_000,
    "history.cacheTTL": "10s",
    "history.cacheBackgroundEvict": {"Enabled": True, "LoopInterval": "10s"},
    # SQLite executes one statement at a time, so that more partitions and goroutines gain nothing.
    # By default a task queue has four partitions, and each kind of task 512 goroutines. An idle
    # server without workers took 53 MiB, 47 with one partition, and 41 with 64 goroutines, too.
    "matching.numTaskqueueReadPartitions": 1,
    "matching.numTaskqueueWritePartitions": 1,
    "history.timerProcessorSchedulerWorkerCount": 64,
    "history.transferProcessorSchedulerWorkerCount": 64,
    "history.visibilityProcessorSchedulerWorkerCount": 64,
    "history.archivalProcessorSchedulerWorkerCount": 1,
    # They remove rows of task queues that no worker polls any more, and histories without a
    # workflow after 60 days: few and small. Their worker took 8 MiB of those 41.
    "worker.taskQueueScannerEnabled": False,
    "worker.historyScannerEnabled": False,
}
# By default the heap, of which 38 MiB are live, grows to 81 before the garbage collector runs. With
# this, 87 MiB in all were resident beside the program's file, and 100 without. It takes 3 % more of
# the server's CPU per workflow (17.3 ms, 16.8 without), which fewer partitions had saved (17.1).
_GOGC = "50"
_PORTS_TO_TRY = 200
_LOG_LEVELS = {"debug": "info", "info": "warn", "warning": "warn", "error": "error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedTemporal:
    """The embedded Temporal: its home folder, its ports and its options."""

    home: Path
    port: int
    ui_port: int
    namespace: str
    log_level: str
    binary: str
    search_attributes: Sequence[str]

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def ui_url(self) -> str:
        return f"http://{HOST}:{self.ui_port}"

    def part(self, log: IO[bytes], *, fds: tuple[int, ...]) -> Part:
        """Return the process to run. `fds` are the file descriptors it inherits."""
        return Part(
            name="temporal",
            command=(*_NICE, self.binary, *self._arguments()),
            environment={"GOGC": _GOGC, **_without_temporal_settings(os.environ)},
            grace=_GRACE,
            output=log.fileno(),
            folder=self.home,
            fds=fds,
        )

    def open_log(self) -> IO[bytes]:
        """Open the log for appending. A log over 10 MB is first renamed to `temporal.log.1`."""
        path = log_path(self.home)
        with suppress(FileNotFoundError):
            if path.stat().st_size > _LOG_BYTES:
                path.replace(path.with_suffix(".log.1"))
        return path.open("ab")

    def _arguments(self) -> list[str]:
        return [
            *("server", "start-dev"),
            *("--ip", HOST),
            *("--port", str(self.port)),
            *("--ui-port", str(self.ui_port)),
            *("--namespace", self.namespace),
            # relative to its folder: the server puts this into a URL without quoting, so that a
            # path with "?" or "%" would lead to another file
            *("--db-filename", "temporal.db"),
            *("--sqlite-pragma", "journal_mode=WAL"),
            *("--sqlite-pragma", "synchronous=NORMAL"),
            *(word for one in self.search_attributes for word in ("--search-attribute", one)),
            *(
                word
                for key, value in _DYNAMIC_CONFIG.items()
                for word in ("--dynamic-config-value", f"{key}={json.dumps(value)}")
            ),
            *("--log-level", _LOG_LEVELS[self.log_level]),
        ]


def log_path(home: Path) -> Path:
    """Return the path of the server's log in this home folder."""
    return home / "temporal.log"


def log_end(home: Path) -> str:
    """Return the last lines of the server's log, or nothing if it cannot be read."""
    with suppress(OSError):
        lines = log_path(home).read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])
    return ""


def embedded_temporal(plan: Plan, temporal: TemporalPlan) -> EmbeddedTemporal:
    """Return the embedded Temporal of this plan, on ports that are free now."""
    port = free_port(temporal.port or 7233)
    return EmbeddedTemporal(
        home=Path(plan.home),
        port=port,
        ui_port=free_port(temporal.ui_port or 8233, taken=port),
        namespace=temporal.namespace,
        log_level=plan.log_level,
        binary=temporal.binary,
        search_attributes=temporal.search_attributes,
    )


def free_port(first: int, *, taken: int | None = None) -> int:
    """Return the first free port from `first` on. Raises Misconfigured after 200 ports.

    Neighbouring ports, because the server itself uses random ones from the system's range: it could
    take such a port for something else before it listens on it.
    """
    for port in range(first, min(first + _PORTS_TO_TRY, 65_536)):
        if port != taken and _is_free(port):
            return port
    raise Misconfigured(f"no port from {first} on is free for Temporal; set HOOKFAST_TEMPORAL_PORT")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _without_temporal_settings(environment: Mapping[str, str]) -> dict[str, str]:
    # the CLI reads these variables too, and they configure another server
    return {name: value for name, value in environment.items() if not name.startswith("TEMPORAL_")}
