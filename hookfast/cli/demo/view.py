"""The demo's output: a live table on a terminal, a line per change elsewhere.

Widths are fixed, so that the table does not move while its content changes. A narrow terminal gets
fewer columns: nothing is wrapped, and no URL, key or id is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hookfast.cli.demo.board import Board, Line
from hookfast.cli.demo.next_steps import commands_note, next_steps, step_lines
from hookfast.cli.demo.receiver import Receiver
from hookfast.cli.demo.scene import ENDPOINTS, EVENT_TYPES
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.version import VERSION

_STYLES = {
    DeliveryStatus.PENDING: "cyan",
    DeliveryStatus.RETRYING: "yellow",
    DeliveryStatus.HELD: "magenta",
    DeliveryStatus.PAUSED: "blue",
    DeliveryStatus.DELIVERED: "green",
    DeliveryStatus.DEAD: "red",
    DeliveryStatus.GONE: "red",
    DeliveryStatus.CANCELLED: "bright_black",
}
_BEHAVIOURS = {endpoint.name: endpoint.behaviour.value for endpoint in ENDPOINTS}
_GAP = 2
_LEAST_LINES, _MANY_LINES = 5, 10


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of fixed width; the ones with the lowest `priority` number stay on a narrow
    terminal."""

    heading: str
    width: int
    priority: int
    cell: Callable[[Line, datetime], str | Text]


_COLUMNS = (
    _Column("event", max(len(name) for name in EVENT_TYPES), 0, lambda line, now: line.event_type),
    _Column("to", max(len(name) for name in _BEHAVIOURS), 0, lambda line, now: line.receiver),
    _Column(
        "which",
        max(len(text) for text in _BEHAVIOURS.values()),
        4,
        lambda line, now: Text(_BEHAVIOURS.get(line.receiver, ""), style="bright_black"),
    ),
    _Column("status", 11, 0, lambda line, now: Text(_status(line), style=_STYLES[line.status])),
    _Column("attempts", 8, 3, lambda line, now: str(line.attempts)),
    _Column("answer", 14, 2, lambda line, now: line.answer),
    _Column("next", 5, 1, lambda line, now: _countdown(line, now)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the demo shows of the deliveries, of its addresses, and of what to look at next."""

    api_url: str
    temporal_ui_url: str | None
    key: str
    log: str

    def header(self) -> Text:
        """Return the addresses of the dashboard, API and Temporal UI, the key and the log file."""
        facts = {
            "Dashboard": f"{self.api_url}/",
            "API key": self.key,
            "API docs": f"{self.api_url}/docs",
            "Temporal UI": self.temporal_ui_url,
            "Logs": self.log,
        }
        lines = [Text(f"Hookfast {VERSION}: the demo runs until Ctrl-C", style="bold")]
        lines += [Text(f"{name:<13}{value}") for name, value in facts.items() if value]
        return Text("\n").join(lines)

    def advice(self, board: Board, *, width: int | None = None) -> list[tuple[str, Text]]:
        """Return what to look at next, each with its kind; None as `width` cuts nothing."""
        steps = next_steps(
            board.lines(), api_url=self.api_url, temporal_ui_url=self.temporal_ui_url
        )
        shown = []
        for kind, step in steps.items():
            sentence, *ways = step_lines(step, width=width)
            text = Text.assemble((f"Look next: {sentence}", "bold"))
            for way in ways:
                text.append("\n").append(way, style=f"link {way}" if "://" in way else "")
            shown.append((kind, text))
        return shown

    def frame(
        self, console: Console, board: Board, receiver: Receiver, *, now: datetime
    ) -> RenderableType:
        """Return everything that is shown on this terminal."""
        header = [self.header(), Text()]
        below: list[Text] = [Text(line) for line in summary(board, receiver)]
        for number, (_, text) in enumerate(self.advice(board, width=console.width)):
            step = [Text(), text]
            if not number:
                step.append(Text(commands_note(self.api_url), style="bright_black"))
            if number and _free_lines(console, [*header, *below, *step]) < _MANY_LINES:
                break
            below += step
        free = max(_LEAST_LINES, _free_lines(console, [*header, *below]))
        table = _table(board.newest(free), now, width=console.width)
        return Group(*header, table, *below)


def _free_lines(console: Console, around: list[Text]) -> int:
    """Return how many deliveries fit between these texts, under the headings of the table."""
    return console.height - 2 - len(console.render_lines(Group(*around)))


def _table(lines: list[Line], now: datetime, *, width: int) -> Table:
    """Return the table of these deliveries, with the most important columns that fit."""
    kept: list[_Column] = []
    for column in sorted(_COLUMNS, key=lambda column: column.priority):
        taken = sum(one.width + _GAP for one in kept)
        if column.priority == 0 or taken + column.width <= width:
            kept.append(column)
    columns = [column for column in _COLUMNS if column in kept]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.heading, width=column.width, no_wrap=True, overflow="ellipsis")
    for line in lines:
        table.add_row(*(column.cell(line, now) for column in columns))
    return table


def plain(line: Line) -> str:
    """Return a change as one line of text."""
    due = "" if line.next_at is None else f", next {line.next_at:%H:%M:%S}"
    return (
        f"{line.updated_at[11:19]} {line.event_type} → {line.receiver}: {_status(line)}, "
        f"attempt {line.attempts} {line.answer}{due}"
    )


def summary(board: Board, receiver: Receiver) -> list[str]:
    """Return the counts as lines of text."""
    counts = board.counts()
    statuses = ", ".join(
        f"{counts[status]} {status}" for status in DeliveryStatus if counts[status]
    )
    return [
        f"{statuses} ({board.recovered()} after retries)",
        f"{receiver.verified} requests with both signatures verified, {receiver.rejected} rejected",
    ]


def _status(line: Line) -> str:
    if line.recovered:
        return "recovered"
    return "dead letter" if line.status is DeliveryStatus.DEAD else line.status.value


def _countdown(line: Line, now: datetime) -> str:
    if line.next_at is None or line.status.finished:
        return ""
    seconds = (line.next_at - now).total_seconds()
    return f"{seconds:.0f} s" if seconds > 0 else "now"
