"""Times on the command line: parsing and showing them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import typer

from hookfast.cli.remote.times import (
    format_distance,
    format_seconds,
    format_time,
    parse_future,
    parse_past,
)

_NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", "2026-11-20T11:58:30.000000Z"),
        ("2h", "2026-11-20T10:00:00.000000Z"),
        ("1h30m", "2026-11-20T10:30:00.000000Z"),
        ("3d", "2026-11-17T12:00:00.000000Z"),
        ("1w", "2026-11-13T12:00:00.000000Z"),
        ("0s", "2026-11-20T12:00:00.000000Z"),
        ("2026-11-20T11:15:00Z", "2026-11-20T11:15:00.000000Z"),
        ("2026-11-20t12:15:00.5+01:00", "2026-11-20T11:15:00.500000Z"),
    ],
)
def test_duration_counts_back_from_now_and_a_time_is_unchanged(text: str, moment: str) -> None:
    assert parse_past(text, now=_NOW) == moment


def test_duration_can_count_ahead() -> None:
    assert parse_future("1h30m", now=_NOW) == "2026-11-20T13:30:00.000000Z"


@pytest.mark.parametrize(
    "text",
    ["", "2", "h", "2 h", "-2h", "2y", "1.5h", "yesterday", "2026-11-20", "2026-11-20T11:15:00"],
)
def test_invalid_time_is_rejected_with_examples(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"2h.*RFC 3339"):
        parse_past(text, now=_NOW)


def test_duration_beyond_the_calendar_is_rejected() -> None:
    with pytest.raises(typer.BadParameter, match="36,500 days"):
        parse_past("99999999999w", now=_NOW)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026-11-20T12:00:00Z", "0 s ago"),
        ("2026-11-20T11:58:30Z", "90 s ago"),
        ("2026-11-20T11:58:00Z", "2 min ago"),
        ("2026-11-20T12:20:00Z", "in 20 min"),
        ("2026-11-20T10:00:00Z", "2 h ago"),
        ("2026-11-18T12:00:00Z", "2 d ago"),
        (None, "–"),
    ],
)
def test_distance_is_shown_in_the_largest_unit_with_at_least_two(
    text: str | None, words: str
) -> None:
    assert format_distance(text, now=_NOW) == words


def test_a_time_is_shown_in_utc_with_its_distance() -> None:
    text = format_time("2026-11-20T12:15:00.123456+01:00", now=_NOW)
    assert text == "2026-11-20 11:15:00Z (45 min ago)"


def test_duration_is_shown_with_a_unit() -> None:
    assert [format_seconds(seconds) for seconds in (0, 119, 120, 7_199, 7_200, 172_800)] == [
        "0 s",
        "119 s",
        "2 min",
        "120 min",
        "2 h",
        "2 d",
    ]
