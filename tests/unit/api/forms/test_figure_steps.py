"""The steps of a time whose figures are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.forms.figure_steps import MAX_STEPS, MAX_STEPS_BY_TYPE, By, Step, choose_edges
from hookfast.errors import InvalidInput
from hookfast.storage.counting import reading

NOW = datetime(2026, 11, 20, 11, 15, 30, tzinfo=UTC)
EARLIEST = datetime.min.replace(tzinfo=UTC)
DAY = timedelta(days=1)


def at(text: str) -> datetime:
    """Return a time, of 2026 unless it has a year."""
    text = text if text[4] == "-" else f"2026-{text}"
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def refusal(since: str | None, until: str | None, step: Step | None, by: By | None = None) -> str:
    with pytest.raises(InvalidInput) as raised:
        choose_edges(since and at(since), until and at(until), step, by=by, now=NOW)
    return raised.value.message


@pytest.mark.parametrize(
    ("since", "until", "step", "first", "last", "length"),
    [
        (None, None, None, "11-19T11:00", "11-20T12:00", "1h"),
        ("11-19T11:15:30", None, None, "11-19T11:00", "11-20T12:00", "1h"),
        (None, None, "5m", "11-19T11:15", "11-20T11:20", "5m"),
        (None, None, "1d", "11-19T00:00", "11-21T00:00", "1d"),
        (None, "11-20T09:00", None, "11-19T09:00", "11-20T09:00", "1h"),
        # 75 minutes are 15 steps of 5, and 38 of 2
        ("11-20T10:00", None, None, "11-20T10:00", "11-20T11:20", "5m"),
        ("11-20T10:01:30", "11-20T10:02", "1m", "11-20T10:01", "11-20T10:02", "1m"),
        ("11-20T10:01:30", "11-20T10:02:01", "1m", "11-20T10:01", "11-20T10:03", "1m"),
        ("11-13T11:00", None, None, "11-13T06:00", "11-20T12:00", "6h"),
        # the times are in the last 40 days at first, and not any more
        ("10-20T00:00", "10-20T06:00", None, "10-20T00:00", "10-20T06:00", "1h"),
        ("10-01T03:00", "10-02T03:00", None, "10-01T00:00", "10-03T00:00", "1d"),
        # the future is not asked for
        ("11-20T09:00", "2027-01-01T00:00", "1h", "11-20T09:00", "11-20T12:00", "1h"),
    ],
)
def test_steps_are_round_times_around_the_given_ones(
    since: str | None, until: str | None, step: Step | None, first: str, last: str, length: str
) -> None:
    edges = choose_edges(since and at(since), until and at(until), step, by=None, now=NOW)
    minutes = int(length[:-1]) * {"m": 1, "h": 60, "d": 1_440}[length[-1]]
    assert edges[1] - edges[0] == timedelta(minutes=minutes)
    assert edges[0] == at(first)
    assert edges[-1] == at(last)


def test_a_step_that_the_figures_are_not_kept_for_is_refused_with_what_is_possible() -> None:
    said = refusal("11-18T11:00", None, "5m")
    assert said == (
        "figures older than two days are kept by the hour: choose a longer step, or `since` not "
        "before 2026-11-18T11:20:00Z"
    )
    edges = choose_edges(at("11-18T11:20"), None, "5m", by=None, now=NOW)
    assert edges[0] == at("11-18T11:20")
    said = refusal("10-01T00:00", "10-02T00:00", "6h")
    assert "older than 40 days are kept by the day of UTC" in said
    assert said.endswith("2026-10-11T12:00:00Z")


def test_steps_are_counted_before_they_are_made() -> None:
    said = refusal("11-19T10:00", None, "1m")
    assert said.startswith("this is 1,516 steps of 1m; choose a longer step or a shorter time")
    said = refusal("0226-11-20T00:00", None, None)
    assert said == "this is 657,438 steps of 1d; choose a shorter time, for at most 1,500"
    assert len(choose_edges(at("11-19T10:16"), None, "1m", by=None, now=NOW)) == MAX_STEPS + 1


def test_event_types_have_whole_hours_and_fewer_steps() -> None:
    assert refusal("11-20T10:00", None, "30m", by="type").startswith("figures by event type are of")
    assert f"at most {MAX_STEPS_BY_TYPE}" in refusal("11-05T10:00", None, "1h", by="type")
    edges = choose_edges(at("11-20T10:59"), None, None, by="type", now=NOW)
    assert edges == [at("11-20T10:00"), at("11-20T11:00"), at("11-20T12:00")]


@pytest.mark.parametrize(
    ("since", "until"),
    [("11-20T10:00", "11-20T10:00"), ("11-21T00:00", None), (None, "0001-01-01T00:00")],
)
def test_a_time_that_ends_before_it_begins_is_refused(since: str | None, until: str | None) -> None:
    assert "before `until`" in refusal(since, until, None)


MOMENTS = st.datetimes(timezones=st.just(UTC)) | st.datetimes(
    min_value=datetime(2026, 9, 1), max_value=datetime(2026, 12, 1), timezones=st.just(UTC)
)


@given(
    since=st.none() | MOMENTS,
    until=st.none() | MOMENTS,
    step=st.none() | st.sampled_from(get_args(Step)),
    by=st.none() | st.sampled_from(get_args(By)),
)
def test_any_time_has_steps_that_can_be_read_or_is_refused(
    since: datetime | None, until: datetime | None, step: Step | None, by: By | None
) -> None:
    try:
        edges = choose_edges(since, until, step, by=by, now=NOW)
    except InvalidInput:
        return
    length = edges[1] - edges[0]
    assert [end - start for start, end in pairwise(edges)] == [length] * (len(edges) - 1)
    assert all(reading.is_exact(edge, now=NOW) for edge in edges)
    ends = min(until or NOW, NOW)
    assert edges[0] <= (since or max(ends, EARLIEST + DAY) - DAY) < edges[0] + length
    assert edges[-1] - length < ends <= edges[-1]
