"""Which parts run where. Each mode and each database has its own `hookfast up`, and so have the
parts that leave data behind."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.delivery.black_hole import measure_black_hole
from bench.delivery.burst import measure_burst
from bench.delivery.fairness import measure_fairness
from bench.delivery.figures import Figures, Unmeasured
from bench.delivery.latency import measure_latency
from bench.delivery.memory import measure_memory
from bench.delivery.progress import Progress
from bench.delivery.rates import measure_rates
from bench.delivery.receivers import measure_receivers
from bench.delivery.report import show, show_receivers
from bench.delivery.session import Session, running_session
from bench.loading import Load

DATABASES = ("sqlite", "postgresql")
MODES = ("workflow", "batch", "auto")
_RECEIVERS = "receivers"
"""The part that measures the sender alone, without a database or a mode."""
PARTS = ("rates", "latency", "burst", "fairness", "black-hole", "memory", _RECEIVERS)
_OF_EACH_MODE = ("rates", "latency")
_DEFAULT_MODE = "auto"
"""The mode of the parts that do not run in every mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What to measure, and for how long."""

    databases: Sequence[str]
    modes: Sequence[str]
    parts: Sequence[str]
    rounds: int
    seconds: float
    rate: float
    latency_seconds: float
    burst_rate: float
    burst_seconds: float
    backlog: int
    memory_deliveries: int
    workers: int | None
    api_processes: int


def chosen(only: str) -> tuple[list[str], list[str]]:
    """Return the modes and parts that `--only` names, separated by commas; all if it names none.
    A mode alone selects the parts that run in every mode. Raises ValueError for unknown names."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = sorted(set(names) - {*MODES, *PARTS})
    if unknown:
        known = ", ".join((*PARTS, *MODES))
        raise ValueError(f"{', '.join(unknown)}: choose from {known}")
    modes = [mode for mode in MODES if mode in names]
    parts = [part for part in PARTS if part in names]
    if modes and not parts:
        parts = [*_OF_EACH_MODE]
    return modes or [*MODES], parts or [*PARTS]


async def run(choice: Choice, load: Load, figures: Figures, progress: Progress) -> None:
    """Measure and print each part, and add it to the figures. A part that fails is added with its
    reason, and the others continue."""
    if _RECEIVERS in choice.parts:
        await _receivers(figures, progress)
    for database in choice.databases:
        of_each = [part for part in _OF_EACH_MODE if part in choice.parts]
        for mode in choice.modes:
            await _run_parts(choice, load, figures, progress, database, mode, of_each)
        others = [part for part in choice.parts if part not in (*_OF_EACH_MODE, _RECEIVERS)]
        # memory is measured on a service that has done nothing else
        for together in ([name for name in others if name != "memory"], ["memory"]):
            parts = [part for part in together if part in others]
            await _run_parts(choice, load, figures, progress, database, _DEFAULT_MODE, parts)


async def _receivers(figures: Figures, progress: Progress) -> None:
    try:
        figures.receivers += await measure_receivers(progress)
    except Exception as problem:
        figures.unmeasured.append(Unmeasured(_RECEIVERS, _described(problem)))
        return
    show_receivers(figures.receivers)


async def _run_parts(
    choice: Choice,
    load: Load,
    figures: Figures,
    progress: Progress,
    database: str,
    mode: str,
    parts: Sequence[str],
) -> None:
    progress.prefix = f"{database}, {mode}"
    left = [*parts]
    while left:
        try:
            async with _session(choice, load, progress, database, mode) as session:
                while left:
                    await _MEASURES[left[0]](session, choice, figures)
                    left.pop(0)
        except (Exception, SystemExit) as problem:
            why = _described(problem)
            figures.unmeasured.append(Unmeasured(f"{database}, {mode}: {left.pop(0)}", why))
            progress.say(f"failed: {why}")


def _described(problem: BaseException) -> str:
    """Describe an error and where it occurred."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(problem).__name__}: {problem} ({where})"


@asynccontextmanager
async def _session(
    choice: Choice, load: Load, progress: Progress, database: str, mode: str
) -> AsyncIterator[Session]:
    async with running_session(
        load,
        progress,
        database=database,
        mode=mode,
        workers=choice.workers,
        settings={"HOOKFAST_API_PROCESSES": str(choice.api_processes)},
    ) as session:
        yield session


async def _rates(session: Session, choice: Choice, figures: Figures) -> None:
    found = await measure_rates(session, rounds=choice.rounds, seconds=choice.seconds)
    figures.rates.append(found)
    show(found)


async def _latency(session: Session, choice: Choice, figures: Figures) -> None:
    for found in await measure_latency(session, rate=choice.rate, seconds=choice.latency_seconds):
        figures.latency.append(found)
        show(found)


async def _burst(session: Session, choice: Choice, figures: Figures) -> None:
    found = await measure_burst(session, rate=choice.burst_rate, seconds=choice.burst_seconds)
    figures.burst.append(found)
    show(found)


async def _fairness(session: Session, choice: Choice, figures: Figures) -> None:
    found = await measure_fairness(session, backlog=choice.backlog)
    figures.fairness.append(found)
    show(found)


async def _black_hole(session: Session, choice: Choice, figures: Figures) -> None:
    found = await measure_black_hole(session, rounds=2, seconds=choice.latency_seconds)
    figures.black_hole.append(found)
    show(found)


async def _memory(session: Session, choice: Choice, figures: Figures) -> None:
    found = await measure_memory(session, deliveries=choice.memory_deliveries)
    figures.memory.append(found)
    show(found)


_MEASURES: dict[str, Callable[[Session, Choice, Figures], Awaitable[None]]] = {
    "rates": _rates,
    "latency": _latency,
    "burst": _burst,
    "fairness": _fairness,
    "black-hole": _black_hole,
    "memory": _memory,
}
