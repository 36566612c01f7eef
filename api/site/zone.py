"""The reader's time zone: pages show times in it, and parse the local times that people enter.

The script stores the browser's IANA zone in a cookie. Without the cookie, and with a zone that this
server does not know, the zone is UTC. Pure but for the cookie's name.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from hookfast.errors import InvalidInput

COOKIE: Final = "hookfast-zone"
UTC_ZONE: Final = ZoneInfo("UTC")
_LOCAL: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?", re.ASCII)
"""What the input `datetime-local` sends (WHATWG HTML, section 2.3.5.5), and what people type."""


def zone_named(name: str | None) -> ZoneInfo:
    """Return the zone with this IANA name; UTC for a name that is missing or unknown."""
    # only names of the list: a zone's name is also a path of a file
    return ZoneInfo(name) if name is not None and name in _known_names() else UTC_ZONE


def is_local(text: str) -> bool:
    """Return whether the text is a time without an offset."""
    return _LOCAL.fullmatch(text) is not None


def parse_local(text: str, zone: ZoneInfo, *, pointer: str, last: bool = False) -> datetime:
    """Return the time, in UTC, at which the clocks of a zone show a local time.

    When clocks are set back they show an hour twice: the first time counts, or with `last` the
    second. Raises InvalidInput at `pointer` for a time that clocks skip, or that is no time.
    """
    try:
        local = datetime.fromisoformat(text)
        moment = local.replace(tzinfo=zone, fold=int(last)).astimezone(UTC)
        shown = moment.astimezone(zone).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise InvalidInput.at(pointer, "there is no such time") from None
    if shown != local:
        raise InvalidInput.at(
            pointer,
            f"there was no {local:%H:%M} on {local:%Y-%m-%d} in {zone.key}, because clocks were "
            "set forward; choose a time before or after",
        )
    return moment


def local_text(moment: datetime, zone: ZoneInfo) -> str:
    """Return a time as the input `datetime-local` expects it: `2026-11-24T14:00`, with seconds if
    there are any."""
    local = moment.astimezone(zone).replace(tzinfo=None)
    fine = local.second or local.microsecond
    return local.isoformat(timespec="auto" if fine else "minutes")


def midnight_in(zone: ZoneInfo, moment: datetime, *, days_ago: int = 0) -> datetime:
    """Return when the local day of `moment` begins in a zone, or an earlier day, in UTC. Where
    clocks skip midnight, the day begins when they do."""
    day = moment.astimezone(zone).date() - timedelta(days=days_ago)
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)


@lru_cache
def _known_names() -> frozenset[str]:
    return frozenset(available_timezones())
