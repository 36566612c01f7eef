"""The times that figures can be read of: whole minutes, then hours, then days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.storage.counting.reading import extended, is_exact

NOW = datetime(2026, 11, 20, 12, 34, 56, 789, tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "until", "counted_since", "counted_until"),
    [
        ("2026-11-20 11:22:33", "2026-11-20 12:34:56", "2026-11-20 11:22", "2026-11-20 12:35"),
        ("2026-11-18 12:35:00", "2026-11-19 01:00:00", "2026-11-18 12:35", "2026-11-19 01:00"),
        # the minute of `since` began more than two days ago
        ("2026-11-18 12:34:57", "2026-11-19 01:00:00", "2026-11-18 12:00", "2026-11-19 01:00"),
        ("2026-11-12 10:20:00", "2026-11-12 10:21:00", "2026-11-12 10:00", "2026-11-12 11:00"),
        ("2026-09-12 10:20:00", "2026-09-12 10:21:00", "2026-09-12 00:00", "2026-09-13 00:00"),
    ],
)
def test_a_time_is_extended_to_what_was_counted(
    since: str, until: str, counted_since: str, counted_until: str
) -> None:
    times = [
        datetime.fromisoformat(f"{each}Z") for each in (since, until, counted_since, counted_until)
    ]
    assert extended(times[0], times[1], now=NOW) == (times[2], times[3])


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.datetimes(timezones=st.just(UTC)),
)
def test_every_time_can_be_extended(one: datetime, other: datetime) -> None:
    since, until = min(one, other), max(one, other)
    counted_since, counted_until = extended(since, until, now=NOW)
    assert counted_since <= since
    assert counted_until >= until
    assert is_exact(counted_since, now=NOW)
    assert is_exact(counted_until, now=NOW) or LAST - counted_until < timedelta(minutes=1)
