"""Times are aware, in UTC, and written so that they sort; durations are whole numbers."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast import clock
from hookfast.clock import (
    format_duration,
    parse_rfc3339,
    rfc3339,
    set_clock,
    to_utc,
    utc_now,
)

HOUR = timedelta(hours=1)
MOMENT = timedelta(milliseconds=5)
moments = st.datetimes(timezones=st.just(UTC))


def test_now_is_aware_and_in_utc() -> None:
    assert utc_now().tzinfo is UTC


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 11, 20, 11, 15, tzinfo=UTC), "2026-11-20T11:15:00.000000Z"),
        (datetime(2026, 11, 20, 11, 15, 0, 1, tzinfo=UTC), "2026-11-20T11:15:00.000001Z"),
        (
            # 20:15 at +09:00 is 11:15 in UTC
            datetime(2026, 11, 20, 20, 15, tzinfo=timezone(timedelta(hours=9))),
            "2026-11-20T11:15:00.000000Z",
        ),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_rfc3339_is_utc_with_microseconds(moment: datetime, text: str) -> None:
    assert rfc3339(moment) == text


@pytest.mark.parametrize("convert", [to_utc, rfc3339])
def test_naive_datetime_is_rejected(convert: object) -> None:
    assert callable(convert)
    with pytest.raises(ValueError, match="ambiguous"):
        convert(datetime(2026, 11, 20))


@pytest.mark.parametrize(
    "moment",
    [
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_datetime_outside_the_years_of_utc_is_rejected(moment: datetime) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        to_utc(moment)


@given(one=moments, other=moments)
def test_text_sorts_as_the_times_do(one: datetime, other: datetime) -> None:
    assert (rfc3339(one) < rfc3339(other)) is (one < other)


@given(moment=moments)
def test_text_reads_back_as_the_same_moment(moment: datetime) -> None:
    assert datetime.fromisoformat(rfc3339(moment)) == moment


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (259_200, "72 h"),
        (5_400, "90 min"),
        (3_600, "1 h"),
        (60, "1 min"),
        (61, "61 s"),
        (0.6, "1 s"),
        (0, "0 s"),
    ],
)
def test_duration_is_a_whole_number_of_its_largest_unit(seconds: float, words: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20T11:15:00Z", "2026-11-20T11:15:00.000000Z"),
        ("2026-11-20t11:15:00.5z", "2026-11-20T11:15:00.500000Z"),
        ("2026-11-20T12:15:00+01:00", "2026-11-20T11:15:00.000000Z"),
        ("2026-11-20T11:15:00-00:00", "2026-11-20T11:15:00.000000Z"),
        ("2026-11-20T11:15:00.123456789012Z", "2026-11-20T11:15:00.123456Z"),
        ("2028-02-29T00:00:00Z", "2028-02-29T00:00:00.000000Z"),
        # leap seconds
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999999Z"),
        ("2016-12-31T23:59:60.75Z", "2016-12-31T23:59:59.999999Z"),
        ("1990-12-31T15:59:60-08:00", "1990-12-31T23:59:59.999999Z"),
        ("2017-01-01T05:29:60+05:30", "2016-12-31T23:59:59.999999Z"),
    ],
)
def test_every_rfc_3339_time_is_read(text: str, moment: str) -> None:
    assert rfc3339(parse_rfc3339(text)) == moment


@pytest.mark.parametrize(
    "text",
    [
        *("", "2026-11-20", "2026-11-20T11:15Z", "2026-11-20T11:15:00", "2026-11-20 11:15:00Z"),
        *(
            "20261120T111500Z",
            "2026-W47-5T11:15:00Z",
            "2026-11-20T11:15:00+0100",
            " 2026-11-20T11:15:00Z",
        ),
        *("2026-11-20T11:15:00.Z", "2026-11-20T11:15:00Z\n", "٢026-11-20T11:15:00Z"),
        *(
            "2026-02-29T00:00:00Z",
            "2026-11-20T24:00:00Z",
            "2026-11-20T11:60:00Z",
            "2026-11-20T11:15:61Z",
        ),
        *("2026-11-20T11:15:00+24:00", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"),
        *("2026-11-20T11:15:60Z", "2016-12-31T23:59:60+01:00"),
    ],
)
def test_other_times_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"RFC 3339|no such time"):
        parse_rfc3339(text)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The time of this machine's clock, which the test may change. Time stands still."""
    now = [datetime(2026, 11, 20, 12, tzinfo=UTC)]
    monkeypatch.setattr(clock, "machine_now", lambda: now[0])
    monkeypatch.setattr(clock, "_was_set", None)
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    return now


def test_a_clock_that_was_set_ignores_the_machines_jumps(
    machine: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = machine[0]
    assert set_clock(noon + HOUR, read=time.monotonic(), within=MOMENT) == HOUR
    assert utc_now() == noon + HOUR
    machine[0] += 24 * HOUR
    monkeypatch.setattr("time.monotonic", lambda: 160.0)
    assert utc_now() == noon + HOUR + timedelta(minutes=1)
    right = noon - HOUR + timedelta(minutes=1)
    assert set_clock(right, read=160.0, within=MOMENT) == -2 * HOUR
    assert utc_now() == right
    assert set_clock(right, read=160.0, within=MOMENT) == timedelta(0)  # read by another at once
    assert utc_now() == right


def test_a_difference_that_measuring_explains_does_not_set_the_clock(
    machine: list[datetime],
) -> None:
    noon = machine[0]
    set_clock(noon + MOMENT / 2, read=time.monotonic(), within=MOMENT)
    machine[0] += HOUR  # from now on only the monotonic clock counts
    assert utc_now() == noon
    set_clock(noon - MOMENT, read=time.monotonic(), within=MOMENT)
    assert utc_now() == noon
