"""The Temporal dev server as a part of `up`: its ports, its command line, its log.

Everything it stores is in `temporal.db` of the home folder, so deliveries survive its death; what
it logs goes to `temporal.log`.
"""

from __future__ import annotations

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
# On a busy machine the API goes first: somebody waits for its 202.
_POLITELY = ("nice", "-n", "5") if shutil.which("nice") else ()
# The server remembers 128,000 workflows for an hour, also those that have ended: it grew by 30 MiB
# per 1,000 deliveries (392 MiB after 4,000). With this it stays below 310, for the same CPU.
# No GOMEMLIMIT: 65 MiB of its heap are in use and 45 are not heap, so that 160MiB (262 resident)
# has its collector work half as much again: 23 ms of CPU per delivery in one run, 20 without.
_CACHED_WORKFLOWS = 1_000
_PORTS_TO_TRY = 200
_LOG_LEVELS = {"debug": "info", "info": "warn", "warning": "warn", "error": "error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedTemporal:
    """Where the embedded Temporal listens and keeps things."""

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
        """The process to run."""
        return Part(
            name="temporal",
            command=(*_POLITELY, self.binary, *self._arguments()),
            environment=_without_temporal_settings(os.environ),
            grace=_GRACE,
            output=log.fileno(),
            fds=fds,
        )

    def open_log(self) -> IO[bytes]:
        """The log, to append to; a long one is put aside first."""
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
            *("--db-filename", str(self.home / "temporal.db")),
            *("--sqlite-pragma", "journal_mode=WAL"),
            *("--sqlite-pragma", "synchronous=NORMAL"),
            *(word for one in self.search_attributes for word in ("--search-attribute", one)),
            # without it the fairness keys of retries (one per endpoint) have no effect
            *("--dynamic-config-value", "matching.enableFairness=true"),
            *("--dynamic-config-value", f"history.hostLevelCacheMaxSize={_CACHED_WORKFLOWS}"),
            *("--log-level", _LOG_LEVELS[self.log_level]),
        ]


def log_path(home: Path) -> Path:
    """Where the server of this home writes its log."""
    return home / "temporal.log"


def last_words(home: Path) -> str:
    """The last lines of its log."""
    with suppress(OSError):
        lines = log_path(home).read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])
    return ""


def embedded_temporal(plan: Plan, wanted: TemporalPlan) -> EmbeddedTemporal:
    """The embedded Temporal of this plan, on ports that are free now."""
    port = free_port(wanted.port or 7233)
    return EmbeddedTemporal(
        home=Path(plan.home),
        port=port,
        ui_port=free_port(wanted.ui_port or 8233, taken=port),
        namespace=wanted.namespace,
        log_level=plan.log_level,
        binary=wanted.binary,
        search_attributes=wanted.search_attributes,
    )


def free_port(wanted: int, *, taken: int | None = None) -> int:
    """The first free port from `wanted` on.

    Neighbours rather than any free port: the server itself takes random ones from the system's
    range, and one of those could be ours before it gets to ours.
    """
    for port in range(wanted, min(wanted + _PORTS_TO_TRY, 65_536)):
        if port != taken and _is_free(port):
            return port
    raise Misconfigured(
        f"no port from {wanted} on is free for Temporal; set HOOKFAST_TEMPORAL_PORT"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _without_temporal_settings(environment: Mapping[str, str]) -> dict[str, str]:
    # the CLI reads them too, and they are about another server
    return {name: value for name, value in environment.items() if not name.startswith("TEMPORAL_")}
