"""The table of docs/guides/scaling.md, from the figures of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.footprint.figures import Measure, Reading, total
from bench.footprint.phases import FLOOR, SQLITE, TEMPORAL, WORKER
from bench.footprint.stores import BACKGROUND, DATABASE, TEMPORAL_DATABASE, VISIBILITY

_OF_TEMPORAL = (TEMPORAL_DATABASE, VISIBILITY)
_LEAST = 0.05
"""Kilobytes of a table below which it is not named."""

ALONE, TOGETHER, EACH_RETRY = "alone", "in hundreds", "each retry adds"
"""The names of a mode's columns."""
_OF_COSTS = (ALONE, TOGETHER, EACH_RETRY)
_COSTS: tuple[tuple[str, Measure, tuple[str, ...], float, str], ...] = (
    ("worker", Measure.CPU, (WORKER,), 1e-3, "ms of CPU"),
    ("api", Measure.CPU, ("api",), 1e-3, "ms of CPU, alone"),
    ("temporal", Measure.CPU, (TEMPORAL,), 1e-3, "ms of CPU"),
    ("temporal_db", Measure.CPU, _OF_TEMPORAL, 1e-3, "ms of CPU, its PostgreSQL"),
    ("db", Measure.CPU, (DATABASE,), 1e-3, "ms of CPU, our PostgreSQL"),
    ("temporal_commits", Measure.COMMITS, _OF_TEMPORAL, 1, "of its PostgreSQL"),
    ("commits", Measure.COMMITS, (DATABASE,), 1, "of ours"),
    ("temporal_wal", Measure.WAL, (" and ".join(_OF_TEMPORAL),), 1e3, "KB"),
    ("wal", Measure.WAL, (DATABASE,), 1e3, "KB"),
    ("temporal_disk", Measure.DISK, _OF_TEMPORAL, 1e3, "KB"),
    ("disk", Measure.DISK, (DATABASE,), 1e3, "KB"),
    ("runs", Measure.RUNS, (TEMPORAL,), 1, "of workflows"),
    ("requests", Measure.REQUESTS, (TEMPORAL,), 1, "of the worker to Temporal"),
)


@dataclass(frozen=True, slots=True)
class Column:
    """The figures per delivery of one load of so many, with the mode of first attempts if it
    matters."""

    name: str
    mode: str | None
    figures: Reading
    deliveries: int = 1

    @property
    def title(self) -> str:
        """The heading, in Markdown."""
        return self.name if self.mode is None else f"`{self.mode}`, {self.name}"


def table(columns: Sequence[Column]) -> Iterator[str]:
    """Yield the lines of the table. `columns` begins with the floor."""
    yield f"| a delivery | {' | '.join(column.title for column in columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for label, cell in _rows(columns):
        cells = [cell(column.figures) for column in columns]
        if any(cells):
            yield f"| {label} | {' | '.join(one or '–' for one in cells)} |"


def at_rest(figures: Reading) -> Iterator[str]:
    """Yield a sentence about what an installation does without any delivery, per second."""
    commits = {key.part: value for key, value in figures.items() if key.measure is Measure.COMMITS}
    wal = total(figures, Measure.WAL) or 0.0
    cpu = total(figures, Measure.CPU) or 0.0
    named = ", ".join(f"{part} {number(value)}" for part, value in commits.items())
    yield (
        f"At rest, a second: {number(sum(commits.values()))} commits ({named}), "
        f"{number(wal / 1e3)} KB of WAL, {number(cpu * 1e3)} ms of CPU."
    )


def number(value: float) -> str:
    """Return a figure with two or three digits."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _rows(columns: Sequence[Column]) -> Iterator[tuple[str, Callable[[Reading], str]]]:
    """Yield the rows: a label, and the cell for a column's figures. An empty cell was not
    measured."""
    for label, parts in (("Hookfast's database", (DATABASE,)), ("Temporal's", _OF_TEMPORAL)):
        yield f"{label}: commits", _sum_of(Measure.COMMITS, *parts)
        yield f"{label}: KB on disk", _disk(parts)
    yield "Temporal's SQLite: KB on disk", _sum_of(Measure.DISK, SQLITE, per=1e3)
    servers = sorted(
        {key.part for one in columns for key in one.figures if key.measure is Measure.WAL}
    )
    for server in servers:
        yield f"WAL of {server}, KB", _sum_of(Measure.WAL, server, per=1e3)
    yield "Temporal: workflow runs", _sum_of(Measure.RUNS)
    yield "Temporal: requests of the worker", _sum_of(Measure.REQUESTS)
    yield "Temporal: history events", _sum_of(Measure.EVENTS)
    yield "Temporal: KB of history", _sum_of(Measure.HISTORY, per=1e3)
    for label, parts in (
        ("worker", (WORKER, FLOOR)),
        ("API", ("api",)),
        ("Temporal", (TEMPORAL,)),
        ("PostgreSQL for Temporal", _OF_TEMPORAL),
        ("PostgreSQL for Hookfast", (DATABASE,)),
        ("PostgreSQL, both", (BACKGROUND,)),
    ):
        yield f"CPU, ms: {label}", _sum_of(Measure.CPU, *parts, per=1e-3)
    yield "CPU, ms: sum", _sum_of(Measure.CPU, per=1e-3)
    floor = total(columns[0].figures, Measure.CPU) or 0.0
    if floor:
        yield "CPU: × floor", _sum_of(Measure.CPU, per=floor)


def _sum_of(measure: Measure, *parts: str, per: float = 1.0) -> Callable[[Reading], str]:
    def cell(figures: Reading) -> str:
        found = total(figures, measure, *parts)
        return "" if found is None else number(found / per)

    return cell


def _disk(parts: Sequence[str]) -> Callable[[Reading], str]:
    """The kilobytes on disk, and those of each table that counts; a database without groups of
    tables is named as a whole."""

    def cell(figures: Reading) -> str:
        sizes = _by_table(figures, parts)
        if not sizes:
            return ""
        named = sorted(((size, name) for name, size in sizes.items()), reverse=True)
        details = ", ".join(f"{name} {number(size)}" for size, name in named if size >= _LEAST)
        return number(sum(sizes.values())) + (f" ({details})" if details else "")

    return cell


def _by_table(figures: Reading, parts: Sequence[str]) -> Mapping[str, float]:
    sizes: dict[str, float] = {}
    for key, value in figures.items():
        if key.measure is Measure.DISK and key.part in parts:
            name = VISIBILITY if key.part == VISIBILITY else key.table
            sizes[name] = sizes.get(name, 0.0) + value / 1e3
    return sizes


def costs(columns: Sequence[Column]) -> Iterator[str]:
    """Yield the guide's `COSTS`, with which it calculates. Nothing unless both modes and Temporal's
    database were measured."""
    found = {(column.mode, column.name): column.figures for column in columns}
    modes = ("workflow", "batch")
    measured = [found.get((mode, name), {}) for mode in modes for name in _OF_COSTS]
    if any(total(one, Measure.COMMITS, TEMPORAL_DATABASE) is None for one in measured):
        return
    yield "COSTS = {  # measured: a delivery in `workflow`, a retry of it, the same in `batch`"
    for name, measure, parts, per, unit in _COSTS:
        values = []
        for mode in modes:
            loads = _loads(columns, mode, name, measure)
            count = sum(load.deliveries for load in loads)
            values += [
                sum((total(one.figures, measure, *parts) or 0.0) * one.deliveries for one in loads)
                / count,
                total(found[mode, EACH_RETRY], measure, *parts) or 0.0,
            ]
        shown = ", ".join(number(value / per).replace(",", "_") for value in values)
        yield f'    "{name}": ({shown}),  # {unit}'
    yield "}"


def _loads(columns: Sequence[Column], mode: str, name: str, measure: Measure) -> list[Column]:
    """Return the loads whose mean is a cost. For the disk these are all loads without retries,
    because each uses the space that VACUUM has freed of the one before."""
    names = {ALONE} if name == "api" else {TOGETHER}
    if measure is Measure.DISK:
        names = {ALONE, TOGETHER}
    loads = [one for one in columns if one.mode == mode and one.name in names]
    if name == "temporal_disk" and mode == "workflow":
        loads += [one for one in columns if one.mode is None]
    return loads
