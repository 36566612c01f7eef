"""The charts of an endpoint's page: its attempts by result, and how fast it answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Final, Literal

from fastapi import Query

from api.site import charts
from api.site.charts import Chart
from api.site.formatting import millis, number
from api.site.navigation import deliveries_between
from api.site.page import View
from api.site.time_steps import WINDOWS, step_name
from hookfast.deliveries.figures import Numbers, percentile
from hookfast.storage.counting import reading
from hookfast.storage.counting.reading import Scope

Window = Literal["1h", "24h", "7d"]
WindowQuery = Annotated[Window, Query(alias="window")]
NAMES: Final[dict[Window, str]] = {"1h": "1 hour", "24h": "24 hours", "7d": "7 days"}
DEFAULT: Final[Window] = "24h"


class AttemptClass(StrEnum):
    """What an attempt resulted in, as coarse as a chart can show it."""

    SUCCESS = "success"
    CLIENT_ERROR = "4xx"
    SERVER_ERROR = "5xx"
    TIMEOUT = "timeout"
    OTHER = "other"  # no answer for another reason, or a status such as a redirect

    @classmethod
    def of(cls, answer: str) -> AttemptClass:
        """Return the class of an answer by which attempts are counted."""
        return next((one for one in cls if one == answer), cls.OTHER)


_SERIES: Final[dict[AttemptClass, tuple[str, str]]] = {
    AttemptClass.SUCCESS: ("good", "success"),
    AttemptClass.CLIENT_ERROR: ("client", "4xx"),
    AttemptClass.SERVER_ERROR: ("server", "5xx"),
    AttemptClass.TIMEOUT: ("timeout", "timeout"),
    AttemptClass.OTHER: ("other", "other failure"),
}
"""The colour of each class of answers, and its name, in the order of the bars' parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStep:
    """The attempts that began from `start` to before `end`, and the percentiles of the response
    times of those that were answered, in milliseconds."""

    start: datetime
    end: datetime
    counts: Mapping[AttemptClass, int]
    p50: float | None
    p95: float | None

    @classmethod
    def of(cls, start: datetime, end: datetime, numbers: Numbers) -> AttemptStep:
        """Return the step of these figures."""
        counts: Counter[AttemptClass] = Counter()
        for answer, counted in numbers.by_answer().items():
            counts[AttemptClass.of(answer)] += counted
        p50, p95 = (percentile(numbers.response_ms, share) for share in (50, 95))
        return cls(start=start, end=end, counts=counts, p50=p50, p95=p95)

    @property
    def total(self) -> int:
        """The number of all attempts of the step."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    """A line of the legend: a series' answer, colour and name, and the sum of its values."""

    answer: AttemptClass
    series: str
    name: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCharts:
    """The charts of a window, with their figures. `words` are the window in words, `whole` all
    figures of its time."""

    window: Window
    words: str
    began: datetime | None
    """When the endpoint was created, if the charts begin there."""
    steps: Sequence[AttemptStep]
    results: Chart
    latency: Chart
    legend: Sequence[Legend]
    whole: Numbers

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
        found = await reading.steps(connection, Scope(endpoint_id=endpoint_id), edges)
    times = list(pairwise(edges))
    steps = [
        AttemptStep.of(start, end, numbers)
        for (start, end), numbers in zip(times, found, strict=True)
    ]
    zone = span.zone_at(view.now, view.zone)
    labels = [span.labels.of(start, end, zone) for start, end in times]
    moments = [step_name(start, end, zone) for start, end in times]
    links = [deliveries_between(start, end, endpoint_id=endpoint_id) for start, end in times]
    whole = Numbers()
    totals: Counter[AttemptClass] = Counter()
    for step, numbers in zip(steps, found, strict=True):
        totals.update(step.counts)
        whole.update(numbers)
    return EndpointCharts(
        window=window,
        words=span.words,
        began=created_at if span is not WINDOWS[window] else None,
        steps=steps,
        results=_results(steps, moments=moments, labels=labels, links=links),
        latency=_latency(steps, moments=moments, labels=labels, links=links),
        legend=[
            Legend(answer=answer, series=series, name=name, total=totals[answer])
            for answer, (series, name) in _SERIES.items()
        ],
        whole=whole,
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
    return charts.lines(
        [("p95", [step.p95 for step in steps]), ("p50", [step.p50 for step in steps])],
        tooltips=[
            f"{moment}: half answered within {millis(step.p50)}, 95 % within {millis(step.p95)}"
            for moment, step in zip(moments, steps, strict=True)
        ],
        labels=labels,
        unit=lambda value: "0" if value == 0 else millis(value),
        links=links,
    )
