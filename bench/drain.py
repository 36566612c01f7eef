"""Measurement of the end of an outage: `make drain`.

The sink fails, the circuit opens and deliveries are held; then the sink recovers, and a probe is
requested at once. The result is read from the sink: arrivals per second, beside the ramp (5/s,
doubling every 5 s) that `hookfast.endpoints.circuit` promises the receiver.

In the same run, before and after, as many deliveries go to the same sink flat out, so that the cost
of holding and releasing a delivery can be compared with its usual cost. It prints tables, and
writes `bench/results/drain.svg`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvloop
from rich.console import Console
from rich.table import Table

from bench.delivery.events import BATCH, EVENT_TYPE, create_endpoints, create_tenant, event
from bench.drain_plot import drain_plot
from bench.parts import Bench, machine_seconds, running_bench, spent_since
from hookfast.endpoints.circuit import RAMP_STEP, ramp_rate

PLOT = Path(__file__).parent / "results" / "drain.svg"
console = Console()


@dataclass
class Phase:
    """A measured phase: seconds, CPU seconds by process, and those of other processes."""

    name: str
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    elsewhere: float = 0.0

    def __add__(self, other: Phase) -> Phase:
        cpu = {name: self.cpu[name] + other.cpu[name] for name in self.cpu}
        return Phase(
            f"{self.name} + {other.name}",
            self.seconds + other.seconds,
            cpu,
            self.elsewhere + other.elsewhere,
        )


@dataclass
class Drain:
    """The arrivals at the sink, in seconds from the first release, which follows the probe."""

    arrivals: list[float]
    held: list[tuple[float, int]]
    closed_after: float

    @property
    def measured(self) -> list[int]:
        """Arrivals in each second."""
        counts = [0] * (int(self.arrivals[-1]) + 1)
        for arrival in self.arrivals:
            counts[int(arrival)] += 1
        return counts

    @property
    def ramp(self) -> list[float]:
        """The rate of the ramp in each second."""
        return [ramp_at(second) for second in range(len(self.measured))]

    def held_after(self, second: int) -> int:
        """Return how many were held by the API's last answer in that second."""
        return next(count for at, count in reversed(self.held) if at <= second + 1)

    def worst_window(self) -> tuple[int, float, float]:
        """Find the window of one second with most arrivals beyond the ramp. Return the arrivals,
        the ramp at its end, and the time of its end."""
        first, worst = 0, (0, ramp_at(0), 0.0)
        for index, arrival in enumerate(self.arrivals):
            while self.arrivals[first] <= arrival - 1:
                first += 1
            count, rate = index - first + 1, ramp_at(arrival)
            if count - rate > worst[0] - worst[1]:
                worst = count, rate, arrival
        return worst


def ramp_at(second: float) -> float:
    """Return the deliveries per second that the ramp allows at this time."""
    return ramp_rate(int(second / RAMP_STEP.total_seconds()), None)


# -- the phases --------------------------------------------------------------------------------


@asynccontextmanager
async def measured(bench: Bench, phase: Phase) -> AsyncIterator[None]:
    """Measure the time and CPU of the block for a phase."""
    before, busy, own = bench.cpu_now(), machine_seconds(), time.process_time()
    begun = time.perf_counter()
    yield
    phase.seconds = time.perf_counter() - begun
    phase.cpu = spent_since(before, bench.cpu_now())
    ours = sum(phase.cpu.values()) + time.process_time() - own
    phase.elsewhere = max(0.0, machine_seconds() - busy - ours)


async def idle(bench: Bench, seconds: float) -> Phase:
    """Measure what the parts spend while nothing happens."""
    phase = Phase("idle")
    await asyncio.sleep(2)
    async with measured(bench, phase):
        await asyncio.sleep(seconds)
    return phase


async def flat_out(bench: Bench, name: str, count: int) -> Phase:
    """Emit in batches, and wait until the last delivery is recorded."""
    phase = Phase(name)
    await _tell_sink(bench, "reset")
    async with measured(bench, phase):
        await _emit(bench, count)
        await _until(bench.sunk, lambda sunk: sunk >= count)
        await _until(lambda: _pending(bench), lambda pending: not pending, every=0.01)
    return phase


async def hold(bench: Bench, endpoint: str, count: int) -> Phase:
    """Break the sink, let one delivery open the circuit, and wait until `count` are held."""
    phase = Phase("hold")
    await _tell_sink(bench, "break")
    await _emit(bench, 1)
    await _until(lambda: _health(bench, endpoint), lambda health: _state(health) == "open")
    async with measured(bench, phase):
        await _emit(bench, count)
        await _until(lambda: _health(bench, endpoint), lambda health: health["held"] >= count)
    return phase


async def drain(bench: Bench, endpoint: str) -> tuple[Phase, Drain]:
    """Repair the sink, request a probe, and watch until the circuit is closed."""
    phase = Phase("drain")
    await _tell_sink(bench, "reset")
    await _tell_sink(bench, "repair")
    held: list[tuple[float, int]] = []

    async def health() -> dict[str, Any]:
        answer = await _health(bench, endpoint)
        held.append((time.monotonic(), answer["held"]))
        return answer

    async with measured(bench, phase):
        await _post(bench, f"/v1/endpoints/{endpoint}/resume", {})  # an open circuit: probe now
        await _until(health, lambda answer: _state(answer) == "closed", every=0.25)
    arrivals = [at / 1e9 for at in (await _tell_sink(bench, "arrivals")).json()]
    zero = arrivals[1]  # the first released delivery; the one before it is the probe
    return phase, Drain(
        arrivals=[at - zero for at in arrivals[1:]],
        held=[(at - zero, count) for at, count in held],
        closed_after=held[-1][0] - zero,
    )


async def _until(
    ask: Callable[[], Awaitable[Any]], enough: Callable[[Any], bool], *, every: float = 0.05
) -> None:
    while not enough(await ask()):  # noqa: ASYNC110 - the other side is a process
        await asyncio.sleep(every)


async def _emit(bench: Bench, count: int) -> None:
    for start in range(0, count, BATCH):
        events = [event()] * min(BATCH, count - start)
        answer = await _post(bench, "/v1/events/batch", {"events": events})
        assert answer["accepted"] == len(events), answer


async def _post(bench: Bench, path: str, body: dict[str, Any]) -> Any:
    answer = await bench.client.post(f"{bench.api}{path}", json=body)
    assert answer.is_success, answer.text
    return answer.json()


async def _get(bench: Bench, path: str, **parameters: Any) -> Any:
    answer = await bench.client.get(f"{bench.api}{path}", params=parameters)
    assert answer.is_success, answer.text
    return answer.json()


async def _health(bench: Bench, endpoint: str) -> dict[str, Any]:
    health: dict[str, Any] = await _get(bench, f"/v1/endpoints/{endpoint}/health")
    return health


def _state(health: dict[str, Any]) -> str:
    return str(health["circuit"]["state"])


async def _pending(bench: Bench) -> bool:
    return bool((await _get(bench, "/v1/deliveries", status="pending", limit=1))["data"])


async def _tell_sink(bench: Bench, what: str) -> httpx2.Response:
    return await bench.client.get(f"{bench.sink}/{what}")


async def _register(bench: Bench) -> str:
    """Create a tenant with one endpoint, the sink, and return the endpoint's id."""
    tenant = await create_tenant(bench, "Bench")
    # One failure opens the circuit, and only the run itself probes it. The failed delivery is
    # retried after an hour, when the run is over.
    circuit = {"failure_threshold": 1, "min_span_seconds": 0, "probe_delays_seconds": [3600]}
    (endpoint,) = await create_endpoints(
        bench,
        ["/product"],
        tenant=tenant,
        event_type=EVENT_TYPE,
        circuit=circuit,
        retry_plan={"delays_seconds": [3600], "jitter": 0},
    )
    return endpoint


# -- the report --------------------------------------------------------------------------------


def _print_drain(drained: Drain) -> None:
    table = Table(title="Arrivals a second")
    for name in ("second", "ramp", "measured", "held left"):
        table.add_column(name, justify="right")
    pairs = zip(drained.ramp, drained.measured, strict=True)
    for second, (ramp, count) in enumerate(pairs):
        table.add_row(str(second), f"{ramp:g}", str(count), str(drained.held_after(second)))
    console.print(table)
    count, ramp, at = drained.worst_window()
    beyond = [count - ramp for count, ramp in zip(drained.measured, drained.ramp, strict=True)]
    console.print(
        f"{len(drained.arrivals)} released deliveries arrived in {drained.arrivals[-1]:.1f} s; the "
        f"circuit closed after {drained.closed_after:.1f} s.\n"
        f"Most beyond the ramp: {max(beyond):+g} in a second of the table; in any window of one "
        f"second {count - ramp:+g} ({count} at a ramp of {ramp:g}/s, {at:.1f} s).\n"
        f"Most in a second: {max(drained.measured)}."
    )


def _print_cost(phases: Sequence[Phase], resting: Phase, count: int) -> None:
    """Print the CPU per delivery. A drain is slow on purpose, so the last row is without the idle
    CPU of its time."""
    resting_rate = sum(resting.cpu.values()) / resting.seconds
    title = f"{count} deliveries a column, {os.cpu_count()} cores; CPU in ms per delivery"
    table = Table(title=title)
    for name in ("", *(phase.name for phase in phases)):
        table.add_column(name, justify="right")
    table.add_row("seconds", *(f"{phase.seconds:.1f}" for phase in phases))
    table.add_row("per second", *(f"{count / phase.seconds:.0f}" for phase in phases))
    for process in resting.cpu:
        table.add_row(process, *(f"{phase.cpu[process] / count * 1000:.2f}" for phase in phases))
    sums = [sum(phase.cpu.values()) for phase in phases]
    working = [
        spent - resting_rate * phase.seconds for spent, phase in zip(sums, phases, strict=True)
    ]
    table.add_row("sum", *(f"{spent / count * 1000:.2f}" for spent in sums))
    table.add_row("less idle", *(f"{spent / count * 1000:.2f}" for spent in working))
    rest = [phase.elsewhere / phase.seconds for phase in phases]
    table.add_row("others' CPU, %", *(f"{share * 100:.0f}" for share in rest))
    console.print(table)
    console.print(f"Idle, all parts together: {resting_rate * 100:.1f} % of a core.")


async def _main(arguments: argparse.Namespace) -> None:
    count = arguments.count
    with tempfile.TemporaryDirectory(prefix="hookfast-bench-") as home:
        async with running_bench(Path(home), postgresql=arguments.postgresql) as bench:
            endpoint = await _register(bench)
            console.print("warm-up, idle, flat out …", style="dim")
            await flat_out(bench, "warm-up", 500)
            resting = await idle(bench, 10)
            before = await flat_out(bench, "flat out 1", count)
            console.print(f"holding {count} …", style="dim")
            holding = await hold(bench, endpoint, count)
            console.print("draining …", style="dim")
            draining, drained = await drain(bench, endpoint)
            assert len(drained.arrivals) == count - 1, len(drained.arrivals)
            console.print("flat out again …", style="dim")
            after = await flat_out(bench, "flat out 2", count)
    _print_drain(drained)
    _print_cost([before, holding, draining, holding + draining, after], resting, count)
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(drain_plot(drained.measured, drained.ramp))
    console.print("The plot is in bench/results/drain.svg.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.drain", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="deliveries that are held")
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL, not SQLite")
    uvloop.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
