"""The pages, lists and figures that are measured, each with the time that it may take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from hookfast.clock import rfc3339

PAGE_MS: Final = 150.0
STATS_MS: Final = 50.0
_WINDOWS: Final = ("1h", "24h", "7d", "30d")
_STATUSES: Final = ("pending", "retrying", "held", "delivered", "dead", "gone", "cancelled")
_FIGURES: Final = (
    ("1 hour", timedelta(hours=1), "1m", None),
    ("1 day", timedelta(days=1), "1h", "result"),
    ("7 days", timedelta(days=7), "1h", "status"),
    ("30 days", timedelta(days=30), "1d", "type"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What the requests are about: the tenant and the endpoint with the most deliveries, one of its
    deliveries, its event and its type, and the endpoint with the most dead letters."""

    tenant: str
    endpoint: str
    failing: str
    event_type: str
    delivery: str
    event: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request, and the milliseconds within which 95 % of its answers should come. `by_tenant`: it
    is made with the tenant's key, not the operator's."""

    name: str
    path: str
    aim: float = PAGE_MS
    by_tenant: bool = False


def requests(subject: Subject, now: datetime) -> Iterator[Request]:
    """Yield all requests."""
    yield from _pages(subject)
    yield from _lists(subject)
    yield from _figures(subject, now)


def _pages(subject: Subject) -> Iterator[Request]:
    for window in _WINDOWS:
        yield Request(f"overview, {window}", f"/dashboard?window={window}")
    for window in _WINDOWS:
        path = f"/dashboard?window={window}"
        yield Request(f"overview of a tenant, {window}", path, by_tenant=True)
    deliveries = "/dashboard/deliveries"
    yield Request("deliveries", deliveries)
    for status in _STATUSES:
        yield Request(f"deliveries, {status}", f"{deliveries}?status={status}")
    for name, filters in (
        ("endpoint", {"endpoint_id": subject.endpoint}),
        ("type", {"event_type": subject.event_type}),
        ("tenant", {"tenant_id": subject.tenant}),
        ("event", {"event_id": subject.event}),
        ("answer 503", {"answer": "503"}),
        ("answer 4xx", {"answer": "4xx"}),
        ("answer timeout", {"answer": "timeout"}),
        ("last day", {"within": "24h"}),
        ("type, dead", {"event_type": subject.event_type, "status": "dead"}),
        ("endpoint, delivered", {"endpoint_id": subject.endpoint, "status": "delivered"}),
        ("tenant, answer 5xx", {"tenant_id": subject.tenant, "answer": "5xx"}),
    ):
        yield Request(f"deliveries, {name}", f"{deliveries}?{urlencode(filters)}")
    yield Request("deliveries of a tenant", deliveries, by_tenant=True)
    dead = "/dashboard/dead-letters"
    yield Request("dead letters", dead)
    yield Request("dead letters, endpoint", f"{dead}?endpoint_id={subject.failing}")
    yield Request("dead letters, type", f"{dead}?event_type={subject.event_type}")
    yield Request("dead letters, tenant", f"{dead}?tenant_id={subject.tenant}")
    yield Request("dead letters of a tenant", dead, by_tenant=True)
    yield Request("endpoints", "/dashboard/endpoints")
    for window in _WINDOWS[:3]:
        path = f"/dashboard/endpoints/{subject.endpoint}?window={window}"
        yield Request(f"endpoint, {window}", path)
    yield Request("failing endpoint", f"/dashboard/endpoints/{subject.failing}")
    yield Request("tenants", "/dashboard/tenants")
    yield Request("tenant", f"/dashboard/tenants/{subject.tenant}")
    yield Request("events", "/dashboard/events")
    yield Request("event", f"/dashboard/events/{subject.event}")
    yield Request("delivery", f"/dashboard/deliveries/{subject.delivery}")
    yield Request("search, an id", f"/dashboard/search?q={subject.delivery}")
    yield Request("search, a name", "/dashboard/search?q=orders")


def _lists(subject: Subject) -> Iterator[Request]:
    yield Request("/v1/deliveries", "/v1/deliveries")
    yield Request("/v1/deliveries, dead", "/v1/deliveries?status=dead")
    yield Request("/v1/deliveries, endpoint", f"/v1/deliveries?endpoint_id={subject.endpoint}")
    yield Request("/v1/deliveries/{id}", f"/v1/deliveries/{subject.delivery}")
    yield Request("/v1/dead-letters", "/v1/dead-letters")
    yield Request("/v1/events", "/v1/events")
    yield Request("/v1/events, type", f"/v1/events?type={subject.event_type}")
    yield Request("/v1/endpoints", "/v1/endpoints")
    yield Request("/v1/search", f"/v1/search?q={subject.event}")


def _figures(subject: Subject, now: datetime) -> Iterator[Request]:
    stats = "/v1/dead-letters/stats"
    yield Request(stats, stats, STATS_MS)
    yield Request(f"{stats}, tenant", f"{stats}?tenant_id={subject.tenant}", STATS_MS)
    yield Request(f"{stats}, endpoint", f"{stats}?endpoint_id={subject.failing}", STATS_MS)
    yield Request("/v1/endpoints/{id}/stats", f"/v1/endpoints/{subject.endpoint}/stats", STATS_MS)
    yield Request("/v1/endpoints/{id}/health", f"/v1/endpoints/{subject.endpoint}/health", STATS_MS)
    end = now.replace(minute=0, second=0, microsecond=0)
    for name, span, step, by in _FIGURES:
        until = end.replace(hour=0) if step == "1d" else end
        asked = {"since": rfc3339(until - span), "until": rfc3339(until), "step": step}
        if by is not None:
            asked["by"] = by
            name += f" by {by}"
        for owner, scope in (
            ("", {}),
            (", tenant", {"tenant_id": subject.tenant}),
            (", endpoint", {"endpoint_id": subject.endpoint}),
        ):
            path = f"/v1/figures?{urlencode(asked | scope)}"
            yield Request(f"/v1/figures, {name}{owner}", path, STATS_MS)
    yield Request("/metrics", "/metrics")
