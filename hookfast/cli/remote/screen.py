"""Output for people: tables, facts and notes, on a terminal or in a pipe.

Receivers write some of what is shown (their errors and response bodies). So control characters are
replaced, because they could steer the terminal, and no text is read as rich markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
_COLOURS: Mapping[str, str] = {
    **dict.fromkeys(("delivered", "done", "enabled", "closed", "sent", "success"), "green"),
    **dict.fromkeys(("retrying", "held", "paused", "half-open", "running", "draining"), "yellow"),
    **dict.fromkeys(("dead", "gone", "failed", "disabled", "open", "refused"), "red"),
    **dict.fromkeys(("cancelled", "pending"), "dim"),
}
_UNLIMITED_WIDTH = 100_000
_LONG_CELL = 60

Row: TypeAlias = Mapping[str, Any]
Columns: TypeAlias = Mapping[str, str | Callable[[Row], Any]]
"""The columns of a table by heading: the member of the row to show, or a function of the row."""


def print_note(sentence: str) -> None:
    """Print a line on standard error, which keeps standard output free for data."""
    typer.echo(sentence, err=True)


def print_table(rows: Iterable[Row], columns: Columns, *, if_empty: str, wide: str = "") -> None:
    """Print rows as a table, or the note `if_empty` when there are none. Only the column with the
    heading `wide` wraps on a narrow terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    cells = [
        [
            format_cell(row[column] if isinstance(column, str) else column(row))
            for column in columns.values()
        ]
        for row in rows
    ]
    if not cells:
        print_note(if_empty)
        return
    for place, heading in enumerate(columns):
        if heading == wide:
            table.add_column(heading, overflow="fold")
            continue
        # without it, rich takes the longest word as the least width, and cuts ids of other columns
        least = max(Text(heading).cell_len, *(row[place].cell_len for row in cells), 0)
        table.add_column(heading, no_wrap=True, min_width=least)
    for row in cells:
        table.add_row(*row)
    _print(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print one line per name and value, without the values that are None."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None:
            table.add_row(Text(name, style="bold"), format_cell(value))
    _print(table)


def _print(table: Table) -> None:
    """Print a table: as wide as it needs in a pipe, and never so narrow that an id is cut."""
    console = Console(highlight=False)
    options = console.options.update(max_width=_UNLIMITED_WIDTH)
    needed = Measurement.get(console, options, table)
    width = max(console.width, needed.minimum) if console.is_terminal else needed.maximum
    Console(highlight=False, width=max(width, 1)).print(table, crop=False)


def format_cell(value: Any) -> Text:
    """Return a value as a table shows it: statuses coloured, numbers grouped, None as a dash."""
    if value is None or value == "":
        return Text("–", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float):
        return Text(f"{value:,.6g}")
    if isinstance(value, (list, tuple)):
        return Text(", ".join(printable(str(item)) for item in value) or "–")
    text = printable(str(value))
    return Text(text, style=_COLOURS.get(text, ""))


def printable(text: str) -> str:
    """Return `text` on one line, with every character that is not visible (escape sequences,
    changes of direction) replaced."""
    spaced = " ".join(text.split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in spaced)


def truncate(text: str | None, length: int = _LONG_CELL) -> str | None:
    """Return the start of a long text, ending in `…`."""
    if text is None or len(text) <= length:
        return text
    return f"{text[: length - 1]}…"


def format_answer(answer: Row | None) -> str | None:
    """Show an attempt's answer, by the names of the filter `--answer`: `503 120 ms`,
    `timeout 15 s`, `refused`."""
    if answer is None:
        return None
    name = answer["result"] if answer["status_code"] is None else answer["status_code"]
    if answer["status_code"] is None and answer["result"] != "timeout":
        return str(name)  # how long it took to fail says nothing about the receiver
    millis = answer["duration_ms"]
    return f"{name} {millis:.0f} ms" if millis < 1_000 else f"{name} {millis / 1_000:.3g} s"


def pluralize(number: int, noun: str) -> str:
    """Return the number with its noun: `1 delivery`, `1,234 deliveries`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
