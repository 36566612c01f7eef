"""Whether more worker processes deliver more, and what is the limit behind them.

`make scaling` runs PostgreSQL, a Temporal server and an API, built and configured as compose does,
and one, two and four workers in turns. Each part has a share of the CPU, a control group of Linux.
The shares follow from a trial without limits, so that with the most workers the other parts use
about 70 % of theirs. Then each of the others in turn gets 70 % of what it used: the rate falls to
what that part can do, and rises again when it has its share back.

A rate is arrivals per second at the sink while deliveries always wait. At the end of a mode each
must have come and be recorded. It takes about eight minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop
from rich.console import Console

from bench.cluster.build import CannotBuild
from bench.cluster.postgresql import NoPostgresql
from bench.scaling.division import divide
from bench.scaling.figures import Point, Reading, to_json
from bench.scaling.plot import scaling_plot
from bench.scaling.report import show
from bench.scaling.session import FIXED, Session, running_session
from bench.shares import NoShares, Shares, cpu_shares

MODES = ("workflow", "batch")
_WAITING = {"workflow": 300, "batch": 2_000}
"""Deliveries that wait: in `batch` each worker takes up to two hundred."""
_BESIDE = 0.2  # cores for the sink and this process
_LESS = 0.7
"""How much a squeezed part gets of what it used. With half, PostgreSQL had little left beside what
Temporal asks of it when nothing happens."""
_SETTLED_SECONDS = 5.0
_TRIAL_SECONDS = 10.0

console = Console()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    counts: Sequence[int]
    seconds: float
    cores: float


async def _measure_mode(session: Session, mode: str, plan: _Plan) -> list[Point]:
    """Measure a mode: every number of workers twice, then each other part with less."""
    most = max(plan.counts)
    await session.run_workers(most, mode=mode)
    async with session.feeding(_WAITING[mode]):
        _say(f"{mode}: trial without limits")
        trial = Point(mode, most, None, [await _measured(session, _TRIAL_SECONDS)])
        shares = divide(trial, workers=most, cores=plan.cores)
        session.give(shares)
        given = ", ".join(f"{name} {cores:.2f}" for name, cores in shares.items())
        _say(f"{mode}: {trial.rate:.0f}/s without limits. Cores: {given} (each)")
        found: dict[int, list[Reading]] = {}
        down = sorted(plan.counts, reverse=True)
        for count in (*down, *reversed(down)):
            await session.run_workers(count, mode=mode)
            found.setdefault(count, []).append(await _measured(session, plan.seconds))
            _say(f"{mode}: {count} workers, {found[count][-1].rate:.1f}/s")
        points = [Point(mode, count, None, found[count]) for count in sorted(found)]
        full = points[-1]
        for part in FIXED:
            session.give(shares | {part: _LESS * full.uses[part].used})
            reading = await _measured(session, plan.seconds)
            points.append(Point(mode, most, part, [reading]))
            _say(f"{mode}: less for {part}, {reading.rate:.1f}/s")
    return points


async def _measured(session: Session, seconds: float) -> Reading:
    await asyncio.sleep(_SETTLED_SECONDS)
    return await session.measure(seconds)


async def _run(shares: Shares, modes: Sequence[str], plan: _Plan) -> list[Point]:
    points: list[Point] = []
    with tempfile.TemporaryDirectory(prefix="hf-scaling-") as home:
        _say("Starting PostgreSQL, Temporal and the API")
        async with running_session(Path(home), shares) as session:
            for mode in modes:
                points += await _measure_mode(session, mode, plan)
                if repeated := await session.repeated():
                    console.print(f"[bold]{repeated} arrivals were repetitions so far.[/bold]")
    return points


def _say(text: str) -> None:
    console.print(f"[dim]{text}[/dim]")


def main() -> None:
    """Run the measurement and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--modes", default=",".join(MODES), help="default: %(default)s")
    parser.add_argument("--workers", default="1,2,4", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=15, help="of each measurement")
    parser.add_argument(
        "--cores", type=float, default=(os.cpu_count() or 1) - _BESIDE, help="for all parts"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="SVG; the guide's is docs/pictures/scaling.svg"
    )
    given = parser.parse_args()
    plan = _Plan(
        counts=[int(count) for count in given.workers.split(",")],
        seconds=given.seconds,
        cores=given.cores,
    )
    try:
        with cpu_shares(given.cores) as shares:
            points = uvloop.run(_run(shares, given.modes.split(","), plan))
    except (NoShares, CannotBuild, NoPostgresql) as problem:
        raise SystemExit(str(problem)) from None
    show(points, console)
    if given.json:
        given.json.write_text(json.dumps(to_json(points), indent=1))
    if given.picture:
        given.picture.write_text(scaling_plot(points))


if __name__ == "__main__":
    main()
