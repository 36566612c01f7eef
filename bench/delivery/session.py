"""A `hookfast up` in one mode on one database, and measurements against it.

A delivery counts when it is recorded as delivered. Each round ends when the sink has received each
of its deliveries once and the API has no pending one, and no round may leave a failed delivery. The
sink is polled often, because it is cheap and not part of the service; the API only when the sink
has everything, so that polling does not affect the figures.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.delivery.events import (
    BATCH,
    EVENT_TYPE,
    any_with,
    batch_body,
    count_unfinished,
    create_endpoints,
    create_tenant,
    single_body,
)
from bench.delivery.figures import BATCHES, FAN_OUT, FLOOR, SINGLES
from bench.delivery.floor import Floor
from bench.delivery.progress import Progress
from bench.loading import Load, Outcome, Plan
from bench.parts import Bench, machine_seconds, running_bench, spent_since

SHARED_TYPE = "order.invoice.shared"
ENDPOINTS = 100
"""Subscriptions to SHARED_TYPE."""
CONNECTIONS = 16
_SETTLED_SECONDS = 1.0
"""Pause between two measurements, for the work that the first one left: Temporal's search records
and the marks of the outbox."""
_STALLED_SECONDS = 60.0
_FIRST_ROUND = {FLOOR: 150, BATCHES: 500, SINGLES: 200, FAN_OUT: 500}
"""Deliveries of the first round, when the speed is not known yet."""
_NOT_DELIVERED = ("retrying", "held", "paused", "dead", "gone", "cancelled")


@dataclass(frozen=True, slots=True)
class Way:
    """A way to emit: requests with this body, each of which causes this many deliveries."""

    path: str
    body: str
    per_request: int
    connections: int
    expect: str = ""


@dataclass(slots=True)
class Round:
    """A round: its deliveries, seconds and CPU seconds by process. `elsewhere` is how many cores
    other processes kept busy."""

    count: int
    seconds: float
    cpu: dict[str, float]
    elsewhere: float


class Elsewhere:
    """Measures how busy other processes keep the machine, from now on."""

    def __init__(self) -> None:
        self._before = machine_seconds()

    def cores(self, seconds: float, own: Mapping[str, float]) -> float:
        """Return the busy cores of other processes, if our own spent this many CPU seconds."""
        spent = machine_seconds() - self._before - sum(own.values())
        return max(0.0, spent / seconds)


@dataclass(slots=True)
class Session:
    """The parts of a run, and the latest speed of each way to emit."""

    bench: Bench
    load: Load
    progress: Progress
    database: str
    mode: str
    tenant: str
    ways: dict[str, Way]
    floor_process: Floor | None = None
    rates: dict[str, float] = field(default_factory=dict)
    rounds: Counter[str] = field(default_factory=Counter)

    async def floor(self, *, seconds: float) -> Round:
        """Run a round of the floor of about this length."""
        if self.floor_process is None:
            self.floor_process = await Floor.start(self.bench)
        await asyncio.sleep(_SETTLED_SECONDS)
        count = self._count(FLOOR, seconds, each=1)
        elsewhere = Elsewhere()
        took, cpu = await self.floor_process.deliver(count)
        self.rates[FLOOR] = count / took
        return Round(count, took, cpu, elsewhere.cores(took, cpu))

    async def deliver(self, name: str, *, seconds: float, count: int | None = None) -> Round:
        """Run a round of this way in a closed loop, of about this length or with `count`
        deliveries."""
        way = self.ways[name]
        await asyncio.sleep(_SETTLED_SECONDS)
        if count is None:
            count = self._count(name, seconds, each=way.per_request)
        plan = Plan(
            url=self.bench.api + way.path,
            bodies=(way.body,),
            count=count // way.per_request,
            connections=way.connections,
            expect=way.expect,
        )
        elsewhere = Elsewhere()
        outcome, cpu = await self.send(plan, deliveries=count)
        took = (time.monotonic_ns() - outcome.begun) / 1e9
        self.rates[name] = count / took
        self.rounds[name] += 1
        busy = elsewhere.cores(took, cpu)
        await self.assert_all_delivered(count)
        return Round(count, took, cpu, busy)

    async def warm_up(self) -> None:
        """Warm every process up."""
        for name in (BATCHES, SINGLES):
            await self.deliver(name, seconds=1)

    async def capacity(self) -> float:
        """Return this mode's single events a second, measured now if no round was before."""
        if self.rounds[SINGLES] == 0:
            await self.warm_up()
        if self.rounds[SINGLES] == 1:  # that was the warm-up
            await self.deliver(SINGLES, seconds=3)
        return self.rates[SINGLES]

    async def send(self, plan: Plan, *, deliveries: int) -> tuple[Outcome, dict[str, float]]:
        """Reset the sink, send a plan, and wait until this many deliveries are recorded. Return the
        outcome of the plan, and the CPU seconds by process."""
        await self.ask_sink("reset")
        before = self.bench.cpu_now()
        outcome = await self.load.send(plan)
        await self.until_recorded(deliveries)
        cpu = spent_since(before, self.bench.cpu_now())
        return outcome, cpu | {"load generator": outcome.cpu_seconds}

    async def until_recorded(self, deliveries: int) -> None:
        """Wait until the sink has received this many and no delivery is pending. Raises
        AssertionError if no more arrive."""
        most, moved = -1, time.monotonic()
        while (sunk := await self.bench.sunk()) < deliveries:
            if sunk > most:
                most, moved = sunk, time.monotonic()
            if time.monotonic() - moved > _STALLED_SECONDS:
                left = await count_unfinished(self.bench)
                raise AssertionError(f"{sunk} of {deliveries} deliveries came; left are {left}")
            await asyncio.sleep(0.02)
        moved = time.monotonic()
        while await any_with(self.bench, "pending"):
            stalled = time.monotonic() - moved
            assert stalled < _STALLED_SECONDS, "deliveries came and are still pending"
            await asyncio.sleep(0.05)

    async def assert_all_delivered(self, deliveries: int) -> None:
        """Assert that each delivery arrived once and none is left or failed."""
        sunk, twice = await self.bench.sunk(), await self.ask_sink("duplicates")
        assert sunk == deliveries, f"{sunk} requests for {deliveries} deliveries"
        assert not twice, f"{twice} deliveries came twice"
        for status in _NOT_DELIVERED:
            assert not await any_with(self.bench, status), f"a delivery is {status}"

    async def ask_sink(self, what: str) -> Any:
        """Return the sink's answer."""
        return (await self.bench.client.get(f"{self.bench.sink}/{what}")).json()

    def _count(self, name: str, seconds: float, *, each: int) -> int:
        rate = self.rates.get(name)
        count = _FIRST_ROUND[name] if rate is None else int(rate * seconds)
        return max(count // each, 1) * each


@asynccontextmanager
async def running_session(
    load: Load,
    progress: Progress,
    *,
    database: str,
    mode: str,
    workers: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Session]:
    """Run a `hookfast up` in this mode while the block lasts."""
    progress.say("starting `hookfast up`")
    with tempfile.TemporaryDirectory(prefix="hookfast-bench-") as home:
        async with running_bench(
            Path(home),
            postgresql=database == "postgresql",
            settings={"HOOKFAST_FIRST_ATTEMPTS": mode, **(settings or {})},
            workers=workers,
            sink_command=load.sink,
        ) as bench:
            tenant = await create_tenant(bench, "Bench")
            await create_endpoints(bench, ["/product"], tenant=tenant, event_type=EVENT_TYPE)
            shared = [f"/shared/{number}" for number in range(ENDPOINTS)]
            await create_endpoints(bench, shared, tenant=tenant, event_type=SHARED_TYPE)
            session = Session(bench, load, progress, database, mode, tenant, ways_of(tenant=tenant))
            try:
                yield session
            finally:
                if session.floor_process is not None:
                    await session.floor_process.aclose()


def ways_of(*, tenant: str) -> dict[str, Way]:
    """Return the ways to emit events, by name."""
    return {
        BATCHES: Way(
            path="/v1/events/batch",
            body=batch_body(EVENT_TYPE, tenant=tenant),
            per_request=BATCH,
            connections=2,
            expect=f'"accepted":{BATCH}',
        ),
        SINGLES: Way(
            path="/v1/events",
            body=single_body(EVENT_TYPE, tenant=tenant),
            per_request=1,
            connections=CONNECTIONS,
            expect='"deliveries":1',
        ),
        FAN_OUT: Way(
            path="/v1/events",
            body=single_body(SHARED_TYPE, tenant=tenant),
            per_request=ENDPOINTS,
            connections=2,
            expect=f'"deliveries":{ENDPOINTS}',
        ),
    }
