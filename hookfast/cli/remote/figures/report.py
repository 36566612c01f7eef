"""Prints the figures of `GET /v1/figures`: their sums, and tables by step or by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from rich.text import Text

from hookfast.cli.remote.figures.sparkline import sparkline
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, Columns, Row, print_facts, print_note
from hookfast.cli.remote.times import format_seconds, format_time
from hookfast.clock import format_duration
from hookfast.plural import are, pluralize

_SUMS: Final = ("accepted", "attempts", "succeeded", "delivered", "dead", "gone", "cancelled")
_RARE: Final = ("gone", "cancelled")
_SHARES: Final = (50, 95, 99)
_OVER_TIME: Final = Column(value="steps", priority=2)
_STEP_COLUMNS: Final[Columns] = {
    "from": Column(value=lambda step: _short(step["at"]), priority=0),
    "accepted": "accepted",
    "attempts": "attempts",
    "success": Column(value=lambda step: _percent(step["succeeded"], step["attempts"])),
    "delivered": "delivered",
    "dead": "dead",
    "gone": Column(value="gone", priority=3),
    "cancelled": Column(value="cancelled", priority=3),
    "p50": Column(value=lambda step: _duration(step["p50_ms"])),
    "p95": Column(value=lambda step: _duration(step["p95_ms"])),
    "p99": Column(value=lambda step: _duration(step["p99_ms"]), priority=2),
}


def print_figures(remote: Remote, figures: Row) -> None:
    """Print the figures for a person."""
    steps, total = figures["data"], figures["total"]
    print_facts(
        {
            "from": format_time(figures["since"]),
            "to": format_time(figures["until"]),
            "step": format_duration(timedelta(seconds=figures["step_seconds"])),
            **_sums(steps, total),
            "response time": _times(figures, ""),
            "time to delivery": _times(figures, "delivery_"),
        }
    )
    if total["by_result"] is not None:
        _print_numbers(remote, figures, "by_result", "result", "attempts")
    elif total["by_status"] is not None:
        _print_numbers(remote, figures, "by_status", "status", "accepted")
        _print_numbers(remote, figures, "by_reason", "reason", "dead letters")
    elif total["by_type"] is not None:
        _print_types(remote, figures)
    else:
        remote.print_table(steps, _STEP_COLUMNS, if_empty="")


def _print_numbers(remote: Remote, figures: Row, group: str, heading: str, counted: str) -> None:
    """Print a group of numbers: each, its share, and how it changed."""
    numbers: Mapping[str, int] = figures["total"][group]
    whole = sum(numbers.values())
    rows = [
        {
            "name": name,
            "number": number,
            "share": _percent(number, whole),
            "steps": sparkline([step[group][name] for step in figures["data"]]),
        }
        for name, number in sorted(numbers.items(), key=lambda item: -item[1])
        if number
    ]
    if rows:
        columns: Columns = {
            heading: "name",
            counted: "number",
            "share": "share",
            "over time": _OVER_TIME,
        }
        remote.print_table(rows, columns, if_empty="")


def _print_types(remote: Remote, figures: Row) -> None:
    rows = [
        {
            "name": name,
            "steps": sparkline([step["by_type"][name]["attempts"] for step in figures["data"]]),
            **counts,
        }
        for name, counts in figures["total"]["by_type"].items()
    ]
    rows.sort(key=lambda row: -(row["accepted"] + row["attempts"]))
    remote.print_table(
        rows,
        {
            "event type": Column(value="name", priority=0, least=20),
            "accepted": "accepted",
            "attempts": "attempts",
            "success": Column(value=lambda row: _percent(row["succeeded"], row["attempts"])),
            "delivered": "delivered",
            "dead": "dead",
            "gone": Column(value="gone", priority=2),
            "attempts over time": _OVER_TIME,
        },
        if_empty="No event type has figures in this time.",
    )
    if more := figures["more_types"]:
        print_note(f"{pluralize(more, 'more event type')} {are(more)} less frequent.")


def _sums(steps: Sequence[Row], total: Row) -> dict[str, Text]:
    """Return the sums, each with a sparkline; of what is rare, only if it happened."""
    texts = {name: f"{total[name]:,}" for name in _SUMS if total[name] or name not in _RARE}
    if total["attempts"]:
        texts["succeeded"] += f" ({_percent(total['succeeded'], total['attempts'])})"
    width = max(map(len, texts.values()))
    return {
        name: Text(f"{text:<{width}}  {sparkline([step[name] for step in steps])}")
        for name, text in texts.items()
    }


def _percent(part: int, whole: int) -> str | None:
    """Return a share in percent, which is 100 % only if nothing is missing."""
    if not whole:
        return None
    return "100 %" if part == whole else f"{int(part * 10_000 / whole) / 100:g} %"


def _times(figures: Row, kind: str) -> str | None:
    found = {share: figures[f"{kind}p{share}_ms"] for share in _SHARES}
    if found[_SHARES[0]] is None:
        return None
    return ", ".join(f"p{share} {_duration(value)}" for share, value in found.items())


def _duration(milliseconds: Any) -> str | None:
    """Return a duration with at most three digits: `84 ms`, `1.4 s`, `5 min`."""
    if milliseconds is None:
        return None
    if (value := float(milliseconds)) < 1_000:
        return f"{value:.3g} ms"
    return f"{value / 1_000:.3g} s" if value < 100_000 else format_seconds(value / 1_000)


def _short(moment: str) -> str:
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M}Z"
