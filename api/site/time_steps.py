"""The steps of a chart over time, their labels and their names, in the reader's zone. Pure.

The times of steps are exact: figures can be read from and up to each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from zoneinfo import ZoneInfo

from api.site.zone import UTC_ZONE, midnight_in
from hookfast.storage.counting.reading import is_exact

Window = Literal["1h", "24h", "7d", "30d"]
"""The windows that a page offers: each ends now."""

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_EPOCH = datetime(1970, 1, 1)

_FILLED: Final = 0.6
"""From this share of a window on, it is shown whole."""
_STEPS: Final = 24
_LABELS: Final = 6
_LENGTHS: Final[dict[timedelta, str]] = {
    _MINUTE: "the minute",
    2 * _MINUTE: "two minutes",
    5 * _MINUTE: "five minutes",
    10 * _MINUTE: "ten minutes",
    15 * _MINUTE: "the quarter of an hour",
    30 * _MINUTE: "the half hour",
    _HOUR: "the hour",
    2 * _HOUR: "two hours",
    4 * _HOUR: "four hours",
    6 * _HOUR: "six hours",
    12 * _HOUR: "twelve hours",
    _DAY: "the day",
    2 * _DAY: "two days",
    5 * _DAY: "five days",
}
"""The lengths of the steps of shorter windows and the distances of their labels, with names."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels under a chart: one at each multiple of `every` of the zone's clocks, written in
    this form (of `strftime`)."""

    every: timedelta
    form: str

    def of(self, start: datetime, end: datetime, zone: ZoneInfo) -> str:
        """Return the label of the step between these times: of the first round time that is in it;
        empty if none is."""
        first, last = (each.astimezone(zone).replace(tzinfo=None) for each in (start, end))
        marked = first + (_EPOCH - first) % self.every
        return marked.strftime(self.form) if marked < last else ""


@dataclass(frozen=True, slots=True)
class Span:
    """A window of `count` steps of the same `length`; `words` say which."""

    count: int
    length: timedelta
    words: str
    labels: Labels

    def begun_at(self, began: datetime | None, now: datetime) -> Span:
        """Return the window if its time has data, or a shorter one with shorter steps: what it
        shows `began` so late that most of it would be empty."""
        age = None if began is None else now - began
        if age is None or age > self.count * self.length * _FILLED:
            return self
        length = next(each for each in _LENGTHS if each * _STEPS >= age or each == self.length)
        count = max(_STEPS // 2, age // length + 2)
        shown = count * length
        least = _DAY if shown > _DAY else length  # no time of day is there twice
        every = next(each for each in _LENGTHS if each >= max(least, shown / _LABELS))
        return Span(
            count=count,
            length=length,
            words=f"{self.words.partition(',')[0]}, by {_LENGTHS[length]}",
            labels=Labels(every, _form(every)),
        )

    def zone_at(self, now: datetime, zone: ZoneInfo) -> ZoneInfo:
        """Return the zone at whose round times the steps begin: the reader's, or UTC if some of
        those times are not exact, as in India before the last two days. A day is one of UTC."""
        edges = self._edges(now, zone) if self.length < _DAY else []
        return zone if edges and all(is_exact(each, now=now) for each in edges) else UTC_ZONE

    def edges(self, now: datetime, zone: ZoneInfo) -> list[datetime]:
        """Return the times at which the steps begin and end. They are round times of the zone, or
        of UTC (`zone_at`), so that a step stays the same each time the page is rendered."""
        return self._edges(now, self.zone_at(now, zone))

    def _edges(self, now: datetime, zone: ZoneInfo) -> list[datetime]:
        day = midnight_in(zone, now)
        end = day + ((now - day) // self.length + 1) * self.length
        first = end - self.count * self.length
        return [first + index * self.length for index in range(self.count + 1)]


WINDOWS: Final[dict[Window, Span]] = {
    "1h": Span(60, _MINUTE, "the last hour, by the minute", Labels(10 * _MINUTE, "%H:%M")),
    "24h": Span(24, _HOUR, "the last 24 hours, by the hour", Labels(4 * _HOUR, "%H:%M")),
    "7d": Span(28, 6 * _HOUR, "the last 7 days, by six hours", Labels(_DAY, "%-d %b")),
    "30d": Span(30, _DAY, "the last 30 days, by the day of UTC", Labels(5 * _DAY, "%-d %b")),
}


def _form(every: timedelta) -> str:
    """Return the form of labels at this distance, in which no two of them are the same."""
    return "%-d %b" if every >= _DAY else "%H:%M"


def step_name(start: datetime, end: datetime, zone: ZoneInfo) -> str:
    """Return when a step begins, e.g. `24 Nov 14:30 CET`; of a day or more, without the time."""
    form = "%-d %b %Z" if end - start >= _DAY else "%-d %b %H:%M %Z"
    return start.astimezone(zone).strftime(form)
