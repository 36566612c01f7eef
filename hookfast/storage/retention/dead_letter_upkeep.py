"""Dead letters day by day: which endpoints got some, and which are too old to keep."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Table, delete, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.planner_hints import Residual
from hookfast.storage.deliveries.attempts import of
from hookfast.storage.tables import Attempt, Delivery, Endpoint, EndpointHealth

_DELIVERIES: Table = Delivery.__table__
_ATTEMPTS: Table = Attempt.__table__
_ENDPOINTS: Table = Endpoint.__table__
_HEALTH: Table = EndpointHealth.__table__
_C = _DELIVERIES.c

# The predicate of the partial indexes, literally: no planner matches a bound parameter with it.
_DEAD = _C.status.in_([literal_column("'dead'"), literal_column("'gone'")])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterCount:
    """An endpoint's dead letters of some time; `last_error` is what its last failure said."""

    endpoint_id: str
    dead: int
    first_at: datetime
    last_error: str | None


async def count_by_endpoint(
    connection: AsyncConnection, *, since: datetime
) -> list[DeadLetterCount]:
    """The dead letters that ended at or after `since`, for each endpoint that still exists."""
    counts = (
        select(
            _C.endpoint_id,
            func.count().label("dead"),
            func.min(_C.finished_at).label("first_at"),
        )
        .where(_DEAD, _C.finished_at >= since)
        # not by the index of every dead letter: the day's are few of them
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


async def expire(connection: AsyncConnection, *, finished_before: datetime, limit: int) -> int:
    """Delete the dead letters that ended before that, with their attempts, at most `limit`, and
    return how many dead letters that were. One that is being sent again is left."""
    found = await connection.execute(
        select(_C.id)
        .where(_DEAD, _C.finished_at < finished_before)
        .order_by(_C.finished_at)
        .limit(limit)
        # PostgreSQL only (SQLite has one writer and ignores it): rows someone holds are passed by
        .with_for_update(skip_locked=True)
    )
    ids = list(found.scalars())
    if not ids:
        return 0
    await connection.execute(delete(_ATTEMPTS).where(of(ids)))
    deliveries = await connection.execute(delete(_DELIVERIES).where(_C.id.in_(ids)))
    return deliveries.rowcount
