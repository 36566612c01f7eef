"""The bars of deliveries over time, by their result, and the steps that they show. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from api.site import charts
from api.site.charts import Chart
from api.site.formatting import number
from api.site.time_steps import step_name
from hookfast.storage.figures.overview import Step


def volume_chart(steps: Sequence[Step], *, zone: ZoneInfo, **options: Any) -> Chart:
    """Draw a bar for each step. The `options` are those of `charts.stacked_bars`."""
    return charts.stacked_bars(
        [
            [("good", step.delivered), ("wait", step.open + step.cancelled), ("bad", step.failed)]
            for step in steps
        ],
        tooltips=[
            f"{step_name(step.start, step.end, zone)}: {counted_words(step)}" for step in steps
        ],
        **options,
    )


def merged(steps: Sequence[Step]) -> Step:
    """Return steps that follow each other as one."""
    return Step(
        start=steps[0].start,
        end=steps[-1].end,
        delivered=sum(step.delivered for step in steps),
        failed=sum(step.failed for step in steps),
        cancelled=sum(step.cancelled for step in steps),
        open=sum(step.open for step in steps),
        estimated=any(step.estimated for step in steps),
    )


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
