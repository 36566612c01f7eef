"""The one clock. Everything that needs the time takes a `Clock`, so a test can set it.

All datetimes in Hookfast are aware and in UTC; a naive one is a bug and is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""A function that returns the current time, aware, in UTC."""


def utc_now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)


def to_utc(moment: datetime) -> datetime:
    """`moment` in UTC. Raises ValueError for a naive datetime (guessing a zone loses hours) and for
    one that falls outside the years 1 to 9999 in UTC."""
    if moment.tzinfo is UTC:  # nearly all are; `rfc3339` takes 1.7 instead of 3.8 µs so
        return moment
    if moment.utcoffset() is None:
        raise ValueError("a datetime without a UTC offset is ambiguous; add one, e.g. 'Z'")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a datetime must be within the years 1 to 9999 in UTC") from None


def rfc3339(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds and `Z`: `2026-11-20T11:15:00.000000Z`.

    The fixed width makes the text sort as the times do.
    """
    return to_utc(moment).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
