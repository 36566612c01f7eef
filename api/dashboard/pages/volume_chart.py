"""The bars of deliveries over time, by their result, and the steps that they show. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from api.site import charts
from api.site.charts import Chart
from api.site.formatting import number
from api.site.time_steps import step_name
from hookfast.deliveries.figures import DEAD, Numbers, percentile
from hookfast.deliveries.outcome import DeliveryStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The figures from `start` to before `end`. The deliveries created in this time are counted by
    their result so far."""

    start: datetime
    end: datetime
    numbers: Numbers

    @property
    def delivered(self) -> int:
        return self.numbers.deliveries[DeliveryStatus.DELIVERED]

    @property
    def failed(self) -> int:
        return sum(self.numbers.deliveries[status] for status in DEAD)

    @property
    def cancelled(self) -> int:
        return self.numbers.deliveries[DeliveryStatus.CANCELLED]

    @property
    def open(self) -> int:
        return self.numbers.open

    @property
    def total(self) -> int:
        return self.numbers.accepted

    @property
    def success_rate(self) -> float | None:
        """The share of the ended deliveries that succeeded; None if none has ended."""
        ended = self.delivered + self.failed
        return self.delivered / ended if ended else None

    @property
    def attempts_rate(self) -> float | None:
        """The share of the attempts that succeeded; None if there were none."""
        attempted = self.numbers.attempted
        return self.numbers.succeeded / attempted if attempted else None

    def seconds(self, share: int) -> float | None:
        """Return a percentile of the times to delivery, in seconds."""
        found = percentile(self.numbers.delivery_ms, share)
        return None if found is None else found / 1_000


def steps_between(edges: Sequence[datetime], numbers: Sequence[Numbers]) -> list[Step]:
    """Return the steps between each two of these times."""
    return [
        Step(start=start, end=end, numbers=each)
        for (start, end), each in zip(pairwise(edges), numbers, strict=True)
    ]


def volume_chart(steps: Sequence[Step], *, zone: ZoneInfo, **options: Any) -> Chart:
    """Draw a bar for each step. The `options` are those of `charts.stacked_bars`."""
    return charts.stacked_bars(
        [
            [
                ("good", step.delivered),
                ("wait", step.open),
                ("bad", step.failed),
                ("other", step.cancelled),
            ]
            for step in steps
        ],
        tooltips=[
            f"{step_name(step.start, step.end, zone)}: {counted_words(step)}" for step in steps
        ],
        **options,
    )


def merged(steps: Sequence[Step]) -> Step:
    """Return steps that follow each other as one."""
    numbers = Numbers()
    for step in steps:
        numbers.update(step.numbers)
    return Step(start=steps[0].start, end=steps[-1].end, numbers=numbers)


def counted_words(step: Step) -> str:
    """Return a step's deliveries by their result: `12 delivered, 1 failed`."""
    counts = {
        "delivered": step.delivered,
        "failed": step.failed,
        "in progress": step.open,
        "cancelled": step.cancelled,
    }
    said = [f"{number(count)} {name}" for name, count in counts.items() if count]
    return ", ".join(said) or "no deliveries"
