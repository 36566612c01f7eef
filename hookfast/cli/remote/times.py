"""Times on the command line: parsed from `2h`, `3d` or RFC 3339, and shown as `3 min ago`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import typer

from hookfast.clock import parse_rfc3339, rfc3339, utc_now

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:\d+[wdhms])+", re.ASCII)
_PART = re.compile(r"(\d+)([wdhms])", re.ASCII)
_MAX_DAYS = 36_500
_STEPS = (("d", 172_800, 86_400), ("h", 7_200, 3_600), ("min", 120, 60), ("s", 0, 1))


def parse_past(text: str, *, now: datetime | None = None) -> str:
    """Return a time as RFC 3339; a duration such as `2h` counts back from now. Raises
    typer.BadParameter."""
    return rfc3339(_parse_time(text, sign=-1, now=now or utc_now()))


def parse_future(text: str, *, now: datetime | None = None) -> str:
    """Return a time as RFC 3339; a duration such as `2h` counts ahead from now. Raises
    typer.BadParameter."""
    return rfc3339(_parse_time(text, sign=1, now=now or utc_now()))


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as `24h`, `1d12h` or `0s`. Raises typer.BadParameter."""
    seconds = _seconds(text)
    if seconds is None or seconds > _MAX_DAYS * 86_400:
        raise typer.BadParameter(f"{text!r} is not a duration such as 24h, 3d or 90s")
    return timedelta(seconds=seconds)


def format_time(text: str | None, *, now: datetime | None = None) -> str:
    """Show a time of the API and its distance from now: `2026-11-20 11:15:00Z (3 min ago)`."""
    if text is None:
        return "–"
    moment = datetime.fromisoformat(text).astimezone(UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}Z ({format_distance(text, now=now)})"


def format_time_if_set(text: str | None) -> str | None:
    """Show a time of the API like `format_time`, and return None for None."""
    return None if text is None else format_time(text)


def format_distance(text: str | None, *, now: datetime | None = None) -> str:
    """Show how far a time of the API is from now: `3 min ago`, `in 2 h`."""
    if text is None:
        return "–"
    seconds = (datetime.fromisoformat(text) - (now or utc_now())).total_seconds()
    amount = format_seconds(abs(seconds))
    return f"in {amount}" if seconds > 0 else f"{amount} ago"


def format_seconds(seconds: float) -> str:
    """Show a duration in the largest unit of which it has at least two: `90 s`, `47 h`."""
    for unit, least, size in _STEPS:
        if seconds >= least:
            return f"{seconds / size:.0f} {unit}"
    return "0 s"


def _seconds(text: str) -> int | None:
    """Return the seconds of a duration; None when `text` is not one."""
    if not _DURATION.fullmatch(text):
        return None
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def _parse_time(text: str, *, sign: int, now: datetime) -> datetime:
    text = text.strip()
    if (seconds := _seconds(text)) is not None:
        if seconds > _MAX_DAYS * 86_400:
            raise typer.BadParameter(f"{text!r} is more than {_MAX_DAYS:,} days")
        return now + sign * timedelta(seconds=seconds)
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a duration such as 90s, 2h, 1h30m or 3d nor an RFC 3339 "
            "time with an offset such as 2026-11-20T11:15:00Z"
        ) from None
