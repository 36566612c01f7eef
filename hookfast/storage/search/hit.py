"""What a search finds, and what the caller may see of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "event",
    "delivery",
    "test",
    "endpoint",
    "subscription",
    "event_type",
    "tenant",
    "source",
    "inbox_entry",
    "job",
    "api_key",
    "audit_entry",
    "retention_run",
]
"""The kinds of things that a search finds, in the order of its results."""

SCANNED = 5_000
"""Rows that one look-up by name reads at most, the newest ones: it matches parts of words, for
which there is no index."""
PER_KIND = 10
"""Hits of one kind that a search returns at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a search may find: everything of one tenant (None: of all), and, with `endpoint_id`,
    only that endpoint with its deliveries and jobs. `keys`: also API keys."""

    tenant_id: str | None = None
    endpoint_id: str | None = None
    keys: bool = False

    def sees(self, tenant_id: str | None, endpoint_id: str | None = None) -> bool:
        """Whether the scope includes what belongs to this tenant and endpoint (None: to none)."""
        return self.tenant_id in (None, tenant_id) and self.endpoint_id in (None, endpoint_id)

    def sees_event(self, tenant_id: str | None) -> bool:
        """Whether the scope includes an event of this tenant. Everyone sees broadcasts, but a scope
        of one endpoint has no events."""
        return self.endpoint_id is None and (tenant_id is None or self.sees(tenant_id))


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that was found. `exact`: its id, key, name or URL is the text that was searched,
    not only a part of it. `shown_with` is the id of the resource that shows it, if it has no page
    of its own."""

    kind: Kind
    id: str
    title: str
    detail: str = ""
    tenant_id: str | None = None
    exact: bool = True
    shown_with: str | None = None
