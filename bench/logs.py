"""The cost of log lines: their share of the CPU that the service takes for a delivery.

`python -m bench.logs` delivers events at once, in batches and one by one, through a `hookfast up`
that writes all lines to a file, and measures the CPU of the API and the worker per delivery. Then
it writes the lines that it found there again, in one process, with the same logging. One table has
both sides: the lines of a delivery, their CPU, and the share. A third column shows the
service without lines, in a run of its own (`HOOKFAST_LOG_LEVEL=warning`); between two runs the CPU
of the same code differs by a few percent, so the share is the better figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import uvloop
from rich.console import Console
from rich.table import Table

from bench.delivery.figures import BATCHES, SINGLES
from bench.delivery.progress import Progress
from bench.delivery.session import Session, running_session
from bench.loading import find_load
from bench.parts import part_kind
from hookfast.logs import configure_logging
from hookfast.logs.catalogue import FIELDS, Kind

_AGAIN = 20_000
"""Lines that are written again."""
_ADDED = ("timestamp", "level", "process")
console = Console()


@dataclass(frozen=True)
class _Settings:
    log_format: str = "json"
    log_level: str = "info"


@dataclass
class Side:
    """One way to emit with all lines: milliseconds of CPU per delivery, and how many lines of each
    kind were written for one delivery."""

    cpu: float
    kinds: dict[Kind, float]


async def _measure(database: str, level: str, rounds: int) -> tuple[dict[str, Side], list[Any]]:
    settings = {"HOOKFAST_LOG_LEVEL": level}
    async with running_session(
        find_load(), Progress(), database=database, mode="auto", settings=settings
    ) as session:
        await session.warm_up()
        log = Path(session.bench.up.environ()["HOOKFAST_HOME"]) / "up.log"
        found = {way: await _rounds(session, way, log, rounds) for way in (BATCHES, SINGLES)}
        return found, _read(log)


async def _rounds(session: Session, way: str, log: Path, rounds: int) -> Side:
    spent, count, before = [], 0, len(_read(log))
    for _ in range(rounds):
        measured = await session.deliver(way, seconds=4)
        ours = [cpu for name, cpu in measured.cpu.items() if part_kind(name) in ("api", "worker")]
        spent.append(sum(ours) / measured.count * 1000)
        count += measured.count
    kinds = Counter(line.get("kind") for line in _read(log)[before:])
    named = {kind: kinds[kind] / count for kind in Kind if kinds[kind] / count >= 0.005}
    return Side(statistics.median(spent), named)


def _read(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def _cost_of(lines: Sequence[dict[str, Any]]) -> dict[Kind, float]:
    """Return the microseconds of CPU that a line of each kind takes."""
    log, found = structlog.get_logger(), dict[Kind, float]()
    with tempfile.TemporaryFile() as file:
        configure_logging(_Settings(), process="bench", output=file)
        for kind in Kind:
            own = [_given(line) for line in lines if line.get("kind") == kind][:1_000]
            if not own:
                continue
            for line in own:  # once to warm up
                log.info(**line)
            before = time.process_time()
            for place in range(_AGAIN):
                log.info(**own[place % len(own)])
            found[kind] = (time.process_time() - before) / _AGAIN * 1e6
    return found


def _given(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in FIELDS if name in line and name not in _ADDED}


async def _main(database: str, rounds: int) -> None:
    with_lines, lines = await _measure(database, "info", rounds)
    without, _ = await _measure(database, "warning", rounds)
    cost = _cost_of(lines)
    table = Table("", "lines", "their CPU", "with lines", "without", "share", box=None)
    for way, side in with_lines.items():
        own = sum(number * cost[kind] for kind, number in side.kinds.items()) / 1000
        table.add_row(
            way,
            ", ".join(f"{number:.2g} {kind}" for kind, number in side.kinds.items()),
            f"{own * 1000:.0f} µs",
            f"{side.cpu:.3f} ms",
            f"{without[way].cpu:.3f} ms",
            f"{own / side.cpu:.1%}",
        )
    console.print(f"CPU of API and worker per delivery, {database}")
    console.print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(options.database, options.rounds))


if __name__ == "__main__":
    main()
