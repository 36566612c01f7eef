"""Times as people write them (`2h`, `3d`, RFC 3339) and as they read them (`3 min ago`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import typer

from hookfast.clock import rfc3339, to_utc, utc_now

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SPAN = re.compile(r"(?:\d+[wdhms])+", re.ASCII)
_PART = re.compile(r"(\d+)([wdhms])", re.ASCII)
_MAX_DAYS = 36_500
_STEPS = (("d", 172_800, 86_400), ("h", 7_200, 3_600), ("min", 120, 60), ("s", 0, 1))


def ago(text: str, *, now: datetime | None = None) -> str:
    """A time in the past as RFC 3339: `2h` is two hours ago. Raises typer.BadParameter."""
    return rfc3339(_moment(text, sign=-1, now=now or utc_now()))


def ahead(text: str, *, now: datetime | None = None) -> str:
    """A time in the future as RFC 3339: `2h` is in two hours. Raises typer.BadParameter."""
    return rfc3339(_moment(text, sign=1, now=now or utc_now()))


def duration(text: str) -> timedelta:
    """A length of time: `24h`, `1d12h`, `0s`. Raises typer.BadParameter."""
    parts = _PART.findall(text) if _SPAN.fullmatch(text) else []
    seconds = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if not parts or seconds > _MAX_DAYS * 86_400:
        raise typer.BadParameter(f"{text!r} is not a length of time such as 24h, 3d or 90s")
    return timedelta(seconds=seconds)


def shown(text: str | None, *, now: datetime | None = None) -> str:
    """A time of the API's, and how far from now it is: `2026-11-20 11:15:00Z (3 min ago)`."""
    if text is None:
        return "–"
    moment = datetime.fromisoformat(text).astimezone(UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}Z ({distance(text, now=now)})"


def distance(text: str | None, *, now: datetime | None = None) -> str:
    """How far from now a time of the API's is: `3 min ago`, `in 2 h`."""
    if text is None:
        return "–"
    seconds = (datetime.fromisoformat(text) - (now or utc_now())).total_seconds()
    amount = span(abs(seconds))
    return f"in {amount}" if seconds > 0 else f"{amount} ago"


def span(seconds: float) -> str:
    """A length of time in its largest unit that says enough: `90 s`, `47 h`."""
    for unit, least, size in _STEPS:
        if seconds >= least:
            return f"{seconds / size:.0f} {unit}"
    return "0 s"


def _moment(text: str, *, sign: int, now: datetime) -> datetime:
    text = text.strip()
    if _SPAN.fullmatch(text):
        seconds = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
        if seconds > _MAX_DAYS * 86_400:
            raise typer.BadParameter(f"{text!r} is more than {_MAX_DAYS:,} days")
        return now + sign * timedelta(seconds=seconds)
    try:
        return to_utc(datetime.fromisoformat(text.upper()))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a length of time such as 90s, 2h, 1h30m, 3d nor an RFC 3339 "
            "time with an offset such as 2026-11-20T11:15:00Z"
        ) from None
