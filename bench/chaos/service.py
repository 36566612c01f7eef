"""The whole service of a storm, from its real parts: the API, two workers, Temporal, the database,
and a receiver. Every part is a process of its own, on loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from bench.chaos.clock import FakeClock
from bench.chaos.database import Database, Disk, Sqlite, database_of
from bench.chaos.part import Part
from hookfast.cli.before_up import wait_until_serving
from hookfast.cli.up import find_binary, search_attributes
from hookfast.supervisor.embedded_temporal import EmbeddedTemporal, free_port

OPERATOR_KEY = "hf_" + "c" * 40
_READY_SECONDS = 90.0
_API_SECONDS = 15.0
_WORKERS = ("worker-1", "worker-2")
_WITH_CLOCKS = ("api", *_WORKERS)
_REQUEST_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of the service. `client` calls the API with the operator's key."""

    home: Path
    api: Part
    workers: list[Part]
    temporal: Part
    temporal_server: EmbeddedTemporal
    database: Database
    disk: Disk
    receiver: str
    client: httpx2.AsyncClient

    @property
    def parts(self) -> list[Part]:
        """The parts that may end by themselves."""
        own = [] if self.database.part is None else [self.database.part]
        return [self.api, *self.workers, self.temporal, *own]

    async def start_temporal(self) -> None:
        """Start Temporal, and wait until it serves."""
        await self.temporal.start()
        server = self.temporal_server
        await wait_until_serving(server.address, server.namespace, home=self.home)

    async def start_api(self) -> None:
        """Start the API, and wait until it answers or its database seems to be away."""
        await self.api.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_API_SECONDS):
                while not await self._answers("/healthz"):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.1)

    async def ask_receiver(self, path: str) -> bytes:
        """Return the receiver's answer to a GET."""
        answer = await self.client.get(self.receiver + path, timeout=60)
        return answer.content

    async def wait_until_ready(self) -> None:
        """Wait until the API reports that it is ready. Raises TimeoutError."""
        async with asyncio.timeout(_READY_SECONDS):
            while not await self._answers("/readyz"):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.2)

    async def _answers(self, path: str) -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            return (await self.client.get(path)).is_success
        return False


@asynccontextmanager
async def running_service(
    home: Path, disk: Disk, *, kind: str, mode: str, seed: str, clocks: bool
) -> AsyncIterator[Service]:
    """Run the service while the block lasts, and end all its processes afterwards. With `clocks`,
    those of its processes can jump."""
    async with AsyncExitStack() as stack:
        database = database_of(kind, disk, home / "postgresql.log", clocks=clocks)
        temporal_server = EmbeddedTemporal(
            home=home,
            port=_port(17_000),
            ui_port=_port(22_000),
            namespace="default",
            log_level="warning",
            binary=find_binary(),
            search_attributes=search_attributes(),
        )
        api_port = _port(27_000)
        environment = _environment(home, database.url, temporal_server.address, api_port)
        environment["HOOKFAST_FIRST_ATTEMPTS"] = mode

        def part(name: str, *command: str, folder: Path | None = None) -> Part:
            jumps = clocks and name in _WITH_CLOCKS
            clock = FakeClock(home / f"{name}.clock") if jumps else None
            made = Part(
                name,
                command,
                environment=environment | (clock.environment if clock else {}),
                log=home / f"{name}.log",
                clock=clock,
                folder=folder,
            )
            stack.push_async_callback(made.kill)
            return made

        client = httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{api_port}",
            headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
            timeout=_REQUEST_SECONDS,
            trust_env=False,
            limits=httpx2.Limits(max_connections=200),
        )
        await stack.enter_async_context(client)
        if not isinstance(database, Sqlite):
            stack.push_async_callback(database.kill)
        with (home / "temporal.log").open("ab") as log:
            server = temporal_server.part(log, fds=())
            temporal = part("temporal", *server.command, folder=server.folder)
        service = Service(
            home=home,
            api=part("api", sys.executable, "-m", "hookfast.cli", "api"),
            workers=[
                part(name, sys.executable, "-m", "bench.chaos.worker_process") for name in _WORKERS
            ],
            temporal=temporal,
            temporal_server=temporal_server,
            database=database,
            disk=disk,
            receiver=await start_receiver(part("receiver", *receiver_command(seed))),
            client=client,
        )
        await database.start()
        await service.start_temporal()
        for one in (service.api, *service.workers):
            await one.start()
        await service.wait_until_ready()
        yield service


def _port(first: int) -> int:
    """Return a free port, not the first one: another run may be about to take that."""
    return free_port(first + secrets.randbelow(5_000))


def _environment(home: Path, database_url: str, temporal: str, port: int) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOOKFAST_", "TEMPORAL_", "OTEL_"))
    }
    return inherited | {
        "HOOKFAST_HOME": str(home),
        "HOOKFAST_PORT": str(port),
        "HOOKFAST_DATABASE_URL": database_url,
        "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY,
        "HOOKFAST_ENCRYPTION_KEYS": base64.b64encode(bytes(32)).decode(),
        "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
        "HOOKFAST_ALLOW_HTTP": "true",
        "HOOKFAST_ALLOW_UNVERIFIED": "true",
        "HOOKFAST_LOG_LEVEL": "warning",
        "HOOKFAST_LOG_FORMAT": "json",
        "HOOKFAST_WORKER_METRICS_PORT": "0",
        # shorter than the default, so that rows leased by a killed relay do not wait for long
        "HOOKFAST_RELAY_LEASE": "5",
        "TEMPORAL_ADDRESS": temporal,
        "TEMPORAL_CONFIG_FILE": os.devnull,
    }


def receiver_command(seed: str) -> tuple[str, ...]:
    """Return the command of a receiver that fails as this seed says."""
    return sys.executable, "-m", "bench.chaos.receiver", seed


async def start_receiver(receiver: Part) -> str:
    """Start a receiver and return its URL."""
    await receiver.start()
    async with asyncio.timeout(_READY_SECONDS):
        # it prints its port
        while not (port := receiver.log.read_text().strip()):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
    return f"http://127.0.0.1:{int(port)}"
