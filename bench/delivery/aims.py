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

_SQLITE = "sqlite"
_DEFAULT = "auto"
_BATCHING = (_DEFAULT, "batch")
_RATES = {
    "workflow": {BATCHES: 0.8},
    **{mode: {BATCHES: 10.0, SINGLES: 6.5} for mode in _BATCHING},
}
_MOONSHOTS = {SINGLES: 9.5}
_CPU = 2 / 23
"""A delivery's CPU for batch emits, in multiples of the floor's."""
_OF_SQLITE = 0.9
_FLOOR_OF_LATENCIES = 68.0
"""The floor, in deliveries a second, of the machine for which the latency aims are meant."""
_LATENCIES = (("p50", 15.0), ("p95", 30.0), ("p99", 45.0))
_LATENCY_RATE = 50.0
_MEMORY_MIB = 450.0


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
        found += _of_rates(rates, figures)
    for latency in figures.latency:
        found += _of_latency(latency)
    for burst in figures.burst:
        found += _of_burst(burst)
    for fairness in figures.fairness:
        found += _of_fairness(fairness)
    found += [_of_black_hole(black_hole) for black_hole in figures.black_hole]
    found += [_of_memory(memory) for memory in figures.memory]
    return found


def _of_rates(rates: Rates, figures: Figures) -> Iterator[Aim]:
    for side, least in _RATES[rates.mode].items():
        multiple = rates.multiple(side)
        figure = f"{multiple:.2f} × floor"
        if rates.database == _SQLITE:
            moonshot = _MOONSHOTS.get(side) if rates.mode in _BATCHING else None
            aim = f"≥ {least:g}" + (f", moonshot {moonshot:g}" if moonshot else "")
            yield Aim(_name(rates, side), figure, aim, multiple >= least)
            continue
        other = next(
            (r for r in figures.rates if (r.database, r.mode) == (_SQLITE, rates.mode)), None
        )
        share = None if other is None else multiple / other.multiple(side)
        figure += "" if share is None else f", {share:.2f} × SQLite"
        reached = None if share is None else share >= _OF_SQLITE
        yield Aim(_name(rates, side), figure, f"≥ {_OF_SQLITE:g} × SQLite", reached)
    if rates.mode in _BATCHING and rates.database == _SQLITE:
        cpu = rates.cpu_multiple(BATCHES)
        figure = f"{cpu:.3f} × floor"
        yield Aim(_name(rates, f"CPU, {BATCHES}"), figure, f"≤ {_CPU:.3f}", cpu <= _CPU)


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
        "≤ × 1.1",
        multiple <= 1.1,
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
