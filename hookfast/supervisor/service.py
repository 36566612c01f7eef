"""Runs the whole service during a block: Temporal, the API and workers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import socket
from typing import Any
from urllib.parse import urlsplit

from hookfast.settings import up_file
from hookfast.settings.local_url import local_url
from hookfast.settings.up_file import UpFile
from hookfast.supervisor import home_lock
from hookfast.supervisor.autoscaler import Autoscaler
from hookfast.supervisor.embedded_temporal import EmbeddedTemporal, embedded_temporal, log_end
from hookfast.supervisor.forks import ForkServer, can_fork
from hookfast.supervisor.listener import listen
from hookfast.supervisor.plan import Plan
from hookfast.supervisor.processes import (
    CannotStart,
    Part,
    Running,
    Supervisor,
    run_once,
    spawn,
)
from hookfast.supervisor.scaling import scale

API_GRACE_SECONDS = 10
"""Time in which the API's running requests have to end after SIGTERM."""
_MORE_SECONDS = 5  # for a part to exit after its own grace
_STDOUT, _STDERR = 1, 2
# -P: a folder `api` or `worker` in the current directory must not be imported instead of ours
_PYTHON = (sys.executable, "-P", "-m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running service: its addresses, and what `/readyz` still reports as missing."""

    api_url: str
    temporal_address: str
    temporal_namespace: str
    temporal_ui_url: str | None
    missing: tuple[str, ...]


@asynccontextmanager
async def service(
    plan: Plan, hurry: asyncio.Event, *, output: int = _STDERR
) -> AsyncIterator[Service]:
    """Run the whole service during the block; `output` is the file descriptor for the logs of its
    processes.

    A new operator key is printed as soon as it exists. Afterwards the workers, the API and Temporal
    are stopped in this order; `hurry` cuts that short. Raises Misconfigured or CannotStart.
    """
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(home_lock.locked(Path(plan.home)))
        listener = stack.enter_context(listen(plan))
        temporal = None if plan.temporal is None else embedded_temporal(plan, plan.temporal)
        temporal_log = None if temporal is None else stack.enter_context(temporal.open_log())
        stack.enter_context(up_file.written(Path(plan.home), _up_file(temporal)))
        port = listener.getsockname()[1]
        environment = _environment(plan, port, temporal=temporal)
        forks = None
        if can_fork():
            fds = (lock, listener.fileno(), output)
            forks = await stack.enter_async_context(
                ForkServer((*_PYTHON, "hookfast.cli.fork_server"), environment, fds=fds)
            )
        ours = _Ours(environment, output, lock, spawn if forks is None else forks.spawn)
        supervisor = await stack.enter_async_context(Supervisor(hurry))

        if temporal is not None and temporal_log is not None:
            supervisor.start(temporal.part(temporal_log, fds=(lock,)))
        await _prepare(ours, temporal)
        if temporal is not None and supervisor.exits("temporal"):
            # the preparation may have reached another server on this port
            raise CannotStart(f"Temporal ended while it started:\n{log_end(temporal.home)}")

        apis = supervisor.start(*_apis(ours, plan, listener))
        workers = supervisor.start(*(_worker(ours, plan, at) for at in range(plan.workers)))
        api_url = local_url(plan.host, port)
        missing = await wait_until_ready(api_url)
        supervisor.settle()
        if forks is not None:
            await forks.close()
        if plan.most_workers > plan.workers:
            autoscaler = Autoscaler(least=plan.workers, most=plan.most_workers)
            worker = partial(_worker, ours, plan)
            scaling = scale(supervisor, autoscaler, apis=apis, workers=workers, worker=worker)
            stack.callback(asyncio.create_task(scaling, name="scaling").cancel)
        yield Service(
            api_url=api_url,
            temporal_address=environment["TEMPORAL_ADDRESS"],
            temporal_namespace=environment.get("TEMPORAL_NAMESPACE", "default"),
            temporal_ui_url=environment.get("HOOKFAST_TEMPORAL_UI_URL"),
            missing=missing,
        )


def _up_file(temporal: EmbeddedTemporal | None) -> UpFile | None:
    if temporal is None:
        return None
    return UpFile(temporal_address=temporal.address, temporal_namespace=temporal.namespace)


@dataclass(frozen=True, slots=True)
class _Ours:
    """What all processes that run our code have in common."""

    environment: Mapping[str, str]
    output: int
    lock: int
    spawn: Callable[[Part], Awaitable[Running]]

    def part(
        self,
        name: str,
        *words: str,
        grace: float,
        fds: tuple[int, ...] = (),
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Part:
        """Return the part `python -m` with these words."""
        return Part(
            name=name,
            command=(*_PYTHON, *words),
            environment={**self.environment, **(environment or {})},
            grace=grace,
            fds=(self.lock, *fds),
            spawn=self.spawn,
            **{"output": self.output, **options},
        )


async def _prepare(ours: _Ours, temporal: EmbeddedTemporal | None) -> None:
    """Migrate, create the operator key, and wait for the embedded Temporal."""
    options = () if temporal is None else ("--await-temporal",)
    code = await run_once(
        ours.part(
            "preparation",
            *("hookfast.cli.before_up", *options),
            grace=0,
            output=_STDERR,  # not `ours.output`: people look here when the service does not start
            stdout=_STDOUT,
        )
    )
    if code == 1:
        sys.exit(1)  # it has said why
    if code != 0:
        raise CannotStart(f"the preparation ended with {code} and did not say why")


def _apis(ours: _Ours, plan: Plan, listener: socket) -> list[Part]:
    """Return the API processes, which accept from one socket: while one restarts, the others
    answer; if there is only one, callers wait in the socket's backlog."""
    return [
        ours.part(
            _numbered("api", number),
            *("hookfast.cli", "api", "--fd", str(listener.fileno())),
            grace=API_GRACE_SECONDS + _MORE_SECONDS,
            fds=(listener.fileno(),),
            before_stop=listener.close,  # from now on connections are refused and do not wait
        )
        for number in range(plan.api_processes)
    ]


def _worker(ours: _Ours, plan: Plan, number: int) -> Part:
    """Return a worker process; their metrics ports count up from the configured one.

    Their priority is the API's: with a nice value 10 higher, a worker that holds SQLite's write
    lock waited for the processor behind everybody else, and the API waited for it (accept p50 rose
    from 117 to 329 ms and p95 from 262 to 1,082, on two cores that others used too).
    """
    first = plan.worker_metrics_port
    return ours.part(
        _numbered("worker", number),
        *("hookfast.cli", "worker"),
        grace=plan.worker_grace + _MORE_SECONDS,
        environment={"HOOKFAST_WORKER_METRICS_PORT": str(first and min(first + number, 65_535))},
    )


def _numbered(name: str, number: int) -> str:
    return f"{name} {number + 1}" if number else name


def _environment(plan: Plan, port: int, *, temporal: EmbeddedTemporal | None) -> dict[str, str]:
    """Return the environment of the parts: ours, with the addresses that were chosen here."""
    environment = dict(os.environ)
    environment["HOOKFAST_HOME"] = plan.home
    environment["HOOKFAST_PORT"] = str(port)
    if temporal is not None:
        for name in [name for name in environment if name.startswith("TEMPORAL_")]:
            del environment[name]  # TLS or a key for another server
        environment["TEMPORAL_CONFIG_FILE"] = os.devnull
        environment["TEMPORAL_ADDRESS"] = temporal.address
        environment["TEMPORAL_NAMESPACE"] = temporal.namespace
        environment["HOOKFAST_TEMPORAL_UI_URL"] = plan.temporal_ui_url or temporal.ui_url
    elif plan.temporal_ui_url is not None:
        environment["HOOKFAST_TEMPORAL_UI_URL"] = plan.temporal_ui_url
    return environment


_READY_SECONDS = 30.0
_PAUSE_SECONDS = 0.1


async def wait_until_ready(api_url: str) -> tuple[str, ...]:
    """Poll `/readyz` until nothing is missing. Return what is still missing after 30 s. Uses only
    the standard library."""
    missing: tuple[str, ...] = ("api",)
    with suppress(TimeoutError):
        async with asyncio.timeout(_READY_SECONDS):
            while missing:
                await asyncio.sleep(_PAUSE_SECONDS)
                # nothing listens yet, the API was killed, or its response was cut off
                with suppress(OSError, EOFError, ValueError):
                    missing = await _read_missing(api_url)
    return missing


async def _read_missing(api_url: str) -> tuple[str, ...]:
    url = urlsplit(api_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        writer.write(
            b"GET /readyz HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % url.netloc.encode()
        )
        response = await reader.read()
    finally:
        writer.close()
    return tuple(json.loads(response.partition(b"\r\n\r\n")[2])["missing"])
