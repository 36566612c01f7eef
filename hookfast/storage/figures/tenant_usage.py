"""How much of its quotas a tenant uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from sqlalchemy import ColumnElement, Table, func, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.quotas import Resource
from hookfast.storage.accounts import tenant_days
from hookfast.storage.tables import Endpoint, Source, Subscription

_ENDPOINTS: Table = Endpoint.__table__
_SUBSCRIPTIONS: Table = Subscription.__table__
_SOURCES: Table = Source.__table__

_COUNTED: Final[Mapping[Resource, tuple[Table, ColumnElement[bool]]]] = {
    "endpoints": (_ENDPOINTS, _ENDPOINTS.c.deleted_at.is_(None)),
    "subscriptions": (_SUBSCRIPTIONS, true()),
    "sources": (_SOURCES, _SOURCES.c.deleted_at.is_(None)),
}
"""The table of each resource, and the condition for the rows that count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUsage:
    """What a tenant has. `events` is the number of events of the day that were counted, which
    happens only while the tenant has a quota of them."""

    endpoints: int
    subscriptions: int
    sources: int
    events: int


async def count(connection: AsyncConnection, resource: Resource, tenant_id: str) -> int:
    """Return how many of a resource the tenant has."""
    return (await _count(connection, resource, [tenant_id])).get(tenant_id, 0)


async def read(
    connection: AsyncConnection, tenant_ids: Collection[str], day: date
) -> dict[str, TenantUsage]:
    """Return the usage of each of these tenants, with its events of `day`."""
    counts = {name: await _count(connection, name, tenant_ids) for name in _COUNTED}
    events = await tenant_days.read(connection, tenant_ids, day)
    return {
        tenant_id: TenantUsage(
            endpoints=counts["endpoints"].get(tenant_id, 0),
            subscriptions=counts["subscriptions"].get(tenant_id, 0),
            sources=counts["sources"].get(tenant_id, 0),
            events=events.get(tenant_id, 0),
        )
        for tenant_id in tenant_ids
    }


async def _count(
    connection: AsyncConnection, resource: Resource, tenant_ids: Collection[str]
) -> dict[str, int]:
    table, counts = _COUNTED[resource]
    rows = await connection.execute(
        select(table.c.tenant_id, func.count().label("number"))
        .where(table.c.tenant_id.in_(tenant_ids), counts)
        .group_by(table.c.tenant_id)
    )
    return {row.tenant_id: row.number for row in rows}
