"""The sentence at the top of the overview: the health of the endpoints and what is outstanding.

It is red if a considerable share of the endpoints is down or deliveries have been held for long,
amber if any endpoint is not healthy or any delivery is held, green otherwise. Endpoints that a
person disabled count as neither. A success rate cannot say this: deliveries that are held or
retried have not failed yet, so they are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from api.site.formatting import number
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.health import Health
from hookfast.plural import are
from hookfast.storage.figures.endpoint_counts import EndpointCounts

Level = Literal["good", "warn", "bad"]
_SEVERITY: Final[Mapping[Level, int]] = {"good": 0, "warn": 1, "bad": 2}

MANY_DOWN: Final = 0.1
"""From this share of the endpoints on, those that are down make the page red."""
HELD_LONG: Final = timedelta(hours=1)
"""Deliveries that have been held for longer make the page red."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The sentence with its level, and the levels of the endpoints and of the held deliveries
    alone. `text` is None while there is no endpoint."""

    level: Level
    endpoints_level: Level
    held_level: Level
    text: str | None


def summarize(
    endpoints: EndpointCounts,
    waiting: Mapping[DeliveryStatus, int],
    *,
    held_since: datetime | None,
    has_worker: bool,
    now: datetime,
) -> Summary:
    """Return the summary of these figures. `held_since`: since when the oldest held delivery has
    waited."""
    unhealthy = endpoints.total - endpoints.by_health.get(Health.HEALTHY, 0)
    endpoints_level: Level = "warn" if unhealthy > endpoints.by_request else "good"
    if endpoints.down >= max(1.0, MANY_DOWN * endpoints.total):
        endpoints_level = "bad"
    held_level: Level = "good"
    if waiting[DeliveryStatus.HELD]:
        is_long = held_since is not None and now - held_since > HELD_LONG
        held_level = "bad" if is_long else "warn"
    levels: tuple[Level, ...] = (endpoints_level, held_level, "good" if has_worker else "warn")
    clauses = (_endpoints(endpoints), _outstanding(waiting))
    text = "; ".join(clause for clause in clauses if clause)
    return Summary(
        level=max(levels, key=_SEVERITY.__getitem__),
        endpoints_level=endpoints_level,
        held_level=held_level,
        text=f"{text}." if endpoints.total else None,
    )


def _endpoints(endpoints: EndpointCounts) -> str:
    total = (
        number(endpoints.total) if endpoints.complete else f"more than {number(endpoints.total)}"
    )
    healthy = endpoints.by_health.get(Health.HEALTHY, 0)
    if healthy == endpoints.total:
        if endpoints.total == 1:
            return "The endpoint is healthy"
        return f"All {total} endpoints are healthy"
    counts = {
        "down": endpoints.down,
        "failing": endpoints.by_health.get(Health.FAILING, 0),
        "paused": endpoints.by_health.get(Health.PAUSED, 0),
        "draining": endpoints.by_health.get(Health.DRAINING, 0),
        "disabled": endpoints.by_request,
    }
    if healthy + endpoints.by_request == endpoints.total:
        counts = {"healthy": healthy} | counts
    (word, first), *others = [(word, count) for word, count in counts.items() if count]
    noun = "endpoint" if endpoints.total == 1 else "endpoints"
    begin = f"{number(first)} of {total} {noun} {are(first)} {word}"
    return ", ".join([begin, *(f"{number(count)} {are(count)} {word}" for word, count in others)])


def _outstanding(waiting: Mapping[DeliveryStatus, int]) -> str:
    """Return how many deliveries are held and how many are being retried, in words."""
    words = {DeliveryStatus.HELD: "held", DeliveryStatus.RETRYING: "being retried"}
    parts: list[str] = []
    for status, word in words.items():
        if count := waiting[status]:
            noun = "" if parts else " delivery" if count == 1 else " deliveries"
            parts.append(f"{number(count)}{noun} {are(count)} {word}")
    return ", ".join(parts)
