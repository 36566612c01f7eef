"""Formats times, durations, numbers and statuses for people. The filters of the templates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from api.forms.endpoint import EndpointView
from api.routes.deliveries import LastAnswerView
from hookfast.clock import parse_rfc3339, to_utc
from hookfast.deliveries.answer import answer_name, has_telling_duration
from hookfast.deliveries.wording import reason_text
from hookfast.endpoints.health import EXPLANATIONS, Health, is_by_request
from hookfast.events.filter import filter_text

_FILTER_CHARACTERS: Final = 160
_QUOTED: Final = re.compile(r"'([^']*)'")
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_RATES: Final = (("a minute", 60), ("an hour", 3_600), ("a day", 86_400))

TONES: Final[Mapping[str, str]] = {
    # deliveries
    "pending": "wait",
    "retrying": "warn",
    "held": "hold",
    "paused": "hold",
    "delivered": "good",
    "dead": "bad",
    "gone": "bad",
    "cancelled": "off",
    # endpoints by health ("paused" as deliveries), and subscriptions
    "healthy": "good",
    "failing": "warn",
    "circuit_open": "bad",
    "draining": "wait",
    "disabled": "bad",
    "enabled": "good",
    # jobs
    "running": "wait",
    "done": "good",
    "failed": "bad",
    # attempts
    "success": "good",
    # inbox entries
    "accepted": "good",
    "suppressed": "hold",
    # colours by their own name
    "good": "good",
    "off": "off",
}
"""The colour of each status; any other status is bad."""

LABELS: Final[Mapping[str, str]] = {
    "dead": "dead letter",
    "half_open": "half open",
    "credentials": "no access token",
    "dns": "DNS",
    "tls": "TLS",
}


def shown_filter(conditions: Mapping[str, Any]) -> str:
    """Return a content filter in one line, shortened if it is long."""
    text = filter_text(conditions)
    return text if len(text) <= _FILTER_CHARACTERS else f"{text[:_FILTER_CHARACTERS]}…"


def tone(status: str) -> str:
    """Return the colour of a status: good, bad, warn, wait, hold or off."""
    return TONES.get(status, "bad")


def health_tone(health: Health, state_reason: str | None) -> str:
    """Return the colour of an endpoint's health. It is no alarm if a person disabled the
    endpoint."""
    return "off" if is_by_request(health, state_reason) else tone(health.value)


def label(status: str) -> str:
    """Return a status in words."""
    return LABELS.get(status, status.replace("_", " "))


def curly(sentence: str) -> str:
    """Return a sentence of the API with the quotes that the pages have: “order.paid”."""
    return _QUOTED.sub(r"“\1”", sentence)


def reason(text: str | None) -> str:
    """Return in words why a delivery ended or waits."""
    return "" if text is None else reason_text(text)


def explained(health: Health) -> str:
    """Return in a sentence or two what a health means for the endpoint's deliveries."""
    return EXPLANATIONS[health]


def span(value: timedelta | float | None) -> str:
    """Format a duration (a number: seconds) in its two largest units, e.g. `2 h 5 min`."""
    if value is None:
        return ""
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    whole = max(0, round(seconds))
    parts: list[str] = []
    for unit, size in _UNITS:
        count, whole = divmod(whole, size)
        if count or (parts and len(parts) < 2 and whole):
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0 ")) or "0 s"


def ago(moment: datetime, now: datetime) -> str:
    """Format a time relative to now: `3 min ago`, `in 2 h`."""
    seconds = (now - moment).total_seconds()
    unit, size = next((each for each in _UNITS if abs(seconds) >= each[1]), _UNITS[-1])
    count = int(abs(seconds) // size)
    if count == 0:
        return "now"
    return f"{count} {unit} ago" if seconds > 0 else f"in {count} {unit}"


def utc(moment: datetime) -> str:
    """Format a time to the second: `2026-11-20 11:15:00 UTC`."""
    return f"{to_utc(moment):%Y-%m-%d %H:%M:%S} UTC"


def local(moment: datetime, zone: ZoneInfo) -> str:
    """Format a time to the second as the clocks of a zone show it: `2026-11-20 12:15:00 CET`."""
    try:
        return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"
    except OverflowError:  # on the last or first day of the calendar
        return utc(moment)


def both(moment: datetime, zone: ZoneInfo) -> str:
    """Format a time in a zone and in UTC, or only in UTC if that is the zone."""
    text = local(moment, zone)
    return text if text == utc(moment) else f"{text} · {utc(moment)}"


def parsed(text: str) -> datetime:
    """Return the time of an RFC 3339 text, which is valid."""
    return parse_rfc3339(text)


def number(value: float | None) -> str:
    """Format a number with thousands separators; None as a dash."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.1f}"


def rate(count: int, over: timedelta) -> str:
    """Return how often something happened in a time, in the first unit in which it was more than
    once: `2.7 a minute`, `5 a day`."""
    if not count:
        return "none"
    rates = [(name, count * seconds / over.total_seconds()) for name, seconds in _RATES]
    name, most = next(((name, most) for name, most in rates if most >= 1), rates[-1])
    return f"{number(most)} {name}" if most >= 1 else f"fewer than 1 {name}"


def percent(share: float | None) -> str:
    """Format a share as a percentage that never rounds a failure away: 0.99996 is `99.99 %`."""
    if share is None:
        return "–"
    if share >= 1:
        return "100 %"
    # rounded first: 0.57 * 10,000 is 5,699.999999999999
    hundredths = min(int(round(share * 10_000, 6)), 9_999)
    return f"{hundredths / 100:g} %"


def millis(value: float | None) -> str:
    """Format milliseconds, from one second on as seconds: `12 ms`, `1.4 s`."""
    if value is None:
        return "–"
    if value < 1:
        return "< 1 ms"
    if value < 1_000:
        return f"{value:.0f} ms"
    return f"{value / 1_000:.3g} s" if value < 100_000 else span(value / 1_000)


def answer(last: LastAnswerView) -> str:
    """Format a last answer: `503 · 120 ms`, `timeout · 15 s`, `connection refused`."""
    name = answer_name(last.result, last.status_code)
    return f"{name} · {millis(last.duration_ms)}" if has_telling_duration(last.result) else name


def seconds(value: float | None) -> str:
    """Format seconds with the precision that matters: `12 ms`, `1.4 s`, `2 h 5 min`."""
    if value is None:
        return "–"
    return millis(value * 1_000) if value < 60 else span(value)


def endpoint_name(endpoint: EndpointView) -> str:
    """Return an endpoint's description, else its URL, else its id. A link needs a text that can be
    seen, and the API accepts a description of spaces."""
    return endpoint.description.strip() or endpoint.url or endpoint.id


def short_id(text: str) -> str:
    """Return an id's prefix and its random end, which differs between rows of one moment."""
    prefix, _, rest = text.partition("_")
    return f"{prefix}_…{rest[-8:]}" if len(rest) > 12 else text
