"""Quotas of a tenant: how many endpoints, subscriptions and sources it may have, and how many
events may be emitted for it on a day (UTC). Pure.

The settings have the quotas that all tenants share; a tenant may have some of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal

from hookfast.errors import Conflict, TooManyRequests
from hookfast.events.operational import SYSTEM_TENANT
from hookfast.retention.ages import midnight

Resource = Literal["endpoints", "subscriptions", "sources"]
"""What a tenant may have a number of."""

MAX_QUOTA: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The quotas of a tenant, or those that all tenants share. 0 is no limit."""

    endpoints: int = 0
    subscriptions: int = 0
    sources: int = 0
    events_per_day: int = 0

    def of_tenant(self, tenant_id: str, own: Mapping[str, int] | None) -> Quotas:
        """Return a tenant's quotas: its own, and these shared ones where it has none. Hookfast's
        own tenant has no limits."""
        if tenant_id == SYSTEM_TENANT:
            return Quotas()
        return replace(self, **{name: own[name] for name in QUOTAS if name in own}) if own else self


QUOTAS: Final = tuple(field.name for field in fields(Quotas))
"""The names of all quotas."""


def day_of(at: datetime) -> date:
    """Return the day (UTC) for which an event that is emitted at this time counts."""
    return at.astimezone(UTC).date()


def next_day(now: datetime) -> datetime:
    """Return the time at which the events of a new day are counted: the next midnight, UTC."""
    return midnight(now) + timedelta(days=1)


def quota_exceeded(resource: Resource, *, used: int, limit: int) -> Conflict:
    """Return the error for one more of a resource than the tenant may have."""
    return Conflict(
        f"The tenant's quota of {limit:,} {resource} is used up: it has {used:,}. Delete some, or "
        "ask the operator to raise the quota.",
        code="quota_exceeded",
    )


def daily_quota_exceeded(limit: int, *, now: datetime) -> TooManyRequests:
    """Return the error for an event beyond the tenant's quota of events per day."""
    until_midnight = (next_day(now) - now).total_seconds()
    return TooManyRequests(
        f"The tenant's quota of {limit:,} events per day is used up, so nothing was stored for "
        "this event. Send it again after 00:00 UTC, or ask the operator to raise the quota.",
        code="daily_quota_exceeded",
        retry_after=math.ceil(until_midnight),
    )
