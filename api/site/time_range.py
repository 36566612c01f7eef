"""The time range of a list: the last hour, yesterday, or from one time to another.

A range is in the query as `within` (a span that ends now, or a day) or as `since` (inclusive) and
`until` (exclusive), which win. A span begins at a whole minute or hour, from which figures can be
read, so that a list and its chart agree. Times are RFC 3339, or local times of the reader. A page
with a local time or a day redirects to itself with RFC 3339 in UTC (`canonical_query`), so that its
address means the same to a reader in another zone, and tomorrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self, cast, get_args
from zoneinfo import ZoneInfo

from fastapi import Depends, Query
from pydantic import TypeAdapter, ValidationError

from api.http.fields import TimeInput
from api.site.navigation import short_rfc3339
from api.site.page import PageView, View
from api.site.zone import is_local, local_text, midnight_in, parse_local
from hookfast.clock import rfc3339
from hookfast.errors import InvalidInput
from hookfast.storage.counting.reading import precision

Span = Literal["15m", "1h", "24h", "7d"]
Day = Literal["today", "yesterday"]
SPANS: Final[Mapping[Span, tuple[timedelta, str, str]]] = {
    "15m": (timedelta(minutes=15), "15 min", "the last 15 minutes"),
    "1h": (timedelta(hours=1), "1 hour", "the last hour"),
    "24h": (timedelta(hours=24), "24 hours", "the last 24 hours"),
    "7d": (timedelta(days=7), "7 days", "the last 7 days"),
}
"""Each span's length, its name, and the range that it means."""
_NAMES: Final = ("within", "since", "until")
_MAX_LENGTH: Final = 64
_FIRST_YEAR, _LAST_YEAR = 1970, 9998
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: Final = TypeAdapter[datetime](TimeInput)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A range that is one click away."""

    name: str
    query: dict[str, str | None]
    limits: bool
    """Whether it is less than any time."""
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Picker:
    """The value of an input, and its type: a time that the local input cannot hold exactly, such as
    one with an ambiguous local time, is shown as RFC 3339."""

    value: str = ""
    type: str = "datetime-local"
    seconds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """The chosen range. `zone` is the reader's; nothing given means any time."""

    zone: ZoneInfo
    span: Span | None = None
    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def parse(
        cls,
        within: Span | Day | None,
        since: str | None,
        until: str | None,
        *,
        zone: ZoneInfo,
        now: datetime,
    ) -> Self:
        """Return the range of these query parameters. Raises InvalidInput at `since` or `until`."""
        start = None if since is None else _parse(since, zone, pointer="since")
        end = None if until is None else _parse(until, zone, pointer="until", last=True)
        if start is not None and end is not None and end <= start:
            raise InvalidInput.at("until", "this is not later than the beginning of the range")
        if start is not None or end is not None:
            return cls(zone=zone, since=start, until=end)
        if within == "today":
            return cls(zone=zone, since=midnight_in(zone, now))
        if within == "yesterday":
            start = midnight_in(zone, now, days_ago=1)
            return cls(zone=zone, since=start, until=midnight_in(zone, now))
        return cls(zone=zone, span=within)

    @property
    def any(self) -> bool:
        """Whether a range is chosen."""
        return self.span is not None or self.is_fixed

    @property
    def is_fixed(self) -> bool:
        """Whether the range stays where it is as time passes."""
        return self.since is not None or self.until is not None

    def start(self, now: datetime) -> datetime | None:
        """Return when the range begins; None if it has no beginning."""
        if self.span is None:
            return self.since
        start = now - SPANS[self.span][0]
        return start - (start - _EPOCH) % precision(start, now=now)

    def members(self, now: datetime) -> dict[str, str | None]:
        """Return the range as members of the API's filters. A span becomes a time, so that an
        action applies to what the page shows."""
        start = self.start(now)
        return {
            "since": None if start is None else rfc3339(start),
            "until": None if self.until is None else rfc3339(self.until),
        }

    def narrowed(self, given: Mapping[str, Any], view: View) -> dict[str, Any]:
        """Return the parameters of a list of the API: these filters, the tenant that the page shows
        if they have none, and this range."""
        return {
            **given,
            "tenant_id": given["tenant_id"] or view.tenant_id,
            "since": self.start(view.now),
            "until": self.until,
        }

    def query(self) -> dict[str, str | None]:
        """Return the query parameters of the range: in UTC, or a span. None: not in the query."""
        return {
            "within": self.span,
            "since": None if self.since is None else short_rfc3339(self.since),
            "until": None if self.until is None else short_rfc3339(self.until),
        }

    def presets(self, now: datetime) -> list[Preset]:
        """Return the ranges that are one click away, first any time."""

        def preset(name: str, within: Span | Day | None, meant: TimeRange) -> Preset:
            return Preset(
                name=name,
                query=dict.fromkeys(_NAMES) | {"within": within},
                limits=meant.any,
                chosen=self == meant,
            )

        return [
            preset("Any time", None, TimeRange(zone=self.zone)),
            *(
                preset(name, span, TimeRange(zone=self.zone, span=span))
                for span, (_, name, _) in SPANS.items()
            ),
            *(
                preset(
                    day.capitalize(),
                    day,
                    TimeRange.parse(day, None, None, zone=self.zone, now=now),
                )
                for day in get_args(Day)
            ),
        ]

    def picker(self, name: Literal["since", "until"]) -> Picker:
        """Return the input for one end of the range."""
        moment: datetime | None = getattr(self, name)
        if moment is None:
            return Picker()
        text = local_text(moment, self.zone)
        exact = parse_local(text, self.zone, pointer=name, last=name == "until") == moment
        if not exact or moment.microsecond:
            return Picker(value=short_rfc3339(moment), type="text")
        return Picker(value=text, seconds=moment.second > 0)

    def words(self) -> str:
        """Say the range in a sentence's end: `in the last hour`, `from … to before …`."""
        if self.span is not None:
            return f"in {SPANS[self.span][2]}"
        parts = [] if self.since is None else [f"from {_clock(self.since, self.zone)}"]
        if self.until is not None:
            parts.append(f"{'to ' if parts else ''}before {_clock(self.until, self.zone)}")
        return " ".join(parts) or "at any time"


def canonical_link(view: View) -> str | None:
    """Return the page's address with local times and days as RFC 3339 in UTC; None if it has
    neither, or if they are invalid."""
    within, since, until = (view.request.query_params.get(name) for name in _NAMES)
    if within not in get_args(Day) and not any(map(is_local, filter(None, (since, until)))):
        return None
    try:
        day = cast(Day, within) if within in get_args(Day) else None
        chosen = TimeRange.parse(day, since, until, zone=view.zone, now=view.now)
    except InvalidInput:
        return None
    return view.link(**chosen.query())


async def _read(
    view: PageView,
    within: Span | Day | None = None,
    since: Annotated[str | None, Query(max_length=_MAX_LENGTH)] = None,
    until: Annotated[str | None, Query(max_length=_MAX_LENGTH)] = None,
) -> TimeRange:
    chosen = TimeRange.parse(within, since, until, zone=view.zone, now=view.now)
    view.by_clock = chosen.is_fixed
    return chosen


RangeQuery = Annotated[TimeRange, Depends(_read)]
"""The parameter of the pages and live parts that have a range."""


def _parse(text: str, zone: ZoneInfo, *, pointer: str, last: bool = False) -> datetime:
    if is_local(text):
        moment = parse_local(text, zone, pointer=pointer, last=last)
    else:
        try:
            moment = _TIME.validate_python(text)
        except ValidationError:
            raise InvalidInput.at(
                pointer, "this is not a time such as 2026-11-24 14:00 or 2026-11-24T14:00:00Z"
            ) from None
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:  # in every zone then, there is such a time
        raise InvalidInput.at(pointer, f"choose a year from {_FIRST_YEAR} to {_LAST_YEAR}")
    return moment


def _clock(moment: datetime, zone: ZoneInfo) -> str:
    """Format a time to the minute, or to the second if it has seconds: `2026-11-24 14:00 CET`."""
    form = "%Y-%m-%d %H:%M:%S %Z" if moment.second else "%Y-%m-%d %H:%M %Z"
    return moment.astimezone(zone).strftime(form)
