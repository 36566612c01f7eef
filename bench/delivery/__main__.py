"""The command: run the chosen parts and summarise the results, also after an interrupt."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import uvloop

import bench.delivery
from bench.delivery.figures import Figures
from bench.delivery.plan import DATABASES, MODES, PARTS, Choice, chosen, run
from bench.delivery.progress import Progress, console
from bench.delivery.report import summarize
from bench.loading import Load, find_load
from hookfast.version import VERSION

_INTERRUPTED = 130


def main() -> None:
    """Read the arguments and run."""
    parser = _parser()
    arguments = parser.parse_args()
    try:
        modes, parts = chosen(arguments.only)
    except ValueError as problem:
        parser.error(str(problem))
    choice = Choice(
        databases=DATABASES if arguments.database == "both" else (arguments.database,),
        modes=modes,
        parts=parts,
        rounds=arguments.rounds,
        seconds=arguments.seconds,
        rate=arguments.rate,
        latency_seconds=arguments.latency_seconds,
        burst_rate=arguments.burst_rate,
        burst_seconds=arguments.burst_seconds,
        backlog=arguments.backlog,
        memory_deliveries=arguments.memory_deliveries,
        workers=arguments.workers,
        api_processes=arguments.api_processes,
    )
    progress = Progress()
    progress.say("building the load generator and the sink")
    load = find_load(python=arguments.python)
    figures = Figures(machine=_machine(load))
    console.print(_described(figures.machine))
    interrupted = False
    try:
        uvloop.run(_until_stopped(choice, load, figures, progress))
    except (KeyboardInterrupt, asyncio.CancelledError):
        interrupted = True
    finally:
        progress.prefix = ""
        if interrupted:
            progress.say("interrupted; results so far:")
        summarize(figures)
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(figures.as_json(), indent=1) + "\n")
    if interrupted or figures.unmeasured:
        sys.exit(_INTERRUPTED if interrupted else 1)


async def _until_stopped(choice: Choice, load: Load, figures: Figures, progress: Progress) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await run(choice, load, figures, progress)


def _machine(load: Load) -> dict[str, object]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": VERSION,
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "load": "Go" if load.why_python is None else f"Python ({load.why_python})",
    }


def _described(machine: dict[str, object]) -> str:
    return (
        f"Hookfast {machine['version']}, {machine['cores']} cores of {machine['architecture']}, "
        f"Python {machine['python']}, load average {machine['load_average']:.1f}; "
        f"load generator and sink: {machine['load']}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.delivery",
        description=bench.delivery.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--only",
        default="",
        metavar="NAMES",
        help=f"separated by commas: parts ({', '.join(PARTS)}) and modes ({', '.join(MODES)})",
    )
    add("--database", default="both", choices=[*DATABASES, "both"])
    add("--rounds", type=int, default=3, help="turns of the floor and the product")
    add("--seconds", type=float, default=5, help="approximate length of a round")
    add("--rate", type=float, default=50, help="single events a second, for the latencies")
    add("--latency-seconds", type=float, default=15, help="how long each rate is sent")
    add("--burst-rate", type=float, default=200, help="single events a second of the burst")
    add("--burst-seconds", type=float, default=60, help="how long the burst lasts")
    add("--backlog", type=int, default=12_000, help="waiting deliveries, for the fairness")
    add("--memory-deliveries", type=int, default=50_000, help="deliveries before memory is read")
    add("--workers", type=int, help="workers of each `hookfast up`; default: as it decides")
    add("--api-processes", type=int, default=1, help="API processes of each `hookfast up`")
    add("--python", action="store_true", help="use the load generator and sink in Python, not Go")
    add("--json", type=Path, metavar="FILE", help="write all figures to this file")
    return parser


if __name__ == "__main__":
    main()
