"""Parse `Retry-After` (RFC 9110, section 10.2.3): a number of seconds or an HTTP-date."""

from __future__ import annotations

import re
from datetime import UTC, datetime

MAX_SECONDS = 366 * 24 * 3600.0
"""Longest time returned, in seconds; the retry plan limits it further."""

_SECONDS = re.compile(r"[0-9]+")
# RFC 9110, section 5.6.7: the current format, and two obsolete ones that must be accepted.
_IMF_FIXDATE = "%a, %d %b %Y %H:%M:%S GMT"
_RFC850_DATE = "%A, %d-%b-%y %H:%M:%S GMT"
_ASCTIME_DATE = "%a %b %d %H:%M:%S %Y"


def parse_retry_after(value: str, *, now: datetime) -> float | None:
    """Return how many seconds after `now` the server accepts the next request: 0.0 for a time in
    the past, None when the value is malformed."""
    value = value.strip(" \t")
    if _SECONDS.fullmatch(value):
        return min(float(value), MAX_SECONDS)  # float, not int: no limit on the number of digits
    date = _http_date(value, now)
    if date is None:
        return None
    return min(max((date - now).total_seconds(), 0.0), MAX_SECONDS)


def _http_date(value: str, now: datetime) -> datetime | None:
    for date_format in (_IMF_FIXDATE, _RFC850_DATE, _ASCTIME_DATE):
        try:
            date = datetime.strptime(value, date_format).replace(tzinfo=UTC)
        except ValueError:
            continue
        if date_format is _RFC850_DATE:
            return _in_nearest_century(date, now)
        return date
    return None


def _in_nearest_century(date: datetime, now: datetime) -> datetime:
    # A two-digit year more than 50 years ahead means the most recent past year with these digits.
    year = now.year - now.year % 100 + date.year % 100
    if year > now.year + 50:
        year -= 100
    try:
        return date.replace(year=year)
    except ValueError:  # 29 February of a year that is not a leap year
        return date.replace(year=year, day=28)
