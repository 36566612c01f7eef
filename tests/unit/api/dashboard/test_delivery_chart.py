"""The steps of the chart above the list of deliveries, and whether counters know their numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from api.dashboard.pages.delivery_chart import edges_between, edges_of
from hookfast.deliveries.answer import AnswerFilter
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.counting.reading import is_exact
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.figures.delivery_steps import are_counted

NOW = datetime(2026, 11, 20, 12, 7, 30, tzinfo=UTC)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("since", "until", "length", "count"),
    [
        (None, None, HOUR, 25),  # 12:00 a day ago to 13:00
        (NOW - HOUR, None, 2 * MINUTE, 31),  # 60 / 49 is 1.22 minutes
        (NOW - 3 * DAY, NOW - 2 * DAY, HOUR, 25),  # both ends are no round times
        (NOW - 3 * MINUTE, NOW - MINUTE, MINUTE, 3),
        (NOW - 400 * DAY, None, 14 * DAY, 30),
    ],
)
def test_steps_cover_the_range_and_begin_at_round_times(
    since: datetime | None, until: datetime | None, length: timedelta, count: int
) -> None:
    edges = edges_between(since, until, NOW)
    assert edges[0] == since if since else edges[0] <= NOW - DAY
    assert edges[-1] == until if until else NOW <= edges[-1] < NOW + length
    assert len(edges) == count + 1
    inner = list(pairwise(edges[1:-1]))
    assert all(end - start == length for start, end in inner)
    assert edges[1].second == 0
    assert edges[0] < edges[1]
    assert edges[-2] < edges[-1]


@pytest.mark.parametrize(
    ("since", "until"),
    [(NOW + HOUR, None), (NOW - HOUR, NOW - HOUR), (NOW, NOW + DAY), (NOW - HOUR, NOW - DAY)],
)
def test_range_without_past_time_has_no_steps(since: datetime, until: datetime | None) -> None:
    assert edges_between(since, until, NOW) == []


def test_range_of_centuries_has_few_steps() -> None:
    first = datetime.min.replace(tzinfo=UTC)
    assert 20 < len(edges_between(first, None, NOW)) < 50
    assert edges_between(None, first, NOW) == []


def test_list_of_a_new_installation_begins_with_the_oldest_delivery() -> None:
    edges = edges_between(None, None, NOW, oldest=NOW - 3 * HOUR)
    assert NOW - 3 * HOUR - 5 * MINUTE < edges[0] <= NOW - 3 * HOUR
    assert edges_between(None, None, NOW, oldest=NOW)[0] <= NOW - 10 * MINUTE
    assert edges_between(None, None, NOW, oldest=NOW - 9 * DAY) == edges_between(None, None, NOW)
    assert edges_between(NOW - HOUR, None, NOW, oldest=NOW)[0] == NOW - HOUR


@pytest.mark.parametrize(
    ("chosen", "length"),
    [
        # the default is the last day
        (DeliveryFilter(), HOUR),
        (DeliveryFilter(tenant_id="tnt_1", status=DeliveryStatus.DEAD), HOUR),
        (DeliveryFilter(endpoint_id="ep_1", since=NOON - MINUTE), MINUTE),
        (DeliveryFilter(event_type="order.paid"), HOUR),
        (DeliveryFilter(event_type="order.paid", endpoint_id="ep_1", since=NOON), None),
        (DeliveryFilter(event_type="order.paid", since=NOON - 2 * HOUR), HOUR),
        (DeliveryFilter(event_type="order.paid", since=NOON - 2 * HOUR, until=NOW), None),
        # minutes are kept for two days, hours for 40
        (DeliveryFilter(since=NOON - 2 * DAY + 8 * MINUTE), HOUR),
        (DeliveryFilter(since=NOON - 3 * DAY, until=NOON - 2 * DAY), HOUR),
        (DeliveryFilter(since=NOON - 3 * DAY + MINUTE, until=NOON), None),
        (DeliveryFilter(since=MIDNIGHT - 45 * DAY, until=MIDNIGHT - 41 * DAY), DAY),
        (DeliveryFilter(since=NOON - 45 * DAY, until=MIDNIGHT - 41 * DAY), None),
        # what the counters do not know
        (DeliveryFilter(since=NOON + MINUTE / 60), None),
        (DeliveryFilter(answer=AnswerFilter(lowest=500, highest=599)), None),
        (DeliveryFilter(subscription_id="sub_1"), None),
    ],
)
def test_deliveries_are_counted_by_steps_that_figures_are_kept_for(
    chosen: DeliveryFilter, length: timedelta | None
) -> None:
    edges = edges_of(chosen, NOW)[0]
    assert are_counted(chosen, edges, now=NOW) == (length is not None)
    assert chosen.since in (None, edges[0])
    assert chosen.until in (None, edges[-1])
    if length is not None:
        assert max(end - start for start, end in pairwise(edges)) == length
        assert all(is_exact(each, now=NOW) for each in edges)


def test_shorter_steps_are_for_few_deliveries_where_the_counters_know_few_steps() -> None:
    hour = DeliveryFilter(since=NOON - 5 * DAY, until=NOON - 5 * DAY + HOUR)
    fine, counted = edges_of(hour, NOW)
    assert fine[1] - fine[0] == 2 * MINUTE
    assert counted == [hour.since, hour.until]
    # the counters know all but the first step
    since = NOON - 12 * HOUR + MINUTE
    half_day = DeliveryFilter(event_type="order.paid", since=since)
    fine, counted = edges_of(half_day, NOW)
    assert fine[2] - fine[1] == 15 * MINUTE
    assert counted[:2] == [since, NOON - 11 * HOUR]
    assert are_counted(half_day, counted[1:], now=NOW)


def test_a_minute_is_counted_as_one_step() -> None:
    minute = DeliveryFilter(since=NOON, until=NOON + MINUTE)
    assert edges_of(minute, NOW) == [[NOON, NOON + MINUTE]]
    assert edges_of(DeliveryFilter(since=NOON, until=NOON), NOW) == []
