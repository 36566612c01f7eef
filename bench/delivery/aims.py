"""The aims, and whether a run reached them. Rates are in multiples of the run's own floor."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from bench.delivery.figures import (
    BATCHES,
    SINGLES,
    BlackHole,
    Burst,
    Fairness,
    Figures,
    Latency,
    Memory,
    Rates,
)

_DEFAULT = "auto"
_BATCHING = (_DEFAULT, "batch")
_RATES: dict[tuple[str, str], tuple[float, float | None]] = {
    ("sqlite", BATCHES): (14.0, 20.0),
    ("sqlite", SINGLES): (9.0, 12.0),
    ("postgresql", BATCHES): (12.0, 20.0),
    ("postgresql", SINGLES): (8.0, 12.0),
}
"""By database and way: the aim, and the rate of the fastest queue or more, of the modes that batch
first attempts."""
_WORKFLOW_RATES = {"sqlite": 0.9, "postgresql": 0.85}
_CPU = {"sqlite": 0.11, "postgresql": 0.13}
"""CPU of a delivery that was emitted by itself, in multiples of the floor's."""
_CPU_MOONSHOT = 0.08
_FLOOR_OF_LATENCIES = 95.0
"""The floor, in deliveries a second, of the machine for which the aims at a fixed rate are meant.
They are scaled to the floor of the run."""
_LATENCIES = (("p50", 15.0), ("p95", 27.0), ("p99", 29.0))
_LATENCY_RATE = 50.0
_LATENCY_CPU, _LATENCY_CPU_MOONSHOT = 8.0, 5.0
"""Milliseconds of CPU for a delivery at that rate."""
_BLACK_HOLE, _BLACK_HOLE_MOONSHOT = 1.3, 1.1
_MEMORY_MIB = 400.0


@dataclass(frozen=True, slots=True)
class Aim:
    """A figure and its aim. `reached` is None if the measurement that decides it is missing."""

    name: str
    figure: str
    aim: str
    reached: bool | None


def aims(figures: Figures) -> list[Aim]:
    """Return the aims of all parts that were measured."""
    found: list[Aim] = []
    for rates in figures.rates:
        found += _of_rates(rates)
    for latency in figures.latency:
        found += _of_latency(latency)
    for burst in figures.burst:
        found += _of_burst(burst)
    for fairness in figures.fairness:
        found += _of_fairness(fairness)
    found += [_of_black_hole(black_hole) for black_hole in figures.black_hole]
    found += [_of_memory(memory) for memory in figures.memory]
    return found


def _of_rates(rates: Rates) -> Iterator[Aim]:
    if rates.mode not in _BATCHING:
        least = _WORKFLOW_RATES[rates.database]
        yield _at_least(rates, BATCHES, rates.multiple(BATCHES), least, None)
        return
    for way in (BATCHES, SINGLES):
        least, moonshot = _RATES[rates.database, way]
        yield _at_least(rates, way, rates.multiple(way), least, moonshot)
    cpu, most = rates.cpu_multiple(SINGLES), _CPU[rates.database]
    yield Aim(
        _name(rates, f"CPU, {SINGLES}"),
        f"{cpu:.3f} × floor",
        f"≤ {most:g}, moonshot {_CPU_MOONSHOT:g}",
        cpu <= most,
    )


def _at_least(rates: Rates, way: str, multiple: float, least: float, moonshot: float | None) -> Aim:
    aim = f"≥ {least:g}" + (f", moonshot {moonshot:g}" if moonshot else "")
    return Aim(_name(rates, way), f"{multiple:.2f} × floor", aim, multiple >= least)


def _of_latency(latency: Latency) -> Iterator[Aim]:
    if (latency.mode, latency.of_capacity, latency.rate) != (_DEFAULT, None, _LATENCY_RATE):
        return
    scale = _FLOOR_OF_LATENCIES / latency.floor
    for name, milliseconds in _LATENCIES:
        value, most = getattr(latency.arrive, name), milliseconds * scale
        yield Aim(
            _name(latency, f"{latency.rate:g}/s, {name}"),
            f"{value:.1f} ms",
            f"≤ {most:.1f} ms",
            value <= most,
        )
    cpu, most = latency.service_cpu, _LATENCY_CPU * scale
    yield Aim(
        _name(latency, f"{latency.rate:g}/s, CPU of a delivery"),
        f"{cpu:.1f} ms",
        f"≤ {most:.1f} ms, moonshot {_LATENCY_CPU_MOONSHOT * scale:.1f}",
        cpu <= most,
    )


def _of_burst(burst: Burst) -> Iterator[Aim]:
    rate = f"{burst.rate:g}/s for {burst.seconds:g} s"
    yield Aim(
        _name(burst, f"{rate}, oldest at the end"),
        f"{burst.oldest_seconds:.1f} s ({burst.waiting} waiting)",
        "≤ 1 s",
        burst.oldest_seconds <= 1.0,
    )
    accept = burst.accept.p99
    yield Aim(_name(burst, f"{rate}, accept p99"), f"{accept:.0f} ms", "≤ 50 ms", accept <= 50)


def _of_fairness(fairness: Fairness) -> Iterator[Aim]:
    first = fairness.singles[0]
    yield Aim(
        _name(fairness, f"an event behind {fairness.waiting:,} of another tenant"),
        f"{first:.2f} s",
        "≤ 1 s",
        first <= 1.0,
    )
    yield Aim(
        _name(fairness, f"new endpoints' first, behind {fairness.new_waiting:,} of another"),
        f"first {fairness.new_first:.1f}, median {fairness.new_median:.1f}, "
        f"last {fairness.new_last:.1f} s",
        "none",
        None,
    )


def _of_black_hole(black_hole: BlackHole) -> Aim:
    multiple = statistics.median(black_hole.multiples)
    return Aim(
        _name(black_hole, "healthy p99 beside a black hole"),
        f"× {multiple:.2f} ({black_hole.without.p99:.0f} → {black_hole.behind.p99:.0f} ms)",
        f"≤ × {_BLACK_HOLE:g}, moonshot {_BLACK_HOLE_MOONSHOT:g}",
        multiple <= _BLACK_HOLE,
    )


def _of_memory(memory: Memory) -> Aim:
    total = sum(memory.after.values())
    return Aim(
        _name(memory, f"{memory.measure} after {memory.deliveries:,} deliveries"),
        f"{total:.0f} MiB",
        f"≤ {_MEMORY_MIB:g} MiB",
        total <= _MEMORY_MIB,
    )


def _name(of: Rates | Latency | Burst | Fairness | BlackHole | Memory, what: str) -> str:
    return f"{of.database}, {of.mode}: {what}"
