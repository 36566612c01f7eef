"""The table of a run, and the stories of what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.cluster.judgement import Outcome

_SHOWN = 5
_HEADINGS = ("accepted", "delivered", "lost", "duplicated", "stuck", "repeated", "settled")
_NOTE = (
    "accepted, delivered: deliveries. repeated: sent again, because a worker was killed between "
    "the receiver's 2xx and its record. settled: seconds until everything was delivered, after the "
    "fault and its traffic. pause: the longest time of an emit, with its repetitions."
)


def show(outcomes: Sequence[Outcome], console: Console, *, title: str) -> None:
    """Print the table."""
    table = Table(title=title, caption=_NOTE, caption_justify="left")
    table.add_column("fault")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    table.add_column("callers saw")
    table.add_column("pause", justify="right")
    for outcome in outcomes:
        table.add_row(*_cells(outcome), style="" if outcome.well else "bold red")
    table.add_section()
    table.add_row(*_cells(_sum(outcomes)), style="bold")
    console.print(table)
    for outcome in outcomes:
        for what in ("lost", "duplicated", "stuck"):
            for key in getattr(outcome, what)[:_SHOWN]:
                console.print(f"{outcome.name}: {what} {key}", style="bold red")


def line(outcome: Outcome) -> str:
    """Return what is known of a row when its deliveries have ended."""
    accepted = sum(outcome.seen.accepted.values())
    return f"{accepted:,} accepted, {_answers(outcome)}; settled in {outcome.settled:.1f} s"


def _cells(outcome: Outcome) -> list[str]:
    counts = (outcome.lost, outcome.duplicated, outcome.stuck, outcome.repeated)
    return [
        outcome.name,
        f"{sum(outcome.seen.accepted.values()):,}",
        f"{outcome.delivered:,}",
        *(f"{len(keys):,}" for keys in counts),
        f"{outcome.settled:.1f}",
        _answers(outcome),
        f"{outcome.seen.longest:.1f} s",
    ]


def _answers(outcome: Outcome) -> str:
    return ", ".join(f"{answer} × {n:,}" for answer, n in outcome.seen.answers.most_common())


def _sum(outcomes: Sequence[Outcome]) -> Outcome:
    total = Outcome("together", type(outcomes[0].seen)(), settled=0.0)
    for outcome in outcomes:
        total.seen.accepted |= outcome.seen.accepted
        total.seen.answers += outcome.seen.answers
        total.seen.longest = max(total.seen.longest, outcome.seen.longest)
        total.settled = max(total.settled, outcome.settled)
        total.delivered += outcome.delivered
        for what in ("lost", "duplicated", "repeated", "stuck"):
            getattr(total, what).extend(getattr(outcome, what))
    return total
