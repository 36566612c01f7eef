"""Durations for people."""

from __future__ import annotations

from datetime import timedelta


def format_duration(duration: timedelta) -> str:
    """In the largest of hours, minutes and seconds that gives a whole number: `72 h`, `90 min`,
    `61 s`; to the second."""
    seconds = round(duration.total_seconds())
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
