"""The steps of the chart above the list of deliveries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from api.dashboard.pages.delivery_chart import edges_between

NOW = datetime(2026, 11, 20, 12, 7, 30, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("since", "until", "length", "count"),
    [
        (None, None, 30 * MINUTE, 49),  # 12:00 a day ago to 12:30
        (NOW - HOUR, None, 2 * MINUTE, 31),  # 60 / 48 is 1.25 minutes
        (NOW - 3 * DAY, NOW - 2 * DAY, 30 * MINUTE, 49),  # both ends are no round times
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
