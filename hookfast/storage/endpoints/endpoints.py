"""Statements on `endpoints`. A deleted endpoint keeps its row, because deliveries refer to it, but
reads do not find it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, Table, Update, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.retry_plan import PlanSpec
from hookfast.endpoints.health import Health
from hookfast.storage.database.keyset import newest_first
from hookfast.storage.database.rows import fetch_all, fetch_one
from hookfast.storage.endpoints import derived_health
from hookfast.storage.tables import Endpoint

_ENDPOINTS: Table = Endpoint.__table__
_LIVE = _ENDPOINTS.c.deleted_at.is_(None)


async def add(connection: AsyncConnection, endpoint: Endpoint) -> None:
    """Store a new endpoint."""
    await connection.execute(insert(_ENDPOINTS).values(endpoint.model_dump()))


async def get(
    connection: AsyncConnection, endpoint_id: str, *, lock: bool = False
) -> Endpoint | None:
    """Return the endpoint with this id. `lock` prevents changes and deletion until the transaction
    ends (SQLite's write transactions do anyway)."""
    statement = select(_ENDPOINTS).where(_ENDPOINTS.c.id == endpoint_id, _LIVE)
    return await fetch_one(connection, statement.with_for_update() if lock else statement, Endpoint)


async def retry_plans(
    connection: AsyncConnection, endpoint_ids: Collection[str]
) -> dict[str, PlanSpec]:
    """Return the retry plans of these endpoints in any state."""
    rows = await connection.execute(
        select(_ENDPOINTS.c.id, _ENDPOINTS.c.retry_plan).where(
            _ENDPOINTS.c.id.in_(sorted(endpoint_ids))
        )
    )
    return {row.id: row.retry_plan for row in rows}


async def owners(connection: AsyncConnection, endpoint_ids: Collection[str]) -> Sequence[Any]:
    """Return rows of `id` and `tenant_id` of these endpoints, deleted ones too."""
    statement = select(_ENDPOINTS.c.id, _ENDPOINTS.c.tenant_id)
    found = await connection.execute(statement.where(_ENDPOINTS.c.id.in_(sorted(endpoint_ids))))
    return found.all()


async def list_page(
    connection: AsyncConnection,
    *,
    tenant_id: str | None,
    state: str | None,
    health: Health | None = None,
    after: str | None,
    limit: int,
) -> list[Endpoint]:
    """Return endpoints, newest first, of one tenant (None: of all), in one state (None: any) and
    with this health (None: any)."""
    statement: Select[Any] = select(_ENDPOINTS)
    key: Any = _ENDPOINTS.c.id
    if health is not None:
        statement, key = derived_health.select_with_health(health, tenant_id=tenant_id)
    if tenant_id is not None:
        statement = statement.where(_ENDPOINTS.c.tenant_id == tenant_id)
    if state is not None:
        statement = statement.where(*derived_health.in_state(state, tenant_id=tenant_id))
    page = newest_first(statement.where(_LIVE), key, after=after, limit=limit)
    return await fetch_all(connection, page, Endpoint)


async def change(
    connection: AsyncConnection, endpoint_id: str, *, seen: datetime, values: dict[str, Any]
) -> bool:
    """Set columns of an endpoint, unless it was changed or deleted since `seen` (its `updated_at`
    when it was read). Returns whether they were set."""
    result = await connection.execute(
        update(_ENDPOINTS)
        .where(_ENDPOINTS.c.id == endpoint_id, _ENDPOINTS.c.updated_at == seen, _LIVE)
        .values(values)
    )
    return result.rowcount == 1


async def mark_deleted(connection: AsyncConnection, endpoint_id: str, *, at: datetime) -> None:
    """Delete an endpoint, with its secrets, custom headers and credentials."""
    await connection.execute(_delete(at).where(_ENDPOINTS.c.id == endpoint_id))


async def mark_deleted_of_tenant(
    connection: AsyncConnection, tenant_id: str, *, at: datetime
) -> None:
    """Delete every endpoint of a tenant in the same way."""
    await connection.execute(_delete(at).where(_ENDPOINTS.c.tenant_id == tenant_id))


def _delete(at: datetime) -> Update:
    secret: dict[str, Any] = {"secrets": [], "headers": {}, "credentials": []}
    return update(_ENDPOINTS).where(_LIVE).values(deleted_at=at, updated_at=at, **secret)
