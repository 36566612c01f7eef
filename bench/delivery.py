"""The floor and the product, measured in one run on one machine: `make bench`.

(a) floor    a bare workflow with eager start and one local activity that does the signed POST
(b) product  emit over HTTP → stored → relayed → delivered → recorded, as `hookfast up` runs it

Both deliver to the same sink through the same Temporal dev server, in turns (a, b, a, b, …), so
that a machine whose speed drifts drifts for both. Then single events at a fixed rate, for the
latencies.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from bench.parts import Bench, cpu_seconds, running_bench, spent_since

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
    before = bench.cpu_now() | {"worker": cpu_seconds(floor)}
    process.stdin.write(b"go\n")
    seconds = json.loads(await process.stdout.readline())["seconds"]
    after = bench.cpu_now() | {"worker": cpu_seconds(floor)}
    process.stdin.write(b"done\n")
    await process.wait()
    side.add(count, seconds, spent_since(before, after))


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
    spent = spent_since(before, bench.cpu_now())
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
    spent = spent_since(before, bench.cpu_now())
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
    for name in ("", *(side.name for side in sides)):
        table.add_column(name, justify="right")
    table.add_row(
        "deliveries/s",
        *(f"{side.rate:.0f} ({min(side.rates):.0f}–{max(side.rates):.0f})" for side in sides),
    )
    costs = [[statistics.median(side.cpu.get(name, [0.0])) for name in processes] for side in sides]
    for name, row in zip(processes, zip(*costs, strict=True), strict=True):
        table.add_row(name, *(f"{cost:.2f}" for cost in row))
    table.add_row("sum", *(f"{sum(column):.2f}" for column in costs))
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
