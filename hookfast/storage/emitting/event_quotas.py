"""The quotas of events per day, which are exact: events are counted in the transaction that commits
them. Without a quota, nothing is counted."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.errors import TooManyRequests
from hookfast.quotas import Quotas, daily_quota_exceeded, day_of
from hookfast.storage.accounts import tenant_days, tenants
from hookfast.storage.accounts.tenant_days import CountedDay
from hookfast.storage.events.new_events import Draft
from hookfast.telemetry import instruments

FRESH_SECONDS: Final = 2.0

Limits = Mapping[str, int]
"""The quota of events per day of each tenant that has one."""


class EventQuotas:
    """Finds the quotas of events per day. One per process. The tenants with quotas of their own are
    read every two seconds, so a changed quota applies within that time in every process."""

    def __init__(self, shared: Quotas) -> None:
        self._shared = shared
        self._own: Mapping[str, Mapping[str, int]] = {}
        self._fresh_until = 0.0  # by time.monotonic()

    async def limits(self, connection: AsyncConnection, tenant_ids: Collection[str]) -> Limits:
        """Return the quotas of those of these tenants that have one."""
        if not tenant_ids:
            return {}
        began = time.monotonic()
        if began >= self._fresh_until:
            self._own = await tenants.own_quotas(connection)
            self._fresh_until = began + FRESH_SECONDS
        found = {
            tenant_id: self._shared.of_tenant(tenant_id, self._own.get(tenant_id)).events_per_day
            for tenant_id in tenant_ids
        }
        return {tenant_id: limit for tenant_id, limit in found.items() if limit}

    def forget(self) -> None:
        """Read the tenants' own quotas again, because one was changed here."""
        self._fresh_until = 0.0


async def find_full(connection: AsyncConnection, limits: Limits, day: date) -> set[str]:
    """Return the tenants that have used up their quota of this day."""
    if not limits:
        return set()
    used = await tenant_days.read(connection, limits.keys(), day)
    return {tenant_id for tenant_id, events in used.items() if events >= limits[tenant_id]}


async def admit(
    connection: AsyncConnection, drafts: Sequence[Draft], limits: Limits
) -> dict[str, TooManyRequests]:
    """Count these events, and return an error for each that is beyond its tenant's quota, by the
    event's id. The caller commits the others in the same transaction.

    The counts are locked until the transaction ends, so call this after idempotency keys are
    claimed and before anything else is written: all transactions lock in this order.
    """
    counted: defaultdict[CountedDay, list[Draft]] = defaultdict(list)
    for draft in drafts:
        tenant_id = draft.event.tenant_id
        if tenant_id is not None and tenant_id in limits:
            counted[tenant_id, day_of(draft.committed.created_at)].append(draft)
    if not counted:
        return {}
    totals = await tenant_days.add(connection, {key: len(some) for key, some in counted.items()})
    beyond: dict[CountedDay, list[Draft]] = {}
    for key, some in counted.items():
        excess = totals[key] - limits[key[0]]
        if excess > 0:
            beyond[key] = some[-excess:]
    if beyond:
        await tenant_days.add(connection, {key: -len(some) for key, some in beyond.items()})
    return {
        draft.committed.id: reject(tenant_id, limits, now=draft.committed.created_at)
        for (tenant_id, _), some in beyond.items()
        for draft in some
    }


def reject(tenant_id: str, limits: Limits, *, now: datetime) -> TooManyRequests:
    """Count an event that is beyond its tenant's quota in the metrics, and return its error."""
    instruments.QUOTA_REJECTIONS.add(quota="events_per_day", tenant=tenant_id)
    return daily_quota_exceeded(limits[tenant_id], now=now)
