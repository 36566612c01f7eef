"""`Retry-After` (RFC 9110, section 10.2.3): a number of seconds or an HTTP-date."""

from __future__ import annotations

import re
from datetime import UTC, datetime

LONGEST = 366 * 24 * 3600.0
"""What a longer wish is cut to, in seconds; the retry plan caps it further."""

_SECONDS = re.compile(r"[0-9]+")
# RFC 9110, section 5.6.7: the fixed-length form, and two that recipients still have to accept.
_IMF_FIXDATE = "%a, %d %b %Y %H:%M:%S GMT"
_RFC850_DATE = "%A, %d-%b-%y %H:%M:%S GMT"
_ASCTIME_DATE = "%a %b %d %H:%M:%S %Y"


def parse_retry_after(value: str, *, now: datetime) -> float | None:
    """Seconds from `now` that the sender of `value` wishes to be left alone.

    A time that has passed is 0.0; what is neither form is None.
    """
    value = value.strip(" \t")
    if _SECONDS.fullmatch(value):
        return min(float(value), LONGEST)  # float, not int: no limit on the number of digits
    date = _http_date(value, now)
    if date is None:
        return None
    return min(max((date - now).total_seconds(), 0.0), LONGEST)


def _http_date(value: str, now: datetime) -> datetime | None:
    for form in (_IMF_FIXDATE, _RFC850_DATE, _ASCTIME_DATE):
        try:
            date = datetime.strptime(value, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        if form is _RFC850_DATE:
            return _in_nearest_century(date, now)
        return date
    return None


def _in_nearest_century(date: datetime, now: datetime) -> datetime:
    # A two-digit year that seems more than 50 years ahead is the last such year in the past.
    year = now.year - now.year % 100 + date.year % 100
    if year > now.year + 50:
        year -= 100
    try:
        return date.replace(year=year)
    except ValueError:  # 29 February of a year that has none
        return date.replace(year=year, day=28)
