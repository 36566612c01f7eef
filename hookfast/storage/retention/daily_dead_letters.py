"""Dead letters by the time they ended: count those of a day by endpoint, delete the old ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Table, and_, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import Owner, State, Tally, minute_of_id
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.counting import entries
from hookfast.storage.database.planner_hints import Residual
from hookfast.storage.deliveries.attempts import where_delivery_in
from hookfast.storage.deliveries.dead_letters import IS_DEAD
from hookfast.storage.tables import Attempt, Delivery, Endpoint, EndpointHealth

_DELIVERIES: Table = Delivery.__table__
_ATTEMPTS: Table = Attempt.__table__
_ENDPOINTS: Table = Endpoint.__table__
_HEALTH: Table = EndpointHealth.__table__
_C = _DELIVERIES.c


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterCount:
    """How many dead letters an endpoint got in a period, and the error of its last failure."""

    endpoint_id: str
    dead: int
    first_at: datetime
    last_error: str | None


async def count_by_endpoint(
    connection: AsyncConnection, *, since: datetime
) -> list[DeadLetterCount]:
    """Count the dead letters that ended at or after `since`, by endpoint, without deleted
    endpoints."""
    counts = (
        select(
            _C.endpoint_id,
            func.count().label("dead"),
            func.min(_C.finished_at).label("first_at"),
        )
        .where(IS_DEAD, _C.finished_at >= since)
        # not by the index of all dead letters: those of a day are few
        .group_by(Residual(_C.endpoint_id))
        .subquery()
    )
    rows = await connection.execute(
        select(counts, _HEALTH.c.last_error)
        .join_from(counts, _ENDPOINTS, _ENDPOINTS.c.id == counts.c.endpoint_id)
        .outerjoin(_HEALTH, _HEALTH.c.endpoint_id == counts.c.endpoint_id)
        .where(_ENDPOINTS.c.deleted_at.is_(None))
        .order_by(counts.c.endpoint_id)
    )
    return [DeadLetterCount(**row) for row in rows.mappings()]


def ended_before(moment: datetime) -> ColumnElement[bool]:
    """Return the condition for dead letters that ended before this time."""
    return and_(IS_DEAD, _C.finished_at < moment)


async def expire(connection: AsyncConnection, *, finished_before: datetime, limit: int) -> int:
    """Delete the dead letters that ended before this time, at most `limit`, with their attempts,
    and return how many were deleted. A dead letter that is being resent is kept."""
    old = await connection.execute(
        select(
            *(_C.id, _C.tenant_id, _C.endpoint_id, _C.event_type),
            *(_C.status, _C.reason, _C.finished_at),
        )
        .where(ended_before(finished_before))
        .order_by(_C.finished_at)
        .limit(limit)
        # PostgreSQL only (SQLite has one writer and ignores it): skip rows that others have locked
        .with_for_update(skip_locked=True)
    )
    rows = old.all()
    if not rows:
        return 0
    ids = [row.id for row in rows]
    tally = Tally()
    for row in rows:
        owner = Owner(row.tenant_id, row.endpoint_id, row.event_type)
        state = State(DeliveryStatus(row.status), row.reason, row.finished_at)
        tally.delivery(owner, minute_of_id(row.id), state, None)
    await entries.write(connection, tally.numbers())
    await connection.execute(delete(_ATTEMPTS).where(where_delivery_in(ids)))
    deliveries = await connection.execute(delete(_DELIVERIES).where(_C.id.in_(ids)))
    return deliveries.rowcount
