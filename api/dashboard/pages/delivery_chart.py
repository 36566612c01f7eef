"""The chart above the list of deliveries: how many match the filter over time, by status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from api.access.authentication import Principal
from api.dashboard.pages.volume_chart import Step, merged, steps_between, volume_chart
from api.site.charts import Chart
from api.site.formatting import number
from api.site.navigation import short_rfc3339
from api.site.page import View
from api.site.time_steps import Labels
from api.site.zone import UTC_ZONE
from hookfast.settings.settings import Settings
from hookfast.storage.counting import reading
from hookfast.storage.counting.reading import Scope
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.figures import delivery_steps
from hookfast.storage.figures.delivery_steps import MOST, TooMany

_MAX_STEPS: Final = 49  # hours of two days that begin at a minute
_MAX_LABELS: Final = 6
_DEFAULT: Final = timedelta(hours=24)
_SHORTEST: Final = timedelta(minutes=10)
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_LENGTHS: Final = (
    *(_MINUTE * count for count in (1, 2, 5, 10, 15)),
    *(_HOUR * count for count in (1, 2, 4, 6, 12)),
    *(_DAY * count for count in (1, 2, 7, 14, 28, 91, 364)),
)
"""The lengths of steps and the distances of labels: divisors of a day, then days. Without half an
hour, so that a day is drawn by the hour, of which there are fewer figures to read."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


_TOO_MANY: Final = {
    TooMany.MATCH: f"More than {number(MOST)} match. For a chart, choose a shorter time.",
    TooMany.READ: f"More than {number(MOST)} deliveries are in this time. Narrow it to count those "
    "that match.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryChart:
    """The chart, None if it would have one bar, and all of its steps as one. `deleted`: retention
    has deleted some of these deliveries, which are counted but not listed."""

    chart: Chart | None
    whole: Step
    deleted: bool


async def read(
    view: View, principal: Principal, chosen: DeliveryFilter
) -> DeliveryChart | str | None:
    """Return the chart of the deliveries that match the filter: of the filter's times, else of the
    last day; or a sentence that says why there are too many to count. None for an empty time, and
    for one event, which has few deliveries."""
    own = replace(chosen, tenant_id=principal.tenant_for(chosen.tenant_id))
    if own.event_id is not None:
        return None
    async with view.context.database.read() as connection:
        oldest = None
        if own.since is None:
            oldest = await reading.oldest(connection, Scope(own.tenant_id, own.endpoint_id))
        too_many = None
        for edges in edges_of(own, view.now, oldest=oldest):
            found = await delivery_steps.read(connection, own, edges, now=view.now)
            if not isinstance(found, TooMany):
                steps = steps_between(edges, found)
                return DeliveryChart(
                    chart=_drawn(view, steps) if len(steps) > 1 else None,
                    whole=merged(steps),
                    deleted=_are_deleted(steps, view.context.settings, now=view.now),
                )
            too_many = _TOO_MANY[found]
    return too_many


def edges_of(
    chosen: DeliveryFilter, now: datetime, *, oldest: datetime | None = None
) -> list[list[datetime]]:
    """Return the times at which the steps begin and end, of the chart to draw: of the first one in
    this list whose deliveries can be counted. Empty if the time is."""
    times = partial(edges_between, chosen.since, chosen.until, now, oldest=oldest)
    fine = times()
    if len(fine) < 3:
        return [fine] if fine else []
    least = delivery_steps.precision(chosen, fine[0], now=now)
    counted = fine if least is None else times(least=least)
    known = len(counted) > 2 and delivery_steps.are_counted(chosen, counted, now=now)
    if known or counted == fine:
        return [counted]
    # one bar says little, and the ends are to be counted anyway: shorter steps if there are few
    return [fine, counted]


def edges_between(
    since: datetime | None,
    until: datetime | None,
    now: datetime,
    *,
    oldest: datetime | None = None,
    least: timedelta = _MINUTE,
) -> list[datetime]:
    """Return the times at which the steps begin and end: at round times, except for the given ends
    of the range. Without a beginning, the day before the end, or less if the `oldest` delivery is
    younger; none if the range is empty. `least`: no step but the first and last is shorter."""
    last = now if until is None else min(until, now)
    if last < _EPOCH + _DEFAULT:
        return []
    first = last - _DEFAULT if since is None else max(since, _EPOCH)
    if since is None and oldest is not None:
        first = max(first, min(oldest, last - _SHORTEST))
    if first >= last:
        return []
    length = max(least, _fitting(last - first, _MAX_STEPS))
    if since is None:
        first = _EPOCH + (first - _EPOCH) // length * length
    if last != until:
        last = _EPOCH - (_EPOCH - last) // length * length
    second = _EPOCH + ((first - _EPOCH) // length + 1) * length
    inner = [second + place * length for place in range(-(-(last - second) // length))]
    return [first, *inner, last]


def _fitting(duration: timedelta, count: int) -> timedelta:
    """Return the shortest length of which `count` cover the duration."""
    longest = _LENGTHS[-1]
    years = longest * -(-duration // (longest * count))
    return next((each for each in _LENGTHS if each * count >= duration), years)


def _are_deleted(steps: Sequence[Step], settings: Settings, *, now: datetime) -> bool:
    """Whether some of these deliveries are older than retention keeps them."""
    ages = [age for age in (settings.delivery_retention, settings.dead_letter_retention) if age]
    return bool(ages) and any(each.total and each.end < now - min(ages) for each in steps)


def _drawn(view: View, steps: list[Step]) -> Chart:
    labelled = _fitting(steps[-1].end - steps[0].start, _MAX_LABELS)
    labels = Labels(labelled, "%-d %b" if labelled >= _DAY else "%H:%M")
    # a day is one of UTC, as on the overview
    zone = view.zone if max(each.end - each.start for each in steps) < _DAY else UTC_ZONE

    here = view.link(since=None, until=None, within=None).partition("?")[2]

    def link(step: Step) -> str:
        times = f"since={short_rfc3339(step.start)}&until={short_rfc3339(step.end)}"
        return f"?{here}&{times}" if here else f"?{times}"

    return volume_chart(
        steps,
        zone=zone,
        labels=[labels.of(step.start, step.end, zone) for step in steps],
        links=[link(step) for step in steps],
        is_low=True,
    )
