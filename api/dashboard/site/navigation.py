"""The menu."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """A line of the menu. `name` is what a template's `section` says to be marked as current."""

    name: str
    title: str
    path: str
    operator_only: bool = False
    key_makers_only: bool = False


SECTIONS: tuple[Section, ...] = (
    Section("overview", "Overview", "/dashboard"),
    Section("endpoints", "Endpoints", "/dashboard/endpoints"),
    Section("deliveries", "Deliveries", "/dashboard/deliveries"),
    Section("events", "Events", "/dashboard/events"),
    Section("dead-letters", "Dead letters", "/dashboard/dead-letters"),
    Section("jobs", "Jobs", "/dashboard/jobs"),
    Section("sources", "Sources", "/dashboard/sources"),
    Section("inbox", "Inbox", "/dashboard/inbox"),
    Section("event-types", "Event types", "/dashboard/event-types"),
    Section("audit", "Audit log", "/dashboard/audit"),
    Section("api-keys", "API keys", "/dashboard/api-keys", key_makers_only=True),
    Section("portal-links", "Portal links", "/dashboard/portal-links", key_makers_only=True),
    Section("tenants", "Tenants", "/dashboard/tenants", operator_only=True),
    Section("retention", "Retention", "/dashboard/retention", operator_only=True),
)


def sections_of_endpoint(endpoint_id: str) -> list[Section]:
    """The menu of a portal link about one endpoint."""
    return [
        Section("endpoints", "Endpoint", f"/dashboard/endpoints/{endpoint_id}"),
        Section("deliveries", "Deliveries", f"/dashboard/deliveries?endpoint_id={endpoint_id}"),
        Section(
            "dead-letters", "Dead letters", f"/dashboard/dead-letters?endpoint_id={endpoint_id}"
        ),
    ]
