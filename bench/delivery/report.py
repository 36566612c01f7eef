"""The output of a run: a table for each part after it is measured, and the aims at the end."""

from __future__ import annotations

import statistics
from functools import singledispatch
from typing import Any

from rich.table import Table

from bench.delivery.aims import aims
from bench.delivery.figures import (
    BESIDE,
    FLOOR,
    BlackHole,
    Burst,
    Fairness,
    Figures,
    Latency,
    Memory,
    Posts,
    Quantiles,
    Rates,
)
from bench.delivery.progress import console

_PROCESSES = ("temporal", "worker", "api", "up", "postgresql")
_QUIET = 0.2
"""Cores that other processes may keep busy. The benchmark itself takes some of that as it polls."""
_ANSWERS = {True: "[green]yes[/]", False: "[red]no[/]", None: "–"}


@singledispatch
def show(found: Any) -> None:
    """Print the figures of a part."""
    raise TypeError(type(found))


@show.register
def _(rates: Rates) -> None:
    rounds = len(rates.floor.rates)
    sides = [side for side in rates.sides.values() if side.rates]
    table = _table(
        f"{rates.database}, {rates.mode}: medians of {rounds} rounds; CPU ms a delivery",
        *(side.name for side in sides),
    )
    table.add_row("deliveries/s", *(f"{side.rate:.0f}" for side in sides))
    table.add_row("", *(f"({min(side.rates):.0f}–{max(side.rates):.0f})" for side in sides))
    products = [side.name for side in sides if side.name != FLOOR]
    table.add_row("× floor", "1", *(f"{rates.multiple(name):.2f}" for name in products))
    for process in _PROCESSES:
        if any(process in side.cpu for side in sides):
            table.add_row(process, *(f"{side.cpu_of(process):.2f}" for side in sides))
    table.add_row("service", *(f"{side.service_cpu:.2f}" for side in sides), style="bold")
    table.add_row("× floor", "1", *(f"{rates.cpu_multiple(name):.3f}" for name in products))
    for process in BESIDE:
        table.add_row(process, *(f"{side.cpu_of(process):.2f}" for side in sides), style="dim")
    busy = (f"{statistics.median(side.elsewhere):.1f}" for side in sides)
    table.add_row("others, cores", *busy, style="dim")
    console.print(table)


@show.register
def _(latency: Latency) -> None:
    share = "" if latency.of_capacity is None else f", {latency.of_capacity:g} of what it can"
    cpu = ", ".join(f"{process} {spent:.1f}" for process, spent in latency.cpu.items())
    _show_latencies(
        f"{latency.database}, {latency.mode}: {latency.rate:.0f}/s{share}; "
        f"floor {latency.floor:.0f}/s; ms",
        {"accept": latency.accept, "emit → sink": latency.arrive},
    )
    console.print(
        f"CPU ms a delivery: {cpu}; others kept {latency.elsewhere:.1f} cores busy", style="dim"
    )


@show.register
def _(burst: Burst) -> None:
    _show_latencies(
        f"{burst.database}, {burst.mode}: {burst.rate:g}/s for {burst.seconds:g} s, "
        f"{burst.rate / burst.floor:.1f} × floor; ms",
        {"accept": burst.accept, "emit → sink": burst.arrive},
    )
    console.print(
        f"When the last was due {burst.waiting} had not come, the oldest emitted "
        f"{burst.oldest_seconds:.2f} s before."
    )


@show.register
def _(fairness: Fairness) -> None:
    table = _table(
        f"{fairness.database}, {fairness.mode}: seconds from emit to sink",
        *("first", "median", "longest"),
    )
    singles = fairness.singles
    values = (singles[0], statistics.median(singles), max(singles))
    table.add_row(
        f"{len(singles)} single events, the first behind {fairness.waiting:,} of another tenant",
        *(f"{seconds:.2f}" for seconds in values),
    )
    values = (fairness.new_first, fairness.new_median, fairness.new_last)
    table.add_row(
        f"{fairness.new_deliveries:,} to {fairness.new_endpoints} new endpoints behind "
        f"{fairness.new_waiting:,} of another endpoint: each one's first",
        *(f"{seconds:.2f}" for seconds in values),
    )
    console.print(table)


@show.register
def _(black_hole: BlackHole) -> None:
    _show_latencies(
        f"{black_hole.database}, {black_hole.mode}: healthy deliveries at "
        f"{black_hole.rate:.0f}/s; ms",
        {"without a black hole": black_hole.without, "with one": black_hole.behind},
    )
    turns = ", ".join(f"{multiple:.2f}" for multiple in black_hole.multiples)
    console.print(f"p99 with / without, by turn: {turns}; {black_hole.swallowed} swallowed")


@show.register
def _(memory: Memory) -> None:
    table = _table(
        f"{memory.database}, {memory.mode}: {memory.measure}, MiB",
        "at the start",
        f"after {memory.deliveries:,}",
    )
    for process in memory.after:
        start = memory.start.get(process, 0.0)
        table.add_row(process, f"{start:.0f}", f"{memory.after[process]:.0f}")
    totals = (sum(memory.start.values()), sum(memory.after.values()))
    table.add_row("all", *(f"{total:.0f}" for total in totals), style="bold")
    console.print(table)
    console.print(f"The most that was seen: {memory.most:.0f} MiB", style="dim")


def show_receivers(found: list[Posts]) -> None:
    """Print the kinds of receivers, the first of which is the plainest."""
    table = _table("Sender.post", "CPU µs a POST", "more", "sent", "repeated", "failed")
    for posts in found:
        more = posts.microseconds - found[0].microseconds
        counts = (f"{number:,}" for number in (posts.sent, posts.repeated, posts.failed))
        table.add_row(posts.receiver, f"{posts.microseconds:.0f}", f"{more:+.0f}", *counts)
    console.print(table)


def summarize(figures: Figures) -> None:
    """Print the aims, and the parts that could not be measured."""
    found = aims(figures)
    if found:
        table = Table(title="Aims")
        for name in ("figure", "measured", "aim", "reached"):
            table.add_column(name, overflow="fold")
        for aim in found:
            table.add_row(aim.name, aim.figure, aim.aim, _ANSWERS[aim.reached])
        console.print(table)
    busiest = max(
        (
            *(
                busy
                for rates in figures.rates
                for s in rates.sides.values()
                for busy in s.elsewhere
            ),
            *(latency.elsewhere for latency in figures.latency),
        ),
        default=0.0,
    )
    if busiest > _QUIET:
        console.print(
            f"Not a quiet machine: others kept up to {busiest:.1f} cores busy. Rates, multiples "
            "and latencies are not to be relied on; CPU a delivery is nearer to the truth.",
            style="yellow",
        )
    for missing in figures.unmeasured:
        console.print(f"Not measured: {missing.part}: {missing.why}", style="red", markup=False)


def _show_latencies(title: str, rows: dict[str, Quantiles]) -> None:
    table = _table(title, "count", "p50", "p95", "p99", "max")
    for name, of in rows.items():
        values = (f"{value:.1f}" for value in (of.p50, of.p95, of.p99, of.max))
        table.add_row(name, str(of.count), *values)
    console.print(table)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    return table
