"""The table of a storm: accepted events, how deliveries ended, and the counts that must be 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from bench.chaos import checks
from bench.chaos.evidence import Evidence
from bench.chaos.part import Part
from bench.chaos.rows import Rows, Watch

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table. `bad`: deliveries that violate it."""

    name: str
    value: str
    bad: Sequence[str] | None = None

    @property
    def violated(self) -> bool:
        """Whether its count must be 0."""
        return bool(self.bad)


@dataclass(slots=True)
class Verdict:
    """The findings from evidence and rows."""

    evidence: Evidence
    rows: Rows
    watch: Watch
    parts: Sequence[Part]
    open_workflows: Sequence[str]
    woken_by_sweep: int
    drift: Mapping[str, int]
    """Figures that disagree with the rows, and by how much they are too high."""
    more: Sequence[Line] = ()
    """Lines of the run that used the storm's parts for another purpose; they end the table."""
    lines: list[Line] = field(default_factory=list)

    def reach(self) -> list[Line]:
        """Return the lines of the table, in order."""
        evidence, rows = self.evidence, self.rows
        deliveries = sum(evidence.accepted.values())
        statuses = Counter(rows.statuses.values())
        self._say("events accepted", f"{len(evidence.accepted):,}")
        self._say("deliveries", f"{deliveries:,}")
        for status in ("delivered", "cancelled"):
            self._say(status, f"{statuses[status]:,}")
        for reason, number in rows.dead_by_reason.most_common():
            self._say(f"dead: {reason}", f"{number:,}")
        self._must_be_none("lost: deliveries missing", checks.missing(evidence.accepted, rows.made))
        self._must_be_none("lost: deliveries that never ended", rows.open)
        strangers = sorted(rows.made.keys() - evidence.accepted.keys())
        self._must_be_none("events stored without a 202", strangers)
        self._requests()
        if evidence.keys:
            order = checks.out_of_order(evidence.requests, evidence.keys, rows.deliveries)
            self._must_be_none("sent before an earlier one of its lane was done", order)
        self._must_be_none("illegal states", [key for key, _ in self.watch.illegal])
        self._must_be_none("rows left in the outbox", rows.in_outbox)
        self._must_be_none("workflows left open", self.open_workflows)
        drift = [f"{figure}: {number:+,}" for figure, number in self.drift.items()]
        self._must_be_none("figures that disagree with the rows", drift)
        self._say("deliveries woken by the sweep", f"{self.woken_by_sweep:,}")
        restarts = {part.name: part.ended_by_itself for part in self.parts if part.ended_by_itself}
        self._say("processes that ended by themselves", _counted(restarts) or "0")
        self._say("the storm", _counted(Counter(fault.kind for fault in evidence.faults)))
        actions = Counter(action.action for action in evidence.actions)
        self._say("asked by people, of one delivery", _counted(actions))
        self.lines += self.more
        return self.lines

    def _requests(self) -> None:
        evidence, statuses = self.evidence, self.rows.statuses
        self._say("requests", f"{len(evidence.requests):,}")
        repeats = checks.repeated(evidence.requests)
        causes = Counter(checks.cause_of(first, evidence.faults) for first, _ in repeats)
        self._say("beyond the first of an attempt", f"{len(repeats):,}")
        for cause, number in causes.most_common():
            if cause != checks.UNEXPLAINED:
                self._say(f"  {cause}", f"{number:,}")
        self._must_be_none(
            f"  {checks.UNEXPLAINED}",
            [
                first.message_id
                for first, _ in repeats
                if checks.cause_of(first, evidence.faults) == checks.UNEXPLAINED
            ],
        )
        late = checks.after_cancel(evidence.requests, evidence.actions)
        self._must_be_none("requests begun after a cancel", [one.message_id for _, one in late])
        unseen = checks.delivered_unseen(evidence.requests, statuses)
        self._must_be_none("delivered without a 2xx", unseen)
        counted, unaccounted = checks.undelivered_successes(
            evidence.requests, evidence.actions, evidence.faults, statuses
        )
        for status, number in counted.most_common():
            self._say(f"2xx, and {status}", f"{number:,}")
        self._must_be_none(
            "2xx, not delivered, and nothing accounts for it",
            [request.message_id for request in unaccounted],
        )

    def _say(self, name: str, value: str) -> None:
        self.lines.append(Line(name, value))

    def _must_be_none(self, name: str, bad: Sequence[str]) -> None:
        self.lines.append(Line(name, f"{len(bad):,}", bad))

    def story(self, delivery_id: str) -> list[str]:
        """Return the story of a delivery in order of time, to find the reason."""
        at: list[tuple[float, str]] = []
        for request in self.evidence.requests:
            if request.message_id == delivery_id:
                seconds = request.ended - request.begun
                what = f"request {request.attempt} of worker {request.sender}: {request.status}"
                at.append((request.begun, f"{what} after {seconds:.3f} s"))
        for action in self.evidence.actions:
            if action.delivery_id == delivery_id:
                at.append((action.begun, f"{action.action} asked"))
                at.append((action.answered, f"{action.action} answered {action.status}"))
        for attempt in self.rows.attempts.get(delivery_id, ()):
            what = f"attempt {attempt['number']} recorded, {attempt['trigger']}"
            at.append((_unix(attempt["started_at"]), f"{what}: {attempt['result']}"))
        if at:
            first, last = min(at)[0] - 30, max(at)[0] + 30
            for fault in self.evidence.faults:
                if fault.overlaps(first, last):
                    at.append((fault.begun, f"[{fault.kind}, {fault.process or ''}"))
                    at.append((fault.ended, f"{fault.kind}]"))
        row = self.rows.deliveries.get(delivery_id, {})
        own = ", ".join(f"{name}={value}" for name, value in row.items() if value not in (None, ""))
        begun = self.evidence.begun
        illegal = [
            f"{what}: {row}"
            for (key, what), row in self.watch.illegal.items()
            if key == delivery_id
        ]
        return [f"{moment - begun:9.3f}  {what}" for moment, what in sorted(at)] + [
            f"row: {own}",
            *illegal,
        ]


def show(verdict: Verdict, console: Console, *, title: str) -> bool:
    """Print the table, and the stories of bad deliveries. Return whether all is well."""
    lines = verdict.reach()
    table = Table(title=title)
    table.add_column("")
    table.add_column("", justify="right", max_width=60)
    for line in lines:
        style = "bold red" if line.violated else "green" if line.bad is not None else ""
        table.add_row(line.name, line.value, style=style)
    console.print(table)
    for line in lines:
        for bad in (line.bad or ())[:_SHOWN]:
            console.print(f"\n{line.name.strip()}: {bad}", style="bold red")
            if bad.startswith("dlv_"):
                console.print("\n".join(verdict.story(bad)), markup=False, highlight=False)
    return not any(line.violated for line in lines)


def _counted(numbers: Mapping[str, int]) -> str:
    ordered = sorted(numbers.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {number:,}" for name, number in ordered)


def _unix(moment: datetime | str) -> float:
    if isinstance(moment, str):  # SQLite's
        moment = datetime.fromisoformat(moment)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
