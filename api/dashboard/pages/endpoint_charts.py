"""The charts of an endpoint's page: its attempts by result, and how fast it answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Final, Literal

from fastapi import Query

from api.site import charts
from api.site.attempt_chart import AttemptStep, Legend, attempt_chart, classified, legend_of
from api.site.charts import Chart
from api.site.formatting import millis
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedStep(AttemptStep):
    """The attempts of a step, which ends before `end`, and the percentiles of the response times of
    those that were answered, in milliseconds."""

    end: datetime
    p50: float | None
    p95: float | None

    @classmethod
    def of(cls, start: datetime, end: datetime, numbers: Numbers) -> TimedStep:
        """Return the step of these figures."""
        counts = classified(numbers.by_answer())
        p50, p95 = (percentile(numbers.response_ms, share) for share in (50, 95))
        return cls(start=start, end=end, counts=counts, p50=p50, p95=p95)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCharts:
    """The charts of a window, with their figures. `words` are the window in words, `whole` all
    figures of its time."""

    window: Window
    words: str
    began: datetime | None
    """When the endpoint was created, if the charts begin there."""
    steps: Sequence[TimedStep]
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
    steps = [TimedStep.of(*each, numbers) for each, numbers in zip(times, found, strict=True)]
    zone = span.zone_at(view.now, view.zone)
    labels = [span.labels.of(start, end, zone) for start, end in times]
    moments = [step_name(start, end, zone) for start, end in times]
    links = [deliveries_between(start, end, endpoint_id=endpoint_id) for start, end in times]
    whole = Numbers()
    for numbers in found:
        whole.update(numbers)
    return EndpointCharts(
        window=window,
        words=span.words,
        began=created_at if span is not WINDOWS[window] else None,
        steps=steps,
        results=attempt_chart(steps, moments=moments, labels=labels, links=links),
        latency=_latency(steps, moments=moments, labels=labels, links=links),
        legend=legend_of(classified(whole.by_answer())),
        whole=whole,
    )


def _latency(
    steps: Sequence[TimedStep],
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
