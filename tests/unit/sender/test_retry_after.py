"""`Retry-After`: seconds, the three date formats, and malformed values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.sender.retry_after import MAX_SECONDS, parse_retry_after

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 120\t", 120.0),
        ("0000120", 120.0),
        ("Fri, 20 Nov 2026 12:01:30 GMT", 90.0),
        ("Friday, 20-Nov-26 12:01:30 GMT", 90.0),
        ("Fri Nov 20 12:01:30 2026", 90.0),
        ("Sun Nov 22 12:00:00 2026", 172_800.0),
        ("Sun Nov  1 12:00:00 2026", 0.0),  # in the past; asctime pads the day
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0.0),  # not 2094, which is more than 50 years ahead
        ("Thursday, 29-Feb-00 00:00:00 GMT", 0.0),
        ("9" * 30, MAX_SECONDS),
        ("9" * 60_000, MAX_SECONDS),
        ("Fri, 20 Nov 9999 12:00:00 GMT", MAX_SECONDS),
    ],
)
def test_retry_after_accepts_seconds_and_every_http_date(value: str, seconds: float) -> None:
    assert parse_retry_after(value, now=NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "-5",
        "+5",
        "1.5",
        "5s",
        "²",
        "٥",
        "1e3",
        "inf",
        "nan",
        "soon",
        "60, 120",
        "2026-11-20T12:01:30Z",
        "Fri, 20 Nov 2026 12:01:30",
        "Fri, 20 Nov 2026 12:01:30 CET",
        "Fri, 31 Feb 2026 12:01:30 GMT",
        "Fri, 20 Nov 2026 25:01:30 GMT",
    ],
)
def test_malformed_retry_after_is_none(value: str) -> None:
    assert parse_retry_after(value, now=NOW) is None


@given(st.text(st.characters(max_codepoint=255)))
def test_retry_after_never_raises(value: str) -> None:
    seconds = parse_retry_after(value, now=NOW)
    assert seconds is None or 0 <= seconds <= MAX_SECONDS
