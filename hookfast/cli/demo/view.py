"""The demo's output: a live table on a terminal, a line per change elsewhere."""

from __future__ import annotations

from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hookfast.cli.demo.board import Board, Line
from hookfast.cli.demo.receiver import Receiver
from hookfast.cli.demo.scene import ENDPOINTS
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.supervisor.service import Service
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
_OTHER_LINES = 18  # the lines above and below the deliveries


def header(running: Service, *, key: str, log: str) -> RenderableType:
    """Return the addresses of the dashboard, API and Temporal UI, the key and the log file."""
    table = Table.grid(padding=(0, 3))
    table.add_row(f"[bold]Hookfast {VERSION}[/bold]", "the demo is running; Ctrl-C stops it")
    table.add_row("Dashboard", f"{running.api_url}/  (sign in with the API key)")
    table.add_row("API docs", f"{running.api_url}/docs")
    table.add_row("API key", key)
    table.add_row("Temporal UI", running.temporal_ui_url or "")
    table.add_row("Logs", log)
    return table


def frame(
    top: RenderableType, board: Board, receiver: Receiver, *, now: datetime, height: int
) -> RenderableType:
    """Return everything that is shown on a terminal with `height` lines."""
    shown = board.newest(max(5, height - _OTHER_LINES))
    table = Table(expand=True, border_style="bright_black", pad_edge=False)
    for name, ratio in (("event", 5), ("to", 6), ("status", 2), ("attempts", 1), ("answer", 3)):
        table.add_column(name, ratio=ratio, no_wrap=True, overflow="ellipsis")
    table.add_column("next", ratio=1, no_wrap=True, justify="right")
    for line in shown:
        table.add_row(
            line.event_type,
            f"{line.receiver} [bright_black]({_BEHAVIOURS.get(line.receiver, '')})[/bright_black]",
            Text(_status(line), style=_STYLES[line.status]),
            str(line.attempts),
            line.answer,
            _countdown(line, now),
        )
    counts = Text(summary(board, receiver), style="bold")
    return Group(top, "", table, counts, _workflow_link(shown))


def plain(line: Line) -> str:
    """Return a change as one line of text."""
    due = "" if line.next_at is None else f", next {line.next_at:%H:%M:%S}"
    return (
        f"{line.updated_at[11:19]} {line.event_type} → {line.receiver}: {_status(line)}, "
        f"attempt {line.attempts} {line.answer}{due}"
    )


def summary(board: Board, receiver: Receiver) -> str:
    """Return the counts as one line of text."""
    counts = board.counts()
    statuses = ", ".join(
        f"{counts[status]} {status}" for status in DeliveryStatus if counts[status]
    )
    return (
        f"{statuses} ({board.recovered()} after retries); receiver: {receiver.verified} requests "
        f"with both signatures verified, {receiver.rejected} rejected"
    )


def _workflow_link(shown: list[Line]) -> Text:
    line = next((line for line in shown if line.is_notable and line.url), None)
    if line is None:
        return Text("")
    text = f"The workflow of one of them: {line.url}"
    return Text(text, style=f"link {line.url}", overflow="fold")


def _status(line: Line) -> str:
    if line.status is DeliveryStatus.DELIVERED and line.attempts > 1:
        return "recovered"
    return "dead letter" if line.status is DeliveryStatus.DEAD else line.status.value


def _countdown(line: Line, now: datetime) -> str:
    if line.next_at is None or line.status.finished:
        return ""
    seconds = (line.next_at - now).total_seconds()
    return f"{seconds:.0f} s" if seconds > 0 else "now"
