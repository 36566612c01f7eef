"""The load of each column of the table, and how much it raised each counter."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from temporalio.client import Client

from bench.delivery.events import BATCH, EVENT_TYPE, any_with, event
from bench.delivery.floor import Floor
from bench.footprint.figures import Key, Measure, Reading, Span, rise
from bench.footprint.stores import Stores, size_of_file
from bench.parts import Bench, cpu_seconds, part_kind
from hookfast.clock import utc_now

TEMPORAL, WORKER, FLOOR, SQLITE = "Temporal's server", "worker", "floor", "Temporal's SQLite"
RETRIED_TYPE = "order.invoice.retried"
_SETTLED = 4.0
"""Seconds until the marks of the outbox, Temporal's visibility and PostgreSQL's statistics are
written."""
_OURS = ("api", WORKER, "temporal")
_REQUESTS = re.compile(r"^temporal_(?:long_)?request(?:_total)?\{.*\} (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Mark:
    """The counters when the load before had settled, and again when the next load began: between
    them is what measuring costs."""

    ended: Reading
    ended_at: float
    begun: Reading
    begun_at: float
    at: datetime


@dataclass(slots=True)
class Meter:
    """Reads everything that is counted in an installation."""

    bench: Bench
    client: Client
    stores: Stores
    metrics: str
    """URL of the worker's metrics, where it counts its requests to Temporal."""
    sqlite: Path
    """The file of the embedded Temporal, which need not exist."""
    floor: Floor | None = None

    @asynccontextmanager
    async def with_floor(self) -> AsyncIterator[Floor]:
        """Run the floor's process while the block lasts, and measure it."""
        self.floor = await Floor.start(self.bench)
        try:
            yield self.floor
        finally:
            await self.floor.aclose()
            self.floor = None

    async def span_of(self, load: Callable[[], Awaitable[object]]) -> Span:
        """Run a load, and return what it raised."""
        before = await self._mark()
        await load()
        after = await self._mark()
        risen = {**rise(before.begun, after.ended), **await self._runs_since(before.at)}
        return Span(risen, after.ended_at - before.begun_at)

    async def _mark(self) -> _Mark:
        await asyncio.sleep(_SETTLED)
        ended, ended_at = await self._counters(), time.monotonic()
        sizes = dict(await self.stores.sizes())
        if self.sqlite.exists():
            sizes[Key(SQLITE, Measure.DISK)] = size_of_file(self.sqlite)
        begun, begun_at = await self._counters(), time.monotonic()
        return _Mark({**ended, **sizes}, ended_at, {**begun, **sizes}, begun_at, utc_now())

    async def _counters(self) -> dict[Key, float]:
        reading = dict(await self.stores.counters())
        for name, process in self.bench.processes.items():
            if (kind := part_kind(name)) in _OURS:
                key = Key(TEMPORAL if kind == "temporal" else kind, Measure.CPU)
                reading[key] = reading.get(key, 0.0) + cpu_seconds(process)
        if self.floor is not None:
            reading[Key(FLOOR, Measure.CPU)] = cpu_seconds(self.floor.process)
        text = (await self.bench.client.get(self.metrics)).text
        found = _REQUESTS.findall(text)
        reading[Key(TEMPORAL, Measure.REQUESTS)] = float(sum(map(int, found)))
        return reading

    async def _runs_since(self, since: datetime) -> dict[Key, float]:
        """Count the workflow runs that began since then and have ended, and their histories."""
        runs = events = size = 0
        query = f"StartTime >= '{since:%Y-%m-%dT%H:%M:%S.%fZ}' AND ExecutionStatus != 'Running'"
        async for found in self.client.list_workflows(query):
            runs += 1
            events += found.raw_info.history_length
            size += found.raw_info.history_size_bytes
        counts = {Measure.RUNS: runs, Measure.EVENTS: events, Measure.HISTORY: size}
        return {Key(TEMPORAL, measure): float(count) for measure, count in counts.items()}


async def singles(bench: Bench, tenant: str, *, count: int, rate: float) -> None:
    """Emit events one request at a time at a fixed rate, and wait until all are delivered."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for number in range(count):
        await asyncio.sleep(max(0.0, begun + number / rate - loop.time()))
        body = event(EVENT_TYPE, tenant=tenant)
        answer = await bench.client.post(f"{bench.api}/v1/events", json=body)
        assert answer.status_code == 202, answer.text
    await _until_delivered(bench)


async def hundreds(bench: Bench, tenant: str, *, count: int, event_type: str = EVENT_TYPE) -> None:
    """Emit events up to a hundred at a time, and wait until all are delivered."""
    for sent in range(0, count, BATCH):
        batch = [event(event_type, tenant=tenant)] * min(BATCH, count - sent)
        answer = await bench.client.post(f"{bench.api}/v1/events/batch", json={"events": batch})
        assert answer.status_code == 202, answer.text
    await _until_delivered(bench)


async def _until_delivered(bench: Bench) -> None:
    for status in ("pending", "retrying"):  # in this order: a failed first attempt goes this way
        while await any_with(bench, status):  # noqa: ASYNC110 - the other side is a process
            await asyncio.sleep(0.5)
