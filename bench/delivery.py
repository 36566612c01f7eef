"""The floor and the product, measured in one run on one machine: `make bench`.

(a) floor    a bare workflow with eager start and one local activity that does the signed POST
(b) product  emit over HTTP → stored → relayed → delivered → recorded, as `hookfast up` runs it

Both deliver to the same sink through the same Temporal dev server, in turns (a, b, a, b, …), so
that a machine whose speed drifts drifts for both. Then single events at a fixed rate, for the
latencies.
CPU is every process's own user + system time over the measured span.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil
import uvloop
from rich.console import Console
from rich.table import Table

OPERATOR_KEY = "hf_" + "b" * 40
EVENT_TYPE = "order.invoice.paid"
IN_FLIGHT = 64
BATCH = 100
console = Console()


@dataclass
class Side:
    """One side's rounds: deliveries per second, and CPU milliseconds per delivery by process."""

    name: str
    rates: list[float] = field(default_factory=list)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def add(self, count: int, seconds: float, cpu: dict[str, float]) -> None:
        self.rates.append(count / seconds)
        for process, spent in cpu.items():
            self.cpu.setdefault(process, []).append(spent / count * 1000)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


@dataclass
class Bench:
    """The parts that run during the whole measurement."""

    api: str
    temporal_address: str
    sink: str
    processes: dict[str, psutil.Process]
    client: httpx2.AsyncClient

    def cpu_now(self) -> dict[str, float]:
        """CPU seconds spent so far, by process."""
        return {name: _cpu(process) for name, process in self.processes.items()}

    async def sunk(self) -> int:
        return int((await self.client.get(f"{self.sink}/count")).text)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: after[name] - before[name] for name in before}


# -- the parts ---------------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _process(*command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, *command], text=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


@asynccontextmanager
async def running_bench(home: Path) -> AsyncIterator[Bench]:
    """`hookfast up` in a folder of its own, and the sink."""
    port, temporal_port, ui_port = _free_port(), _free_port(), _free_port()
    environment = os.environ | {
        "HOOKFAST_HOME": str(home),
        "HOOKFAST_PORT": str(port),
        "HOOKFAST_TEMPORAL_PORT": str(temporal_port),
        "HOOKFAST_TEMPORAL_UI_PORT": str(ui_port),
        "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY,
        "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
        "HOOKFAST_ALLOW_HTTP": "true",
        "HOOKFAST_ALLOW_UNVERIFIED": "true",
        "HOOKFAST_LOG_LEVEL": "warning",
    }
    log = (home / "up.log").open("w")
    with (
        log,
        _process("-m", "bench.sink", stdout=subprocess.PIPE) as sink,
        _process(
            "-m", "hookfast.cli", "up", env=environment, stdout=log, stderr=subprocess.STDOUT
        ) as up,
    ):
        assert sink.stdout is not None
        sink_url = f"http://127.0.0.1:{int(sink.stdout.readline())}"
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as client:
            api = f"http://127.0.0.1:{port}"
            await _until_ready(client, api, up)
            yield Bench(
                api=api,
                temporal_address=f"127.0.0.1:{temporal_port}",
                sink=sink_url,
                processes=_parts_of(up) | {"sink": psutil.Process(sink.pid)},
                client=client,
            )


async def _until_ready(client: httpx2.AsyncClient, api: str, up: subprocess.Popen[str]) -> None:
    for _ in range(600):
        if up.poll() is not None:
            raise SystemExit("hookfast up ended; see its log")
        try:
            if (await client.get(f"{api}/readyz")).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        await asyncio.sleep(0.1)
    raise SystemExit("hookfast up did not become ready in 60 s")


def _parts_of(up: subprocess.Popen[str]) -> dict[str, psutil.Process]:
    parts = {}
    for child in psutil.Process(up.pid).children(recursive=True):
        command = child.cmdline()
        for name in ("api", "worker"):
            if "hookfast.cli" in command and name in command:
                parts[name] = child
        if "start-dev" in command:
            parts["temporal"] = child
    assert len(parts) == 3, parts
    return parts


# -- the two sides -----------------------------------------------------------------------------


async def measure_floor(bench: Bench, side: Side, count: int) -> None:
    """One round of (a), in a process of its own."""
    environment = os.environ | {"TEMPORAL_ADDRESS": bench.temporal_address}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.floor", f"{bench.sink}/floor", str(count), str(IN_FLIGHT)),
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    while (line := await process.stdout.readline()).strip() != b"ready":
        assert line, "the floor ended early"
    floor = psutil.Process(process.pid)
    before = bench.cpu_now() | {"worker": _cpu(floor)}
    process.stdin.write(b"go\n")
    seconds = json.loads(await process.stdout.readline())["seconds"]
    after = bench.cpu_now() | {"worker": _cpu(floor)}
    process.stdin.write(b"done\n")
    await process.wait()
    side.add(count, seconds, _spent(before, after))


async def measure_product(bench: Bench, side: Side, count: int) -> None:
    """One round of (b): emitted in batches, until the last one is recorded as delivered."""
    await bench.client.get(f"{bench.sink}/reset")
    batch = {"events": [_event() for _ in range(BATCH)]}
    body = json.dumps(batch).encode()
    before, own_before = bench.cpu_now(), time.process_time()
    begun = time.perf_counter()
    for _ in range(count // BATCH):
        answer = await bench.client.post(
            f"{bench.api}/v1/events/batch",
            content=body,
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 202, answer.text
        assert answer.json()["accepted"] == BATCH
    while await bench.sunk() < count:  # noqa: ASYNC110 - the other side is a process
        await asyncio.sleep(0.05)
    while await _unfinished(bench):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    seconds = time.perf_counter() - begun
    spent = _spent(before, bench.cpu_now())
    spent["load generator"] = time.process_time() - own_before
    side.add(count, seconds, spent)


async def _unfinished(bench: Bench) -> bool:
    answer = await bench.client.get(
        f"{bench.api}/v1/deliveries", params={"status": "pending", "limit": 1}
    )
    return bool(answer.json()["data"])


async def measure_latency(
    bench: Bench, side: Side, *, rate: float, seconds: float
) -> dict[str, list[float]]:
    """Single events at a fixed rate: milliseconds to the 202, and from the emit to the sink."""
    await bench.client.get(f"{bench.sink}/reset")
    accepted: list[float] = []
    before, own_before = bench.cpu_now(), time.process_time()

    async def emit() -> None:
        sent_at = time.monotonic_ns()
        answer = await bench.client.post(f"{bench.api}/v1/events", json=_event(sent_at))
        accepted.append((time.monotonic_ns() - sent_at) / 1e6)
        assert answer.status_code == 202, answer.text

    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, begun + number / rate - loop.time()))
            group.create_task(emit())
    while await bench.sunk() < len(accepted):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    spent = _spent(before, bench.cpu_now())
    spent["load generator"] = time.process_time() - own_before
    side.add(len(accepted), loop.time() - begun, spent)
    report = (await bench.client.get(f"{bench.sink}/report")).json()
    return {"accept": accepted, "emit → sink": report}


def _event(sent_at: int = 0) -> dict[str, Any]:
    return {"type": EVENT_TYPE, "data": {"sent_at": sent_at, "filler": "x" * 300}}


async def _register(bench: Bench) -> None:
    """A tenant with one endpoint, the sink."""
    post = bench.client.post
    await bench.client.put(f"{bench.api}/v1/event-types/{EVENT_TYPE}", json={})
    tenant = (await post(f"{bench.api}/v1/tenants", json={"name": "Bench"})).json()["id"]
    answer = await post(
        f"{bench.api}/v1/endpoints",
        json={
            "url": f"{bench.sink}/product",
            "tenant_id": tenant,
            "events": ["order.**"],
            "verification": "none",
        },
    )
    assert answer.status_code == 201, answer.text


# -- the report --------------------------------------------------------------------------------


def _report(sides: list[Side], latencies: dict[str, list[float]]) -> None:
    floor, product, single = sides
    processes = ["temporal", "worker", "api", "sink", "load generator"]
    title = f"Medians of {len(floor.rates)} rounds, {os.cpu_count()} cores; CPU ms per delivery"
    table = Table(title=title)
    for name in ("", "deliveries/s", *processes, "sum"):
        table.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    for side in sides:
        costs = [statistics.median(side.cpu.get(name, [0.0])) for name in processes]
        table.add_row(
            side.name,
            f"{side.rate:.0f} ({min(side.rates):.0f}–{max(side.rates):.0f})",
            *(f"{cost:.2f}" for cost in costs),
            f"{sum(costs):.2f}",
        )
    console.print(table)
    ratios = [b / a for a, b in zip(floor.rates, product.rates, strict=True)]
    console.print(
        f"product / floor: {statistics.median(ratios):.2f} "
        f"(by round: {', '.join(f'{ratio:.2f}' for ratio in ratios)})"
    )
    table = Table(title=f"{single.name.capitalize()}, ms")
    for name in ("", "count", "p50", "p95", "p99", "max"):
        table.add_column(name, justify="right")
    for name, values in latencies.items():
        cuts = statistics.quantiles(values, n=100)
        figures = (cuts[49], cuts[94], cuts[98], max(values))
        table.add_row(name, str(len(values)), *(f"{figure:.1f}" for figure in figures))
    console.print(table)


async def _main(arguments: argparse.Namespace) -> None:
    floor, product = Side("(a) floor"), Side("(b) product")
    with tempfile.TemporaryDirectory(prefix="hookfast-bench-") as home:
        async with running_bench(Path(home)) as bench:
            await _register(bench)
            await measure_product(bench, Side("warm-up"), 500)
            for number in range(arguments.rounds):
                console.print(f"round {number + 1} of {arguments.rounds} …", style="dim")
                await measure_floor(bench, floor, arguments.count)
                await measure_product(bench, product, arguments.count)
            console.print("fixed rate …", style="dim")
            await asyncio.sleep(3)
            single = Side(f"singles at {arguments.rate:g}/s")
            latencies = await measure_latency(
                bench, single, rate=arguments.rate, seconds=arguments.seconds
            )
    _report([floor, product, single], latencies)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.delivery", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of (a) and (b)")
    parser.add_argument("--count", type=int, default=2000, help="deliveries a round and side")
    parser.add_argument("--rate", type=float, default=50, help="single events a second")
    parser.add_argument("--seconds", type=float, default=30, help="how long the single events run")
    uvloop.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
