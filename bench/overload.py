"""More new events than the machine can deliver, and the delay for other work: `make overload`.

A receiver fails first attempts, whose retries are due 20 s later. Meanwhile the worker is killed
and started again, and new events for another endpoint come faster than they can be delivered. The
measurements, without and with that flood:

- the lateness of the retries: from when they are due to the sink;
- the wait of a person who resends a delivery again and again: from the request to the sink.

The flood must not change them; its own deliveries wait for each other.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from bench.delivery.events import BATCH, create_endpoints, create_tenant
from bench.parts import Bench, running_bench

DELAY = 20
PATIENCE = 5 * DELAY
NAMES = ("retried", "asked", "new")
FORGOTTEN = 12
"""Seconds after which a worker forgets that retries ran late."""
console = Console()


@dataclass
class Side:
    """One part of the run, with its own tenant. Times are in seconds."""

    name: str
    bench: Bench
    tenant: str = ""
    lateness: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    new_per_second: float = 0.0

    async def measure(self, *, retries: int, flood: float) -> None:
        """Let `retries` become due while `flood` new events a second come."""
        get = self.bench.client.get
        await self._register()
        await asyncio.sleep(FORGOTTEN)
        await get(f"{self.bench.sink}/break")
        await self._emit("retried", retries)
        while await self._count("retried", "retrying") < retries:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
        await get(f"{self.bench.sink}/repair")
        await get(f"{self.bench.sink}/reset")
        self.bench.processes["worker"].kill()  # so that the deliveries are in no worker's cache
        begun, over = time.monotonic(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._flood(flood, over))
            group.create_task(self._ask(over))
            while len(late := await self._latencies("retried")) < retries:
                if time.monotonic() - begun > PATIENCE:
                    console.print(f"{retries - len(late)} retries did not come", style="red")
                    break
                await asyncio.sleep(0.1)
            self.new_per_second = len(await self._latencies("new")) / (time.monotonic() - begun)
            over.set()
        self.lateness = [milliseconds / 1000 - DELAY for milliseconds in late]

    async def _flood(self, rate: float, over: asyncio.Event) -> None:
        if rate:
            while not await _is_over_after(BATCH / rate, over):
                await self._emit("new", BATCH)

    async def _ask(self, over: asyncio.Event) -> None:
        """Resend one delivery as a person would, and again when it has arrived."""
        await self._emit("asked", 1)
        await self._until_asked_came(1, over)
        listed = await self.bench.client.get(
            f"{self.bench.api}/v1/deliveries",
            params={"event_type": _type("asked"), "tenant_id": self.tenant},
        )
        delivery = listed.json()["data"][0]["id"]
        came = 1
        while not await _is_over_after(1.0, over):
            asked, came = time.monotonic(), came + 1
            answer = await self.bench.client.post(
                f"{self.bench.api}/v1/deliveries/{delivery}/resend"
            )
            assert answer.status_code == 202, answer.text
            await self._until_asked_came(came, over)
            self.waits.append(time.monotonic() - asked)

    async def _until_asked_came(self, times: int, over: asyncio.Event) -> None:
        while len(await self._latencies("asked")) < times and not over.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def _emit(self, name: str, count: int) -> None:
        for first in range(0, count, BATCH):
            data = {"sent_at": time.monotonic_ns(), "filler": "x" * 300}
            event = {"type": _type(name), "tenant_id": self.tenant, "data": data}
            answer = await self.bench.client.post(
                f"{self.bench.api}/v1/events/batch",
                json={"events": [event] * min(BATCH, count - first)},
            )
            assert answer.status_code == 202, answer.text

    async def _latencies(self, name: str) -> list[float]:
        """Return the milliseconds from the emit to the sink."""
        return list((await self.bench.client.get(f"{self.bench.sink}/report/{name}")).json())

    async def _count(self, name: str, status: str) -> int:
        chosen = {"event_type": _type(name), "tenant_id": self.tenant, "status": [status]}
        answer = await self.bench.client.post(
            f"{self.bench.api}/v1/deliveries/actions",
            json={"action": "cancel", "filter": chosen, "dry_run": True},
        )
        return int(answer.json()["matching"])

    async def _register(self) -> None:
        self.tenant = await create_tenant(self.bench, self.name)
        for name in NAMES:
            await create_endpoints(
                self.bench,
                [f"/{name}"],
                tenant=self.tenant,
                event_type=_type(name),
                retry_plan={"delays_seconds": [DELAY] * 3, "jitter": 0},
            )


async def _is_over_after(seconds: float, over: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await over.wait()
    except TimeoutError:
        return False
    return True


def _type(name: str) -> str:
    return f"order.invoice.{name}"


def _show(sides: Sequence[Side]) -> None:
    table = Table(title="Seconds")
    for name in ("", *(side.name for side in sides)):
        table.add_column(name, justify="right")
    for title, of in (("retries late", "lateness"), ("a resend takes", "waits")):
        table.add_row(
            f"{title}: p50 / p95 / max", *(_quantiles(getattr(side, of)) for side in sides)
        )
    table.add_row("resends", *(str(len(side.waits)) for side in sides))
    table.add_row("new deliveries a second", *(f"{side.new_per_second:.0f}" for side in sides))
    console.print(table)


def _quantiles(values: list[float]) -> str:
    if len(values) < 2:
        return "–"
    cuts = statistics.quantiles(values, n=20)
    return f"{cuts[9]:.2f} / {cuts[18]:.2f} / {max(values):.2f}"


async def _main(arguments: argparse.Namespace) -> None:
    sides = []
    with tempfile.TemporaryDirectory(prefix="hookfast-bench-") as home:
        async with running_bench(Path(home)) as bench:
            for name, flood in (("quiet", 0.0), ("overloaded", arguments.flood)):
                console.print(f"{name} …", style="dim")
                sides.append(Side(name, bench))
                await sides[-1].measure(retries=arguments.retries, flood=flood)
                bench.renew()
    _show(sides)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m bench.overload", description=__doc__)
    parser.add_argument("--retries", type=int, default=300, help="due together, in each part")
    parser.add_argument("--flood", type=float, default=200, help="new events a second")
    uvloop.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
