"""The charts of an endpoint's page: its attempts by result, and how fast it answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal

from fastapi import Query

from api.site import charts
from api.site.charts import Chart
from api.site.formatting import millis, number
from api.site.navigation import deliveries_between
from api.site.page import View
from api.site.time_steps import WINDOWS, step_name
from hookfast.storage.figures import endpoint_attempts
from hookfast.storage.figures.endpoint_attempts import AttemptClass, AttemptStep

Window = Literal["1h", "24h", "7d"]
WindowQuery = Annotated[Window, Query(alias="window")]
NAMES: Final[dict[Window, str]] = {"1h": "1 hour", "24h": "24 hours", "7d": "7 days"}
DEFAULT: Final[Window] = "24h"

_SERIES: Final[dict[AttemptClass, tuple[str, str]]] = {
    AttemptClass.SUCCESS: ("good", "success"),
    AttemptClass.CLIENT_ERROR: ("client", "4xx"),
    AttemptClass.SERVER_ERROR: ("server", "5xx"),
    AttemptClass.TIMEOUT: ("timeout", "timeout"),
    AttemptClass.OTHER: ("other", "other failure"),
}
"""The colour of each class of answers, and its name, in the order of the bars' parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    """A line of the legend: a series' answer, colour and name, and the sum of its values."""

    answer: AttemptClass
    series: str
    name: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCharts:
    """The charts of a window, with their figures. `words` are the window in words."""

    window: Window
    words: str
    began: datetime | None
    """When the endpoint was created, if the charts begin there."""
    steps: Sequence[AttemptStep]
    results: Chart
    latency: Chart
    legend: Sequence[Legend]
    estimated: bool

    @property
    def total(self) -> int:
        """The number of all attempts."""
        return sum(each.total for each in self.legend)

    @property
    def succeeded(self) -> int:
        """The number of attempts that succeeded."""
        return self.legend[0].total


async def read(
    view: View, endpoint_id: str, window: Window, *, created_at: datetime
) -> EndpointCharts:
    """Return the charts of an endpoint's attempts in the window, or since the endpoint was created
    if it is much younger."""
    span = WINDOWS[window].begun_at(created_at, view.now)
    edges = span.edges(view.now, view.zone)
    async with view.context.database.read() as connection:
        found = await endpoint_attempts.read(connection, endpoint_id, edges, now=view.now)
    labels = [span.labels.of(step.start, step.end, view.zone) for step in found.steps]
    moments = [step_name(step.start, step.end, view.zone) for step in found.steps]
    links = [
        deliveries_between(step.start, step.end, endpoint_id=endpoint_id) for step in found.steps
    ]
    totals: Counter[AttemptClass] = Counter()
    for step in found.steps:
        totals.update(step.counts)
    return EndpointCharts(
        window=window,
        words=span.words,
        began=created_at if span is not WINDOWS[window] else None,
        steps=found.steps,
        results=_results(found.steps, moments=moments, labels=labels, links=links),
        latency=_latency(found.steps, moments=moments, labels=labels, links=links),
        legend=[
            Legend(answer=answer, series=series, name=name, total=totals[answer])
            for answer, (series, name) in _SERIES.items()
        ],
        estimated=found.estimated,
    )


def _results(
    steps: Sequence[AttemptStep],
    *,
    moments: Sequence[str],
    labels: Sequence[str],
    links: Sequence[str],
) -> Chart:
    return charts.stacked_bars(
        [
            [(series, step.counts.get(answer, 0)) for answer, (series, _) in _SERIES.items()]
            for step in steps
        ],
        tooltips=[
            f"{moment}: {_in_words(step)}" for moment, step in zip(moments, steps, strict=True)
        ],
        labels=labels,
        links=links,
    )


def _in_words(step: AttemptStep) -> str:
    """Return a step's attempts by result, such as `3 attempts: 2 success, 1 timeout`."""
    if not step.total:
        return "no attempts"
    parts = [
        f"{number(step.counts[answer])} {name}"
        for answer, (_, name) in _SERIES.items()
        if step.counts.get(answer)
    ]
    return (
        f"{number(step.total)} {'attempt' if step.total == 1 else 'attempts'}: {', '.join(parts)}"
    )


def _latency(
    steps: Sequence[AttemptStep],
    *,
    moments: Sequence[str],
    labels: Sequence[str],
    links: Sequence[str],
) -> Chart:
    medians = [charts.percentile(step.answered_ms, 50) for step in steps]
    slow = [charts.percentile(step.answered_ms, 95) for step in steps]
    return charts.lines(
        [("p95", slow), ("p50", medians)],
        tooltips=[
            f"{moment}: half answered within {millis(p50)}, 95 % within {millis(p95)}"
            for moment, p50, p95 in zip(moments, medians, slow, strict=True)
        ],
        labels=labels,
        unit=lambda value: "0" if value == 0 else millis(value),
        links=links,
    )
