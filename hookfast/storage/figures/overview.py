"""What needs attention on the overview: the oldest held delivery, and unhealthy endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Table, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import EndpointState
from hookfast.endpoints.health import Health
from hookfast.storage.database.planner_hints import undelivered
from hookfast.storage.endpoints.derived_health import IS_CLOSED, IS_STOPPED, IS_UNHEALTHY, health_of
from hookfast.storage.tables import Delivery, Endpoint, EndpointHealth

_OLDEST_OF = 1_000

_DELIVERIES: Table = Delivery.__table__
_D = _DELIVERIES.c
_E = Endpoint.__table__.c
_HEALTH: Table = EndpointHealth.__table__
_H = _HEALTH.c


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    """An endpoint that is not healthy. `reason` says why, in words; `next_probe_at` is set while
    its circuit is open."""

    tenant_id: str
    endpoint_id: str
    url: str
    description: str
    health: Health
    since: datetime | None
    reason: str | None
    next_probe_at: datetime | None


async def oldest_held(connection: AsyncConnection, *, tenant_id: str | None) -> datetime | None:
    """Return since when the oldest held delivery has waited; None if none is held. Only the oldest
    by id are read: a later one can hardly have waited longer."""
    held = select(_D.waiting_since).where(*undelivered(_D.status, DeliveryStatus.HELD.value))
    if tenant_id is not None:
        held = held.where(_D.tenant_id == tenant_id)
    some = held.order_by(_D.id).limit(_OLDEST_OF).subquery()
    since: datetime | None = await connection.scalar(select(func.min(some.c.waiting_since)))
    return since


async def attention_items(
    connection: AsyncConnection, *, tenant_id: str | None, limit: int
) -> list[AttentionItem]:
    """Return at most `limit` endpoints that are not healthy: first those whose circuit is not
    closed, then failing ones, then paused and disabled ones, each with the latest change first."""
    live: list[ColumnElement[bool]] = [_E.deleted_at.is_(None)]
    if tenant_id is not None:
        live.append(_E.tenant_id == tenant_id)
    columns = (
        _E.id,
        _E.tenant_id,
        _E.url,
        _E.description,
        _E.state,
        _E.state_reason,
        _E.updated_at,
        _H.circuit,
        _H.opened_at,
        _H.consecutive_failures,
        _H.first_failure_at,
        _H.last_error,
        _H.next_probe_at,
    )
    enabled = _E.state == EndpointState.ENABLED.value
    joined = select(*columns).join_from(Endpoint.__table__, _HEALTH, _E.id == _H.endpoint_id)
    open_ones = joined.where(~IS_CLOSED, enabled, *live)
    failing = joined.where(
        IS_UNHEALTHY,
        IS_CLOSED,
        _H.first_failure_at.is_not(None),
        enabled,
        *live,
    )
    stopped = (
        select(*columns)
        .join_from(Endpoint.__table__, _HEALTH, _E.id == _H.endpoint_id, isouter=True)
        .where(IS_STOPPED, *live)
    )
    rows: list[Any] = []
    for statement in (
        open_ones.order_by(_H.opened_at.desc()),
        failing.order_by(_H.first_failure_at.desc()),
        stopped.order_by(_E.updated_at.desc()),
    ):
        if len(rows) < limit:
            found = await connection.execute(statement.limit(limit - len(rows)))
            rows += found.mappings()
    return [_attention_item(row) for row in rows]


def _attention_item(row: Any) -> AttentionItem:
    health = health_of(row["state"], row["circuit"], row["consecutive_failures"])
    is_stopped = health in (Health.PAUSED, Health.DISABLED)
    since = row["first_failure_at"] if health is Health.FAILING else row["opened_at"]
    return AttentionItem(
        tenant_id=row["tenant_id"],
        endpoint_id=row["id"],
        url=row["url"],
        description=row["description"],
        health=health,
        since=row["updated_at"] if is_stopped else since or row["updated_at"],
        reason=row["state_reason"] if is_stopped else row["last_error"],
        next_probe_at=row["next_probe_at"] if health is Health.CIRCUIT_OPEN else None,
    )
