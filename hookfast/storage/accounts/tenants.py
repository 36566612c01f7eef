"""Statements on `tenants`. A deleted tenant keeps its row, and is otherwise treated as unknown."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Table, insert, null, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.operational import SYSTEM_TENANT
from hookfast.storage.database.keyset import newest_first
from hookfast.storage.database.rows import fetch_all, fetch_one
from hookfast.storage.tables import Tenant

_TENANTS: Table = Tenant.__table__
_LIVE = _TENANTS.c.deleted_at.is_(None)


async def add(connection: AsyncConnection, tenant: Tenant) -> None:
    """Add a tenant."""
    await connection.execute(insert(_TENANTS).values(tenant.model_dump()))


async def get(connection: AsyncConnection, tenant_id: str, *, lock: bool = False) -> Tenant | None:
    """Return a tenant by its id. `lock` keeps it from being changed or deleted until the
    transaction ends (SQLite's write transactions do anyway)."""
    statement = select(_TENANTS).where(_TENANTS.c.id == tenant_id, _LIVE)
    return await fetch_one(connection, statement.with_for_update() if lock else statement, Tenant)


async def list_page(connection: AsyncConnection, *, after: str | None, limit: int) -> list[Tenant]:
    """List tenants, newest first, without the system tenant, which is no customer."""
    statement = select(_TENANTS).where(_LIVE, _TENANTS.c.id != SYSTEM_TENANT)
    page = newest_first(statement, _TENANTS.c.id, after=after, limit=limit)
    return await fetch_all(connection, page, Tenant)


async def are_several(connection: AsyncConnection) -> bool:
    """Return whether there are two tenants or more, without the system tenant."""
    some = select(_TENANTS.c.id).where(_LIVE, _TENANTS.c.id != SYSTEM_TENANT).limit(2)
    return len((await connection.execute(some)).all()) > 1


async def find_existing(connection: AsyncConnection, tenant_ids: Collection[str]) -> set[str]:
    """Return the ids of those of these tenants that exist."""
    statement = select(_TENANTS.c.id).where(_TENANTS.c.id.in_(tenant_ids), _LIVE)
    return set((await connection.execute(statement)).scalars())


async def names_of(connection: AsyncConnection, tenant_ids: Collection[str]) -> dict[str, str]:
    """Return the names of those of these tenants that exist, by id."""
    rows = await connection.execute(
        select(_TENANTS.c.id, _TENANTS.c.name).where(_TENANTS.c.id.in_(sorted(tenant_ids)), _LIVE)
    )
    return {row.id: row.name for row in rows}


async def quotas_of(
    connection: AsyncConnection, tenant_ids: Collection[str]
) -> dict[str, dict[str, int] | None]:
    """Return the own quotas (None: none) of those of these tenants that exist."""
    rows = await connection.execute(
        select(_TENANTS.c.id, _TENANTS.c.quotas).where(_TENANTS.c.id.in_(tenant_ids), _LIVE)
    )
    return {row.id: row.quotas for row in rows}


async def own_quotas(connection: AsyncConnection) -> dict[str, dict[str, int]]:
    """Return the own quotas of each tenant that has some, by its id."""
    rows = await connection.execute(
        select(_TENANTS.c.id, _TENANTS.c.quotas).where(_TENANTS.c.quotas.is_not(null()), _LIVE)
    )
    return {row.id: row.quotas for row in rows}


async def change(connection: AsyncConnection, tenant_id: str, **values: Any) -> None:
    """Set columns of a tenant."""
    await connection.execute(update(_TENANTS).where(_TENANTS.c.id == tenant_id).values(values))


async def mark_deleted(connection: AsyncConnection, tenant_id: str, *, at: datetime) -> None:
    """Mark a tenant as deleted. The caller deletes what it owns in the same transaction."""
    await change(connection, tenant_id, deleted_at=at, updated_at=at)
