"""The tables of docs/guides/scaling.md, from the figures that a run wrote with `--json`.

`python -m bench.delivery.markdown FILE` prints them. Rates and CPU are multiples of the floor of
the same turn, so they hold for other machines too; latencies are those of the machine.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.delivery.figures import BATCHES, BESIDE, FAN_OUT, FLOOR, SINGLES

_DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_WAYS = (BATCHES, SINGLES, FAN_OUT)


def tables(figures: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the tables."""
    yield from _rates(figures["rates"])
    yield from _latency(figures["latency"])
    yield from _others(figures)
    yield from _receivers(figures["receivers"])


def _rates(found: list[dict[str, Any]]) -> Iterator[str]:
    floors = [rate for one in found for rate in one["sides"][FLOOR]["rates"]]
    if not floors:
        return
    cpu = [_cpu(one["sides"][FLOOR]) for one in found]
    yield (
        f"The floor: {statistics.median(floors):.0f} deliveries a second "
        f"({min(floors):.0f} to {max(floors):.0f}), {statistics.median(cpu):.1f} ms of CPU each."
    )
    yield ""
    yield "| × floor | batch emits | single emits | fan-out | CPU of these, × floor |"
    yield "|---|---|---|---|---|"
    for one in found:
        rates = " | ".join(f"{one['multiples'][way]:.1f}" for way in _WAYS)
        costs = ", ".join(f"{one['cpu_multiples'][way]:.2f}" for way in _WAYS)
        yield f"| {_where(one)} | {rates} | {costs} |"
    yield ""
    yield "| CPU, ms a delivery | floor | batch emits | single emits | fan-out |"
    yield "|---|---|---|---|---|"
    for one in found:
        cells = " | ".join(_costs(one["sides"][side]) for side in (FLOOR, *_WAYS))
        yield f"| {_where(one)} | {cells} |"
    yield ""


def _latency(found: list[dict[str, Any]]) -> Iterator[str]:
    if not found:
        return
    yield "| ms: p50 / p95 / p99 | events a second | accepted | emit to sink |"
    yield "|---|---|---|---|"
    for one in found:
        share = "" if one["of_capacity"] is None else f", {one['of_capacity']:g} of what it can"
        accept, arrive = (_quantiles(one[name]) for name in ("accept", "arrive"))
        yield f"| {_where(one)} | {one['rate']:.0f}{share} | {accept} | {arrive} |"
    yield ""


def _others(figures: dict[str, Any]) -> Iterator[str]:
    rows = [
        *(
            f"{_where(one)}: {one['rate']:g} single events a second for {one['seconds']:g} s | "
            f"accepted {_quantiles(one['accept'])} ms; at the sink {_quantiles(one['arrive'])} ms; "
            f"at the end {one['waiting']} had not come, the oldest after "
            f"{one['oldest_seconds']:.1f} s"
            for one in figures["burst"]
        ),
        *(
            f"{_where(one)}: one event behind {one['waiting']:,} deliveries of another tenant | "
            f"{one['singles'][0]:.2f} s; {len(one['singles'])} of them "
            f"{statistics.median(one['singles']):.2f} s in the middle, "
            f"{max(one['singles']):.2f} s at most"
            for one in figures["fairness"]
        ),
        *(
            f"{_where(one)}: {one['new_deliveries']:,} to {one['new_endpoints']} new endpoints "
            f"behind {one['new_waiting']:,} to another | an endpoint's first after "
            f"{one['new_first']:.1f} to {one['new_last']:.1f} s, {one['new_median']:.1f} s in the "
            "middle"
            for one in figures["fairness"]
        ),
        *(
            f"{_where(one)}: one in ten to an endpoint that never answers, {one['rate']:.0f} "
            f"events a second | the others' p99 {one['without']['p99']:.0f} ms without it, "
            f"{one['behind']['p99']:.0f} ms with it"
            for one in figures["black_hole"]
        ),
        *(
            f"{_where(one)}: memory ({one['measure']}) after {one['deliveries']:,} deliveries | "
            f"{sum(one['after'].values()):.0f} MiB: "
            + ", ".join(f"{name} {size:.0f}" for name, size in one["after"].items())
            for one in figures["memory"]
        ),
    ]
    if rows:
        yield "| | |"
        yield "|---|---|"
        yield from (f"| {row} |" for row in rows)


def _receivers(found: list[dict[str, Any]]) -> Iterator[str]:
    if not found:
        return
    yield ""
    yield "| `Sender.post` to a receiver | CPU, µs | sent | repeated | failed |"
    yield "|---|---|---|---|---|"
    for one in found:
        counts = " | ".join(f"{one[name]:,}" for name in ("sent", "repeated", "failed"))
        yield f"| {one['receiver']} | {one['microseconds']:,.0f} | {counts} |"


def _where(one: dict[str, Any]) -> str:
    return f"{_DATABASES[one['database']]}, `{one['mode']}`"


def _median_cpu(side: dict[str, Any]) -> dict[str, float]:
    return {
        process: statistics.median(spent)
        for process, spent in side["cpu"].items()
        if process not in BESIDE
    }


def _cpu(side: dict[str, Any]) -> float:
    return sum(_median_cpu(side).values())


def _costs(side: dict[str, Any]) -> str:
    each = _median_cpu(side)
    named = ", ".join(f"{process} {spent:.1f}" for process, spent in each.items() if spent)
    return f"{sum(each.values()):.1f}: {named}"


def _quantiles(of: dict[str, float]) -> str:
    return " / ".join(f"{of[name]:.0f}" for name in ("p50", "p95", "p99"))


def main() -> None:
    """Print the tables of a file."""
    for line in tables(json.loads(Path(sys.argv[1]).read_text())):
        print(line)


if __name__ == "__main__":
    main()
