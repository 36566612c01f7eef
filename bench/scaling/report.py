"""The tables of a run, on the terminal and as Markdown for the guide:
`python -m bench.scaling.report FILE` prints those of a `--json` file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.scaling.figures import WORKER, Point, from_json, next_limit

_COLUMNS = ("", "deliveries/s", "× the first", "limit", "cores used / had", "CPU, ms a delivery")


def show(points: Sequence[Point], console: Console) -> None:
    """Print the tables, and the next limit of each mode."""
    for mode in dict.fromkeys(point.mode for point in points):
        of_mode = [point for point in points if point.mode == mode]
        table = Table(*_COLUMNS, title=f"Scaling out, {mode}", title_justify="left")
        for row in _rows(of_mode):
            table.add_row(*row)
        console.print(table)
        console.print(_next(of_mode))


def markdown(points: Sequence[Point]) -> str:
    """Return the guide's table, and a sentence on the next limit of each mode."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    told = []
    for mode in dict.fromkeys(point.mode for point in points):
        of_mode = [point for point in points if point.mode == mode]
        lines += [f"| `{mode}`, {' | '.join(row)} |" for row in _rows(of_mode)]
        told += ["", f"`{mode}`: {_next(of_mode)}"]
    return "\n".join([*lines, *told]) + "\n"


def _rows(points: Sequence[Point]) -> list[list[str]]:
    first = points[0]
    rows = []
    for point in points:
        workers = "1 worker" if point.workers == 1 else f"{point.workers} workers"
        uses = point.uses
        rows.append(
            [
                workers if point.squeezed is None else f"{workers}, less for {point.squeezed}",
                f"{point.rate:.1f}" if point.rate < 100 else f"{point.rate:.0f}",
                f"{point.rate / first.rate:.2f}",
                "none" if point.limit is None else point.limit,
                ", ".join(
                    f"{'each ' if name == WORKER else ''}{name} {use.used:.2f}/{use.cores:.2f}"
                    for name, use in uses.items()
                ),
                ", ".join(f"{name} {point.milliseconds(name):.1f}" for name in uses),
            ]
        )
    return rows


def _next(points: Sequence[Point]) -> str:
    most = max((point for point in points if point.squeezed is None), key=lambda one: one.workers)
    found = next_limit(most)
    return (
        f"With {most.workers} workers {found.part} used {most.uses[found.part].full:.0%} of its "
        f"share, the most after the workers: it is the limit from about {found.workers:.1f} such "
        f"workers on, at {found.rate:.0f} deliveries/s."
    )


if __name__ == "__main__":
    print(markdown(from_json(json.loads(Path(sys.argv[1]).read_text()))), end="")
