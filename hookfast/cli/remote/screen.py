"""What people see: tables and sentences, on a terminal or in a pipe.

Receivers write some of what is shown (their errors and answers), so nothing that could steer the
terminal gets through, and no text is taken for markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
_WIDE = 100_000
_LONG_CELL = 60


def say(sentence: str) -> None:
    """A line on standard error."""
    typer.echo(sentence, err=True)


def show_table(
    headings: Sequence[str], rows: Iterable[Sequence[Any]], *, nothing: str, wide: str = ""
) -> None:
    """Print a table whose columns keep their width, but for the one called `wide`, which wraps on
    a narrow terminal. Without rows, say `nothing` on standard error."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    cells = [[cell(value) for value in row] for row in rows]
    for place, heading in enumerate(headings):
        if heading == wide:
            table.add_column(heading, overflow="fold")
            continue
        # said, for rich takes the longest word for the least width, and cuts the others' ids for it
        least = max(Text(heading).cell_len, *(row[place].cell_len for row in cells), 0)
        table.add_column(heading, no_wrap=True, min_width=least)
    for row in cells:
        table.add_row(*row)
    if table.row_count:
        show(table)
    else:
        say(nothing)


def show_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values, one under the other; what is None is left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None:
            table.add_row(Text(name, style="bold"), cell(value))
    show(table)


def show(table: Table) -> None:
    """Print a table: as wide as it needs to be in a pipe, and never so narrow that an id is cut."""
    console = Console(highlight=False)
    options = console.options.update(max_width=_WIDE)
    needed = Measurement.get(console, options, table)
    width = max(console.width, needed.minimum) if console.is_terminal else needed.maximum
    Console(highlight=False, width=max(width, 1)).print(table, crop=False)


def cell(value: Any) -> Text:
    """A value as it is shown: words of a state in colour, numbers grouped, None as a dash."""
    if value is None or value == "":
        return Text("–", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float):
        return Text(f"{value:,.6g}")
    if isinstance(value, (list, tuple)):
        return Text(", ".join(plain(str(item)) for item in value) or "–")
    text = plain(str(value))
    return Text(text, style=_COLOURS.get(text, ""))


def plain(text: str) -> str:
    """`text` on one line, with whatever is no visible character (escape sequences, changes of
    direction) replaced."""
    spaced = " ".join(text.split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in spaced)


def short(text: str | None, length: int = _LONG_CELL) -> str | None:
    """The start of a long text, for a table."""
    if text is None or len(text) <= length:
        return text
    return f"{text[: length - 1]}…"


def counted(number: int, noun: str) -> str:
    """`1 delivery`, `1,234 deliveries`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
