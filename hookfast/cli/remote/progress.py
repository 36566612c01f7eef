"""The progress bar of long commands, on a terminal only."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn


def progress_bar(*columns: ProgressColumn) -> Progress:
    """Return a progress bar with a description, the bar and these columns on standard error. It
    shows nothing if that is not a terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        *columns,
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


def text_column(field: str) -> TextColumn:
    """Return a column that shows a field of the task as plain text."""
    return TextColumn(f"{{task.fields[{field}]}}", markup=False)
