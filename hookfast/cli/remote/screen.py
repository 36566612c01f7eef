"""Output for people: tables, facts and notes, on a terminal or in a pipe.

A pipe gets everything whole. A table adapts to a terminal that is too narrow for it: columns show
their narrow form, the less important ones are left out, and texts that may be shortened share the
space. Nothing else is ever cut, so a row's own id can be copied on any terminal.

Receivers write some of what is shown (their errors and response bodies). So control characters are
replaced, because they could steer the terminal, and no text is read as rich markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias

import typer
from rich.cells import cell_len
from rich.console import Console
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
_NO_VALUE = "–"
_GAP = 2
"""Spaces between columns, and between the name and the value of a fact."""

Row: TypeAlias = Mapping[str, Any]
Value: TypeAlias = str | Callable[[Row], Any]
"""The member of the row to show, or a function of the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What a column shows, and how it adapts to a narrow terminal.

    `priority`: the columns with the highest number are left out first, those with 0 never.
    `least`: how many cells its text may be shortened to; None: it is shown whole.
    `wraps`: a long text goes on in the next line instead of being shortened.
    `narrow`: shown instead on a terminal that is too narrow for everything.
    `noun`: its values are ids of this noun; `Remote.print_table` shows a terminal their names.
    """

    value: Value
    priority: int = 1
    least: int | None = None
    wraps: bool = False
    narrow: Value | None = None
    noun: str | None = None


Columns: TypeAlias = Mapping[str, Column | Value]
"""The columns of a table by heading; a bare value is a column that is never shortened."""


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """A column with its cells. `needed` is the width at which everything is whole, `width` its
    present width."""

    heading: str
    column: Column
    cells: Sequence[Text]
    needed: int
    width: int

    @property
    def is_empty(self) -> bool:
        """Whether no row has a value in this column."""
        return all(cell.plain == _NO_VALUE for cell in self.cells)


def print_note(sentence: str) -> None:
    """Print a line on standard error, which keeps standard output free for data."""
    typer.echo(sentence, err=True)


def print_warnings(saved: Row) -> None:
    """Print the warnings of an API's answer on standard error."""
    for warning in saved["warnings"]:
        print_note(f"Warning: {warning['detail']}")


def terminal_width() -> int | None:
    """Return the width of the terminal in cells; None if standard output is not a terminal."""
    console = Console()
    return console.width if console.is_terminal else None


def print_table(
    rows: Sequence[Row], columns: Columns, *, if_empty: str, whole: bool = False
) -> None:
    """Print rows as a table that fits the terminal, or the note `if_empty` when there are none.
    With `whole`, a terminal gets what a pipe gets: every column, nothing shortened."""
    if not rows:
        print_note(if_empty)
        return
    width = _UNLIMITED_WIDTH if whole else terminal_width() or _UNLIMITED_WIDTH
    table, left_out = fitted_table(rows, columns, width=width)
    console = Console(highlight=False, width=_UNLIMITED_WIDTH)
    console.print(table, crop=False)
    if left_out:
        print_note(f"Left out for width: {', '.join(left_out)}. --wide shows every column.")


def fitted_table(rows: Sequence[Row], columns: Columns, *, width: int) -> tuple[Table, list[str]]:
    """Return a table that is at most `width` cells wide if its columns allow it, and the headings
    of the columns that were left out."""
    full = {
        heading: column if isinstance(column, Column) else Column(value=column)
        for heading, column in columns.items()
    }
    shown = wanted = [_fitted(heading, column, rows) for heading, column in full.items()]
    if _total(shown) > width:
        narrow = [_fitted(heading, column, rows, narrow=True) for heading, column in full.items()]
        wanted = [each for each in narrow if not each.is_empty]
        shown = _widened(_most_important(wanted, width), width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for each in shown:
        table.add_column(
            each.heading, width=each.width, overflow="fold", no_wrap=not each.column.wraps
        )
    for cells in zip(*(each.cells for each in shown), strict=True):
        table.add_row(
            *(
                cell if each.column.wraps else _shortened(cell, each.width)
                for each, cell in zip(shown, cells, strict=True)
            )
        )
    kept = {each.heading for each in shown}
    return table, [each.heading for each in wanted if each.heading not in kept]


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print one line per name and value, without the values that are None. On a terminal, a long
    value goes on in the next line, but no word is broken: a broken id or URL cannot be copied."""
    shown = {name: format_cell(value) for name, value in facts.items() if value is not None}
    indent = max((cell_len(name) for name in shown), default=0) + _GAP
    width = (terminal_width() or _UNLIMITED_WIDTH) - indent
    console = Console(highlight=False)
    for name, value in shown.items():
        for number, line in enumerate(_wrapped(value.plain, width)):
            label = "" if number else name
            console.print(
                Text.assemble(
                    (label, "bold"), " " * (indent - cell_len(label)), (line, value.style)
                ),
                soft_wrap=True,
            )


def print_text(text: str, *, indent: int = 2) -> None:
    """Print a text of several lines, such as the body of an answer. A terminal gets long lines
    folded, between words if possible."""
    width = max((terminal_width() or _UNLIMITED_WIDTH) - indent, 1)
    for line in printable_lines(text):
        while True:
            part = fitting(line, width) or line[:1]
            if len(part) < len(line) and " " in part.strip():
                part = part[: part.rindex(" ") + 1]
            typer.echo(f"{' ' * indent}{part}".rstrip())
            line = line[len(part) :]
            if not line:
                break


def format_cell(value: Any) -> Text:
    """Return a value as a table shows it: statuses coloured, numbers grouped, None as a dash."""
    if isinstance(value, Text):
        return value
    if value is None or value == "":
        return Text(_NO_VALUE, style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float | Decimal):
        return Text(f"{float(value):,.6g}")
    if isinstance(value, (list, tuple)):
        return Text(", ".join(printable(str(item)) for item in value) or _NO_VALUE)
    text = printable(str(value))
    return Text(text, style=_COLOURS.get(text, ""))


def printable(text: str) -> str:
    """Return `text` on one line, with every character that is not visible (escape sequences,
    changes of direction) replaced."""
    return _visible(" ".join(text.split()))


def printable_lines(text: str) -> list[str]:
    """Return the lines of `text` like `printable`, but with their spaces as they are."""
    return [_visible(line.expandtabs(4)) for line in text.splitlines()]


def truncate(text: str | None, length: int = _LONG_CELL) -> str | None:
    """Return the start of a long text, ending in `…`."""
    if text is None or len(text) <= length:
        return text
    return f"{text[: length - 1]}…"


def shorten(text: str, cells: int) -> str:
    """Return a text that is at most `cells` wide on a terminal. A word (a URL, an event type)
    loses its middle, because both ends say which one it is; other texts lose their end."""
    if cell_len(text) <= cells:
        return text
    if " " in text:
        return f"{fitting(text, cells - 1).rstrip()}…"
    tail = fitting(text[::-1], (cells - 1) // 2)[::-1]
    return f"{fitting(text, cells - 1 - cell_len(tail))}…{tail}"


def fitting(text: str, cells: int) -> str:
    """Return the longest start of the text that is at most `cells` wide on a terminal."""
    end = min(len(text), max(cells, 0))
    while cell_len(text[:end]) > cells:
        end -= 1
    return text[:end]


def format_answer(answer: Row | None) -> str | None:
    """Show an attempt's answer, by the names of the filter `--answer`: `503 120 ms`,
    `timeout 15 s`, `refused`."""
    if answer is None:
        return None
    name = answer["result"] if answer["status_code"] is None else answer["status_code"]
    if answer["status_code"] is None and answer["result"] != "timeout":
        return str(name)  # how long it took to fail says nothing about the receiver
    millis = float(answer["duration_ms"])
    return f"{name} {millis:.0f} ms" if millis < 1_000 else f"{name} {millis / 1_000:.3g} s"


def _visible(line: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)


def _wrapped(text: str, width: int) -> list[str]:
    """Return the text as lines of whole words; a line is wider than `width` only if its one word
    is."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _fitted(heading: str, column: Column, rows: Sequence[Row], *, narrow: bool = False) -> _Fitted:
    """Return the column with its cells, at its smallest width if `narrow`, else at its full."""
    value = column.narrow if narrow and column.narrow is not None else column.value
    cells = [format_cell(row[value] if isinstance(value, str) else value(row)) for row in rows]
    needed = width = max(cell_len(heading), *(cell.cell_len for cell in cells))
    if narrow and column.least is not None:
        width = min(needed, max(column.least, cell_len(heading)))
    return _Fitted(heading, column, cells, needed, width)


def _most_important(columns: Sequence[_Fitted], width: int) -> list[_Fitted]:
    """Return the columns that fit beside each other, those with the lowest priority number
    first; in their own order. From priority 2 on, a column is only added if the more important ones
    are left with twice their smallest width."""
    kept: list[_Fitted] = []
    for each in sorted(columns, key=lambda each: each.column.priority):
        priority = each.column.priority
        beside = kept if priority < 2 else [_comfortable(other) for other in kept]
        if priority == 0 or _total([*beside, each]) <= width:
            kept.append(each)
    return [each for each in columns if each in kept]


def _comfortable(column: _Fitted) -> _Fitted:
    return replace(column, width=min(column.needed, 2 * column.width))


def _widened(columns: Sequence[_Fitted], width: int) -> list[_Fitted]:
    """Return the columns with the space that is left divided among those that are shortened."""
    widths = [each.width for each in columns]
    left = width - _total(columns)
    while left > 0:
        tight = [index for index, each in enumerate(columns) if widths[index] < each.needed]
        if not tight:
            break
        widths[min(tight, key=lambda index: widths[index])] += 1
        left -= 1
    return [replace(each, width=widths[index]) for index, each in enumerate(columns)]


def _total(columns: Sequence[_Fitted]) -> int:
    return sum(each.width for each in columns) + _GAP * (len(columns) - 1)


def _shortened(cell: Text, width: int) -> Text:
    return Text(shorten(cell.plain, width), style=cell.style)
