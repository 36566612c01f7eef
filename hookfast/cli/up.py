"""`hookfast up`: Temporal, the API and a worker as processes that are kept running."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from socket import socket

import httpx2
import structlog
from rich.table import Table
from rich.text import Text

from hookfast import whereabouts
from hookfast.cli import home_lock
from hookfast.cli.api import GRACE_SECONDS, listen
from hookfast.cli.console import print_operator_key, read_settings
from hookfast.cli.embedded_temporal import EmbeddedTemporal, embedded_temporal
from hookfast.cli.interrupt import interruptible
from hookfast.cli.prepare import prepare
from hookfast.cli.processes import CannotStart, Part, Supervisor
from hookfast.cli.remote.screen import show
from hookfast.local_url import local_url
from hookfast.logs import configure_logging
from hookfast.settings import Settings
from hookfast.version import VERSION
from hookfast.whereabouts import Whereabouts

_READY_SECONDS = 30.0
_STDERR = 2
# -P: a folder `api` or `worker` where the command was run must not stand in for ours
_SELF = (sys.executable, "-P", "-m", "hookfast.cli")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running service: where it is, and what it still lacks (`missing`, as `/readyz` says)."""

    api_url: str
    temporal_address: str
    temporal_namespace: str
    temporal_ui_url: str | None
    missing: tuple[str, ...]


def main() -> None:
    """Run until Ctrl-C or SIGTERM."""
    settings = read_settings()
    configure_logging(settings, process="up")
    asyncio.run(_run(settings))


async def _run(settings: Settings) -> None:
    async with interruptible() as hurry, service(settings, hurry) as running:
        show(banner(running, settings))
        await asyncio.Event().wait()


@asynccontextmanager
async def service(
    settings: Settings, hurry: asyncio.Event, *, output: int = _STDERR
) -> AsyncIterator[Service]:
    """The whole service while the block lasts; `output` is the file descriptor that takes
    the logs of its processes.

    A new operator key is printed as soon as it exists. On leaving, the worker, the API and Temporal
    end in this order; `hurry` cuts that short. Raises Misconfigured or CannotStart.
    """
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(home_lock.locked(settings.home))
        listener = stack.enter_context(listen(settings))
        temporal = None if os.environ.get("TEMPORAL_ADDRESS") else embedded_temporal(settings)
        temporal_log = None if temporal is None else stack.enter_context(temporal.open_log())
        stack.enter_context(whereabouts.noted(settings.home, _own(temporal)))
        supervisor = await stack.enter_async_context(Supervisor(hurry))

        if temporal is not None and temporal_log is not None:
            supervisor.start(temporal.part(temporal_log, fds=(lock,)))
        operator_key = await prepare(settings)
        if operator_key is not None:
            print_operator_key(operator_key)
        if temporal is not None:
            await temporal.wait_until_serving()
            if supervisor.ends("temporal"):  # then what answered was somebody else's
                raise CannotStart(f"Temporal ended while it started:\n{temporal.last_words()}")

        environment = _environment(settings, listener.getsockname()[1], temporal=temporal)
        supervisor.start(_api(environment, listener, output=output, lock=lock))
        supervisor.start(_worker(environment, settings, output=output, lock=lock))
        api_url = local_url(settings.host, listener.getsockname()[1])
        missing = await _wait_until_ready(api_url)
        supervisor.settled()
        yield Service(
            api_url=api_url,
            temporal_address=environment["TEMPORAL_ADDRESS"],
            temporal_namespace=environment.get("TEMPORAL_NAMESPACE", "default"),
            temporal_ui_url=environment.get("HOOKFAST_TEMPORAL_UI_URL"),
            missing=missing,
        )


def _own(temporal: EmbeddedTemporal | None) -> Whereabouts | None:
    if temporal is None:
        return None
    return Whereabouts(temporal_address=temporal.address, temporal_namespace=temporal.namespace)


def _api(environment: dict[str, str], listener: socket, *, output: int, lock: int) -> Part:
    return Part(
        name="api",
        command=(*_SELF, "api", "--fd", str(listener.fileno())),
        environment=environment,
        grace=GRACE_SECONDS + 5,
        output=output,
        fds=(lock, listener.fileno()),
        before_stop=listener.close,  # so that from now on callers are refused, not kept waiting
    )


def _worker(environment: dict[str, str], settings: Settings, *, output: int, lock: int) -> Part:
    return Part(
        name="worker",
        command=(*_SELF, "worker"),
        environment=environment,
        grace=settings.shutdown_grace.total_seconds() + 5,
        output=output,
        fds=(lock,),
    )


def _environment(
    settings: Settings, port: int, *, temporal: EmbeddedTemporal | None
) -> dict[str, str]:
    """The environment of the API and the worker: ours, with what was decided here."""
    environment = dict(os.environ)
    environment["HOOKFAST_HOME"] = str(settings.home.absolute())
    environment["HOOKFAST_PORT"] = str(port)
    if temporal is not None:
        for name in [name for name in environment if name.startswith("TEMPORAL_")]:
            del environment[name]  # TLS or a key, meant for another server
        environment["TEMPORAL_CONFIG_FILE"] = os.devnull
        environment["TEMPORAL_ADDRESS"] = temporal.address
        environment["TEMPORAL_NAMESPACE"] = temporal.namespace
        environment["HOOKFAST_TEMPORAL_UI_URL"] = settings.temporal_ui_url or temporal.ui_url
    elif settings.temporal_ui_url is not None:
        environment["HOOKFAST_TEMPORAL_UI_URL"] = settings.temporal_ui_url
    return environment


async def _wait_until_ready(api_url: str) -> tuple[str, ...]:
    """Nothing, as soon as the service is ready; else what it lacks after 30 s."""
    missing: tuple[str, ...] = ("api",)
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(_READY_SECONDS),
            httpx2.AsyncClient(base_url=api_url, trust_env=False) as client,
        ):
            while missing:
                await asyncio.sleep(0.1)
                with suppress(httpx2.TransportError):
                    missing = tuple((await client.get("/readyz")).json()["missing"])
    return missing


def banner(running: Service, settings: Settings) -> Table:
    """Where everything is."""
    table = Table.grid(padding=(0, 3))
    table.add_row(f"[bold]Hookfast {VERSION}[/bold]", _state(running))
    for name, value in (
        ("Dashboard", f"{running.api_url}/  (sign in with an API key)"),
        ("API", running.api_url),
        ("API docs", f"{running.api_url}/docs"),
        ("Temporal UI", running.temporal_ui_url or "(set HOOKFAST_TEMPORAL_UI_URL)"),
        ("Temporal", f"{running.temporal_address}, namespace {running.temporal_namespace}"),
        ("Data", str(settings.home.absolute())),
    ):
        table.add_row(name, Text(value))  # no markup: a path may hold brackets
    return table


def _state(running: Service) -> str:
    if running.missing:
        return f"[yellow]is up but not ready; it lacks: {', '.join(running.missing)}[/yellow]"
    return "[green]is ready.[/green] Ctrl-C stops it."
