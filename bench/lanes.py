"""Ordered deliveries a second, by the number of ordering keys, against deliveries without order in
the same run: `make lanes-bench`.

Each row emits its events in batches of 100, as fast as they are accepted, and ends when the sink
has received them all. With one key, a delivery begins when the one before it is recorded, so its
rate is the time from an answer to the next request. The sink checks the order of nothing; `make
chaos ORDERED=50` does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from bench.delivery.events import BATCH, create_endpoints, create_tenant, event
from bench.parts import Bench, running_bench, spent_since

PLAIN, ORDERED = "order.invoice.paid", "order.invoice.settled"
KEYS = (1, 50, 1_000)
_STALLED_SECONDS = 60.0
console = Console()


@dataclass(frozen=True, slots=True)
class Row:
    """A measured row of the table: deliveries, seconds, and CPU seconds of all parts."""

    name: str
    count: int
    seconds: float
    cpu: float


async def measure(bench: Bench, name: str, tenant: str, *, keys: int, count: int) -> Row:
    """Emit this many events, of one ordering key after the other (0: without order), and wait
    until all are received."""
    await bench.client.get(f"{bench.sink}/reset")
    before, begun = bench.cpu_now(), time.monotonic()
    for start in range(0, count, BATCH):
        events = [
            event(ORDERED if keys else PLAIN, tenant=tenant)
            | ({"ordering_key": str(number % keys)} if keys else {})
            for number in range(start, min(start + BATCH, count))
        ]
        answer = await bench.client.post(f"{bench.api}/v1/events/batch", json={"events": events})
        assert answer.json()["accepted"] == len(events), answer.text
    most, moved = -1, time.monotonic()
    while (sunk := await bench.sunk()) < count:
        if sunk > most:
            most, moved = sunk, time.monotonic()
        assert time.monotonic() - moved < _STALLED_SECONDS, f"{sunk} of {count} arrived"
        await asyncio.sleep(0.05)
    seconds = time.monotonic() - begun
    cpu = sum(spent_since(before, bench.cpu_now()).values())
    return Row(name, count, seconds, cpu)


async def _main(arguments: argparse.Namespace) -> None:
    rows = []
    with tempfile.TemporaryDirectory(prefix="hookfast-bench-") as home:
        async with running_bench(Path(home), postgresql=arguments.postgresql) as bench:
            tenant = await create_tenant(bench, "Bench")
            await create_endpoints(bench, ["/product"], tenant=tenant, event_type=PLAIN)
            await create_endpoints(
                bench, ["/product"], tenant=tenant, event_type=ORDERED, ordered=True
            )
            for name, keys in (("warm-up", 0), ("warm-up", 50), ("no order", 0)):
                rows.append(await measure(bench, name, tenant, keys=keys, count=arguments.count))
            for keys in KEYS:
                # one lane is slow: a tenth is enough to see its rate
                count = arguments.count if keys > 1 else max(BATCH, arguments.count // 10)
                name = f"{keys:,} {'key' if keys == 1 else 'keys'}"
                rows.append(await measure(bench, name, tenant, keys=keys, count=count))
    database = "PostgreSQL" if arguments.postgresql else "SQLite"
    table = Table(title=f"Ordered deliveries on {database}, {os.cpu_count()} cores")
    for title in ("", "deliveries", "seconds", "per second", "CPU ms each"):
        table.add_column(title, justify="right")
    for row in rows:
        if row.name != "warm-up":
            rate, each = row.count / row.seconds, row.cpu / row.count * 1000
            table.add_row(
                row.name, f"{row.count:,}", f"{row.seconds:.1f}", f"{rate:.0f}", f"{each:.1f}"
            )
    console.print(table)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.lanes", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="deliveries of a row")
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL, not SQLite")
    uvloop.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
