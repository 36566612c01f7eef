"""The menu of the dashboard, and addresses that several pages link to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from hookfast.clock import rfc3339


@dataclass(frozen=True, slots=True)
class Section:
    """A line of the menu. Its pages have `name` as the second part of their paths, and `name` is
    that of its icon. Lines with the same `group` are together under its name."""

    name: str
    title: str
    path: str
    operator_only: bool = False
    writers_only: bool = False
    group: str = ""


SECTIONS: tuple[Section, ...] = (
    Section("overview", "Overview", "/dashboard"),
    Section("endpoints", "Endpoints", "/dashboard/endpoints", group="Deliver"),
    Section("event-types", "Event types", "/dashboard/event-types", group="Deliver"),
    Section("events", "Events", "/dashboard/events", group="Deliver"),
    Section("deliveries", "Deliveries", "/dashboard/deliveries", group="Deliver"),
    Section("dead-letters", "Dead letters", "/dashboard/dead-letters", group="Deliver"),
    Section("jobs", "Jobs", "/dashboard/jobs", group="Deliver"),
    Section("sources", "Sources", "/dashboard/sources", group="Receive"),
    Section("inbox", "Inbox", "/dashboard/inbox", group="Receive"),
    Section("tenants", "Tenants", "/dashboard/tenants", operator_only=True, group="Administer"),
    Section(
        "portal-links",
        "Portal links",
        "/dashboard/portal-links",
        writers_only=True,
        group="Administer",
    ),
    Section("api-keys", "API keys", "/dashboard/api-keys", writers_only=True, group="Administer"),
    Section("audit", "Audit log", "/dashboard/audit", group="Administer"),
    Section(
        "retention", "Retention", "/dashboard/retention", operator_only=True, group="Administer"
    ),
)


def deliveries_between(since: datetime, until: datetime, **filters: str | None) -> str:
    """Return the address of the list of deliveries that were created in this time and match the
    filters that are not None."""
    return f"/dashboard/deliveries?{_query(since, until, filters)}"


def dead_letters_between(since: datetime, until: datetime, **filters: str | None) -> str:
    """Return the address of the list of dead letters that were created in this time and match the
    filters that are not None."""
    return f"/dashboard/dead-letters?{_query(since, until, filters)}"


def _query(since: datetime, until: datetime, filters: Mapping[str, str | None]) -> str:
    given = {name: value for name, value in filters.items() if value is not None}
    times = {"since": short_rfc3339(since), "until": short_rfc3339(until)}
    return urlencode(given | times, safe=":")


def short_rfc3339(moment: datetime) -> str:
    """Format a time by RFC 3339 in UTC, without zeros after the second."""
    return rfc3339(moment).replace(".000000", "")
