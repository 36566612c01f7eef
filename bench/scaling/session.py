"""PostgreSQL, Temporal, an API and a changing number of workers, each with a share of the CPU, and
measurements of what they deliver.

All parts start without a share of their own and get it when they are ready. A feeder keeps a
number of deliveries waiting, so that the workers always have work and the API accepts as many
events as are delivered. Rates are arrivals at the sink.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from itertools import cycle
from pathlib import Path

import httpx2
import psutil

from bench.chaos.part import Part
from bench.cluster.backing import NAMESPACE, Backing, python_environment, running_backing
from bench.cluster.compose import ROOT
from bench.delivery.events import (
    EVENT_TYPE,
    count_unfinished,
    create_endpoints,
    create_tenant,
    event,
)
from bench.loading import find_load
from bench.parts import OPERATOR_KEY, Bench
from bench.scaling.figures import WORKER, Reading, Use
from bench.shares import Shares, Usage

FIXED = ("temporal", "postgresql", "api")
"""The parts of which there is one."""
_TENANTS = 4
_BATCH = 50
_LOOK_SECONDS = 0.1
_READY_SECONDS = 90.0
_WARM_SECONDS = 6.0
"""A new worker runs so long without a limit: with 0.14 cores, its first connections and polls would
take 20 s."""
_STOP_SECONDS = 60.0
_DRAIN_SECONDS = 240.0
_NOT_DELIVERED = ("retrying", "held", "paused", "dead", "gone", "cancelled")


class Session:
    """The running parts. `give` says how many cores each of them gets."""

    def __init__(self, bench: Bench, backing: Backing, shares: Shares) -> None:
        self._bench, self._backing, self._shares = bench, backing, shares
        self._workers: list[Part] = []
        self._mode = ""
        self._emitted = 0
        self._cores: dict[str, float | None] = dict.fromkeys((*FIXED, WORKER))
        self._tenants = cycle([""])

    async def prepare(self) -> None:
        """Create tenants, each with an endpoint at the sink."""
        tenants = []
        for number in range(_TENANTS):
            tenant = await create_tenant(self._bench, f"Tenant {number}")
            await create_endpoints(
                self._bench, [f"/{number}"], tenant=tenant, event_type=EVENT_TYPE
            )
            tenants.append(tenant)
        self._tenants = cycle(tenants)

    @asynccontextmanager
    async def feeding(self, waiting: int) -> AsyncIterator[None]:
        """Keep this many deliveries waiting while the block lasts; wait for the last one after it,
        without shares. Raises AssertionError if one is missing or failed."""
        feeder = asyncio.create_task(self._feed(waiting), name="feeder")
        try:
            yield
        finally:
            feeder.cancel()
            await asyncio.wait([feeder])
        assert feeder.cancelled(), feeder.exception()
        self.give(dict.fromkeys((*FIXED, WORKER)))
        async with asyncio.timeout(_DRAIN_SECONDS):
            while await self._bench.sunk() - await self.repeated() < self._emitted:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_SECONDS)
            while "pending" in (found := await count_unfinished(self._bench)):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_SECONDS)
        assert not any(found.get(status) for status in _NOT_DELIVERED), found

    async def repeated(self) -> int:
        """Return how many arrivals repeated an earlier one: Temporal gave the task of a worker that
        did not answer for ten seconds to another."""
        return int((await self._bench.client.get(f"{self._bench.sink}/duplicates")).text)

    def give(self, cores: Mapping[str, float | None]) -> None:
        """Give each of these parts so many cores, and each worker those of `worker`; None: all of
        the run's."""
        self._cores |= cores
        for name in FIXED:
            self._shares[name].limit(self._cores[name])
        for number, _ in enumerate(self._workers, 1):
            self._shares[f"{WORKER}-{number}"].limit(self._cores[WORKER])

    async def run_workers(self, count: int, *, mode: str) -> None:
        """Start or stop workers until this many run in this mode."""
        keep = count if mode == self._mode else 0
        self._mode = mode
        while len(self._workers) > keep:
            self._shares[f"{WORKER}-{len(self._workers)}"].limit(None)  # it ends sooner
            await self._workers.pop().kill(signal.SIGTERM, patience=_STOP_SECONDS)
        new = [self._worker(number) for number in range(len(self._workers) + 1, count + 1)]
        for part in new:
            await part.start()
            self._workers.append(part)
        for part in new:
            await _log_has(part, "The worker is ready.")
        if new:
            await asyncio.sleep(_WARM_SECONDS)
        self.give({})

    async def close(self) -> None:
        """End the workers."""
        while self._workers:
            await self._workers.pop().kill()

    async def measure(self, seconds: float) -> Reading:
        """Measure for so many seconds."""
        begun, before, sunk = time.monotonic(), self._usages(), await self._bench.sunk()
        await asyncio.sleep(seconds)
        took = time.monotonic() - begun
        after, arrived = self._usages(), await self._bench.sunk() - sunk
        uses = {}
        for name, usage in after.items():
            spent = usage.since(before[name])
            uses[name] = Use(
                cores=self._shares[name].cores or self._shares.cores,
                used=spent.seconds / took,
                throttled=spent.throttled / max(spent.periods, 1),
            )
        return Reading(arrived / took, uses)

    def _usages(self) -> dict[str, Usage]:
        workers = (f"{WORKER}-{number}" for number in range(1, len(self._workers) + 1))
        return {name: self._shares[name].usage() for name in (*FIXED, *workers)}

    async def _feed(self, waiting: int) -> None:
        while True:
            if self._emitted - await self._bench.sunk() > waiting - _BATCH:
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            events = [event(tenant=next(self._tenants))] * _BATCH
            answer = await self._bench.client.post(
                f"{self._bench.api}/v1/events/batch", json={"events": events}
            )
            assert answer.status_code == 202, answer.text
            self._emitted += _BATCH

    def _worker(self, number: int) -> Part:
        self._shares[f"{WORKER}-{number}"].limit(None)
        environment = _environment(self._backing) | {"HOOKFAST_FIRST_ATTEMPTS": self._mode}
        name = f"{self._mode}-{WORKER}-{number}"
        return self._backing.part(name, _command("worker"), environment)


@asynccontextmanager
async def running_session(home: Path, shares: Shares) -> AsyncIterator[Session]:
    """Run PostgreSQL, Temporal, an API and the sink while the block lasts."""
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    async with AsyncExitStack() as stack:
        backing = await stack.enter_async_context(
            running_backing(home, prefix=lambda part: shares[_group(part)].prefix)
        )
        client = await stack.enter_async_context(
            httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False)
        )
        sink = stack.enter_context(_running_sink())
        port = next(backing.ports)
        environment = _environment(backing) | {"HOOKFAST_PORT": str(port)}
        api = backing.part("api", _command("api"), environment)
        await _migrate(environment)
        stack.push_async_callback(api.kill)
        await api.start()
        await _ready(client, f"http://127.0.0.1:{port}/healthz")
        bench = Bench(
            api=f"http://127.0.0.1:{port}",
            temporal_address=backing.temporal_address,
            sink=sink,
            processes={},
            client=client,
            up=psutil.Process(),
        )
        session = Session(bench, backing, shares)
        stack.push_async_callback(session.close)
        await session.prepare()
        yield session


def _group(part: str) -> str:
    """Return the name of a part's group: `temporal` for `temporal-1`, `worker-2` for
    `batch-worker-2`."""
    kind = part.removesuffix("-1")
    return kind if kind in FIXED else part[part.index(WORKER) :]


@contextmanager
def _running_sink() -> Iterator[str]:
    command = find_load().sink
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as sink:
        try:
            assert sink.stdout is not None
            yield f"http://127.0.0.1:{int(sink.stdout.readline())}"
        finally:
            sink.terminate()


def _command(name: str) -> list[str]:
    return [sys.executable, "-m", "hookfast.cli", name]


def _environment(backing: Backing) -> dict[str, str]:
    return python_environment(ROOT) | {
        "HOOKFAST_HOME": str(backing.home / "hookfast"),
        "HOOKFAST_DATABASE_URL": backing.hookfast_url(),
        "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY,
        "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
        "HOOKFAST_ALLOW_HTTP": "true",
        "HOOKFAST_ALLOW_UNVERIFIED": "true",
        "HOOKFAST_WORKER_METRICS_PORT": "0",
        "HOOKFAST_LOG_FORMAT": "json",
        "TEMPORAL_ADDRESS": backing.temporal_address,
        "TEMPORAL_NAMESPACE": NAMESPACE,
    }


async def _migrate(environment: Mapping[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *_command("migrate"),
        env={**environment, "HOOKFAST_LOG_LEVEL": "warning"},
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() == 0


async def _ready(client: httpx2.AsyncClient, url: str) -> None:
    async with asyncio.timeout(_READY_SECONDS):
        while True:
            with suppress(httpx2.TransportError):
                if (await client.get(url)).status_code == 200:
                    return
            await asyncio.sleep(_LOOK_SECONDS)


async def _log_has(part: Part, words: str) -> None:
    try:
        async with asyncio.timeout(_READY_SECONDS):
            while words not in part.log.read_text():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise SystemExit(f"{part.name} did not start:\n{part.last_words()}") from None
