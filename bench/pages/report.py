"""The table of a run, and its figures as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.pages.measuring import Timing


def show(timings: Sequence[Timing], console: Console, *, title: str) -> None:
    """Print how long each request took, and mark those that missed their aim."""
    table = Table("", "p50, ms", "p95, ms", "aim", "", title=title, title_justify="left")
    table.columns[0].no_wrap = True
    for column in table.columns[1:4]:
        column.justify = "right"
    for one in timings:
        mark = "[red]missed[/]" if one.missed else ""
        if one.fault is not None:
            table.add_row(one.request.name, "", "", "", f"[red]{one.fault}[/]")
            continue
        table.add_row(
            one.request.name,
            f"{one.percentile(50):.1f}",
            f"{one.percentile(95):.1f}",
            f"{one.request.aim:.0f}",
            mark,
        )
    console.print(table)
    missed = sum(one.missed for one in timings)
    console.print(f"{len(timings) - missed} of {len(timings)} within their aims.")


def as_json(timings: Sequence[Timing]) -> list[dict[str, Any]]:
    """Return the figures of each request."""
    return [
        {
            "name": one.request.name,
            "path": one.request.path,
            "aim_ms": one.request.aim,
            "fault": one.fault,
            "p50_ms": one.percentile(50) if one.times else None,
            "p95_ms": one.percentile(95) if one.times else None,
            "missed": one.missed,
        }
        for one in timings
    ]
