"""The whole cluster: APIs behind Caddy, and workers, in front of PostgreSQL and Temporal.

The APIs and workers are `hookfast api` and `hookfast worker` with compose's settings, except for
addresses, and for what lets them deliver to a receiver on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM

import httpx2
from rich.console import Console

from bench.chaos.part import Part
from bench.cluster import proxy
from bench.cluster.backing import (
    Backing,
    Prefix,
    no_prefix,
    python_environment,
    running_backing,
)
from bench.cluster.compose import FILES, ROOT
from bench.cluster.postgresql import HOST

_READY_SECONDS = 90.0
_GRACE_SECONDS = 60.0
"""As `stop_grace_period` of compose's workers."""
_WORKER_IS_READY = b"The worker is ready."
_UNUSED = (
    "HOOKFAST_SMTP_URL_FILE",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "HOOKFAST_TEMPORAL_UI_URL",
)
"""Settings of services that do not run here."""


@dataclass(slots=True)
class Cluster:
    """The running cluster. `url` is Caddy's; `client` calls it with the operator's key."""

    backing: Backing
    stack: AsyncExitStack
    settings: Mapping[str, str]
    url: str
    client: httpx2.AsyncClient
    api_ports: Sequence[int]
    apis: list[Part] = field(default_factory=list)
    workers: list[Part] = field(default_factory=list)
    worker_ports: list[int] = field(default_factory=list)
    """Where the workers' metrics are."""

    @property
    def parts(self) -> list[Part]:
        """All processes that run now, except Caddy."""
        return [*self.apis, *self.workers, *self.backing.parts]

    def new_api(self, number: int, code: Path = ROOT) -> Part:
        """Return the API with this number (from 0), not started, with the code in this folder."""
        own = {"HOOKFAST_PORT": str(self.api_ports[number])}
        return self._part(f"api-{number + 1}", "api", own, code)

    def new_worker(self, number: int, code: Path = ROOT) -> Part:
        """Return the worker with this number (from 0), not started."""
        if number == len(self.worker_ports):
            self.worker_ports.append(next(self.backing.ports))
        own = {"HOOKFAST_WORKER_METRICS_PORT": str(self.worker_ports[number])}
        return self._part(f"worker-{number + 1}", "worker", own, code)

    async def start_api(self, number: int) -> None:
        """Start this API, and wait until it answers. Raises TimeoutError."""
        await self.apis[number].start()
        url = f"http://{HOST}:{self.api_ports[number]}/healthz"
        async with asyncio.timeout(_READY_SECONDS):
            while not await self.answers(url):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)

    async def start_worker(self, number: int) -> None:
        """Start this worker, and wait until it polls Temporal. Raises TimeoutError."""
        log = self.workers[number].log
        before = log.stat().st_size if log.exists() else 0
        await self.workers[number].start()
        async with asyncio.timeout(_READY_SECONDS):
            while not _says_ready(log, before):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)

    @staticmethod
    async def stop(part: Part) -> None:
        """End a part by SIGTERM, or by SIGKILL after compose's grace period."""
        await part.kill(SIGTERM, patience=_GRACE_SECONDS)

    async def answers(self, url: str) -> bool:
        """Whether this URL (or path of Caddy's) is answered with 2xx."""
        with contextlib.suppress(httpx2.HTTPError):
            return (await self.client.get(url, timeout=5)).is_success
        return False

    async def wait_until_ready(self) -> None:
        """Wait until deliveries can be made. Raises TimeoutError."""
        async with asyncio.timeout(_READY_SECONDS):
            while not await self.answers("/readyz"):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)

    def _part(self, name: str, command: str, own: Mapping[str, str], code: Path) -> Part:
        home = {"HOOKFAST_HOME": str(self.backing.home / name)}
        environment = {**python_environment(code), **self.settings, **home, **own}
        words = [sys.executable, "-m", "hookfast.cli", command]
        part = self.backing.part(name, words, environment)
        self.stack.push_async_callback(part.kill)
        return part


@asynccontextmanager
async def running_cluster(
    home: Path,
    *,
    temporals: int = 2,
    apis: int = 2,
    workers: int = 3,
    settings: Mapping[str, str] | None = None,
    code: Path = ROOT,
    prefix: Prefix = no_prefix,
    shards: int | None = None,
    console: Console | None = None,
) -> AsyncIterator[Cluster]:
    """Run the cluster while the block lasts, with data and logs in `home` (a short path).
    `settings` are added to compose's; `code` is the folder with the code of APIs and workers."""
    async with (
        running_backing(
            home, temporals=temporals, prefix=prefix, shards=shards, console=console
        ) as backing,
        AsyncExitStack() as stack,
    ):
        port = next(backing.ports)
        url = f"http://{HOST}:{port}"
        key = (backing.secrets / "operator_key").read_text().strip()
        client = httpx2.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=30,
            trust_env=False,
            limits=httpx2.Limits(max_connections=200),
        )
        await stack.enter_async_context(client)
        cluster = Cluster(
            backing=backing,
            stack=stack,
            settings=_settings(backing, url) | dict(settings or {}),
            url=url,
            client=client,
            api_ports=[next(backing.ports) for _ in range(apis)],
        )
        cluster.apis += [cluster.new_api(number, code) for number in range(apis)]
        cluster.workers += [cluster.new_worker(number, code) for number in range(workers)]
        # by the first API, alone, as compose's service `migrate` does
        await cluster.start_api(0)
        caddy = _new_caddy(backing, cluster.api_ports, port)
        stack.push_async_callback(caddy.kill)
        async with asyncio.TaskGroup() as group:
            group.create_task(caddy.start())
            for number in range(1, apis):
                group.create_task(cluster.start_api(number))
            for number in range(workers):
                group.create_task(cluster.start_worker(number))
        await cluster.wait_until_ready()
        yield cluster


def _settings(backing: Backing, url: str) -> dict[str, str]:
    given = backing.compose.environment("api-1", secrets=backing.secrets)
    for name in _UNUSED:
        del given[name]
    return given | {
        "HOOKFAST_HOST": HOST,
        "HOOKFAST_PUBLIC_URL": url,
        "HOOKFAST_TRUSTED_PROXIES": f"{HOST}/32",
        "TEMPORAL_ADDRESS": backing.temporal_address,
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
        "HOOKFAST_ALLOW_HTTP": "true",
        "HOOKFAST_ALLOW_UNVERIFIED": "true",
    }


def _new_caddy(backing: Backing, api_ports: Sequence[int], port: int) -> Part:
    file = backing.home / "Caddyfile"
    file.write_text(
        proxy.render(
            (FILES / "proxy" / "Caddyfile").read_text(),
            apis=[f"{HOST}:{api}" for api in api_ports],
            port=port,
            https_port=next(backing.ports),
            health_port=next(backing.ports),
        )
    )
    own = {
        "SITE": f":{port}",
        "XDG_DATA_HOME": str(backing.home / "caddy"),
        "XDG_CONFIG_HOME": str(backing.home / "caddy"),
    }
    command = [str(backing.binaries.caddy / "caddy"), "run", "--config", str(file)]
    return backing.part("caddy", command, os.environ | own)


def _says_ready(log: Path, after: int) -> bool:
    """Whether a worker has reported that it is ready, after this many bytes of its log."""
    with log.open("rb") as file:
        file.seek(after)
        return _WORKER_IS_READY in file.read()
