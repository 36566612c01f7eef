"""A customer's figures of the last 24 hours: messages, attempts by result, and response times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from api.access.authentication import Principal
from api.routes.figures import FigureSeries, get_figures
from api.site.attempt_chart import AttemptStep, Legend, attempt_chart, classified, legend_of
from api.site.charts import Chart
from api.site.page import View
from api.site.time_steps import WINDOWS, step_name
from api.site.zone import UTC_ZONE
from hookfast.deliveries.figures import DEAD
from hookfast.deliveries.outcome import DeliveryStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerFigures:
    """The figures, the messages created in the time by their present status, and the chart of the
    attempts by result with its legend and its steps."""

    series: FigureSeries
    messages: Mapping[DeliveryStatus, int]
    chart: Chart
    legend: Sequence[Legend]
    steps: Sequence[AttemptStep]

    @property
    def delivered(self) -> int:
        return self.messages[DeliveryStatus.DELIVERED]

    @property
    def failed(self) -> int:
        """How many messages have failed for good, as the list of those that failed has them: one
        that was sent again and failed again is one."""
        return sum(self.messages[status] for status in DEAD)


async def read(
    view: View, principal: Principal, *, endpoint_id: str | None = None
) -> CustomerFigures:
    """Return the figures of one of the customer's endpoints, or of all that the link leads to."""
    span = WINDOWS["24h"]
    began = span.edges(view.now, UTC_ZONE)[0]
    figures = partial(
        get_figures, view.context, principal, endpoint_id=endpoint_id, since=began, until=view.now
    )
    series, by_status = await figures(by="result"), await figures(by="status")
    length, labels = span.length, span.labels
    steps = [
        AttemptStep(start=each.at, counts=classified(each.by_result or {})) for each in series.data
    ]
    return CustomerFigures(
        series=series,
        messages=by_status.total.by_status or {},
        chart=attempt_chart(
            steps,
            moments=[step_name(step.start, step.start + length, view.zone) for step in steps],
            labels=[labels.of(step.start, step.start + length, view.zone) for step in steps],
        ),
        legend=legend_of(classified(series.total.by_result or {})),
        steps=steps,
    )
