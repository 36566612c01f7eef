"""The outbox: deliveries whose workflow still has to be started (`started_at` is NULL).

A relay leases rows before it starts their workflows, so that its twins leave them alone; a lease
that runs out (the relay was killed) makes the row free again. Leases compare the relays' clocks: a
skewed clock costs a second start, which Temporal refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Integer, Table, and_, bindparam, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.retry_plan import PlanSpec
from hookfast.storage.tables import Delivery, Endpoint

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDelivery:
    """An outbox row, as the relay starts it."""

    delivery_id: str
    event_id: str
    endpoint_id: str
    tenant_id: str
    event_type: str
    payload: str
    status: str
    reason: str | None
    attempts: int
    retries: int
    created_at: datetime
    deliver_at: datetime | None
    next_attempt_at: datetime | None
    reopened: int


_PENDING_COLUMNS = (
    _C.id.label("delivery_id"),
    *(
        _C[name]
        for name in (
            "event_id",
            "endpoint_id",
            "tenant_id",
            "event_type",
            "payload",
            "status",
            "reason",
            "attempts",
            "retries",
            "created_at",
            "deliver_at",
            "next_attempt_at",
            "reopened",
        )
    ),
)


_TIME = _C.leased_until.type
# Common table expressions, which PostgreSQL evaluates once when they lock rows: as a plain subquery
# it might run the SELECT again for every row, and lease more than the limit.
_FREE = (
    select(_C.id)
    .where(
        _C.started_at.is_(None),
        or_(_C.leased_until.is_(None), _C.leased_until < bindparam("now", type_=_TIME)),
    )
    .order_by(_C.id)
    .limit(bindparam("limit", type_=Integer))
    # PostgreSQL only (SQLite has one writer and ignores it): twins pass each other by
    .with_for_update(skip_locked=True)
    .cte("free")
)
_CLAIM = (
    update(_DELIVERIES)
    .where(_C.id.in_(select(_FREE.c.id)))
    .values(leased_until=bindparam("until", type_=_TIME))
    .returning(*_PENDING_COLUMNS)
)
_UNMARKED = (
    select(_C.id)
    .where(
        _C.id.in_(bindparam("ids", expanding=True)),
        _C.started_at.is_(None),
        _C.leased_until.is_not(None),
    )
    .with_for_update(skip_locked=True)
    .cte("unmarked")
)
_MARK = (
    update(_DELIVERIES)
    .where(_C.id.in_(select(_UNMARKED.c.id)))
    .values(started_at=bindparam("now", type_=_TIME), leased_until=None)
)


async def claim(
    connection: AsyncConnection, *, limit: int, lease: timedelta, now: datetime
) -> list[PendingDelivery]:
    """Lease the oldest free rows, at most `limit`, and return them, oldest first."""
    claimed = await connection.execute(_CLAIM, {"limit": limit, "now": now, "until": now + lease})
    rows = [PendingDelivery(**row) for row in claimed.mappings()]
    return sorted(rows, key=lambda row: row.delivery_id)


async def find_pending(connection: AsyncConnection, delivery_id: str) -> PendingDelivery | None:
    """One delivery in the form the relay uses, whether it waits in the outbox or not."""
    found = await connection.execute(select(*_PENDING_COLUMNS).where(_C.id == delivery_id))
    row = found.mappings().first()
    return None if row is None else PendingDelivery(**row)


async def find_route(
    connection: AsyncConnection, endpoint_id: str
) -> tuple[str, PlanSpec, float] | None:
    """An endpoint's URL, retry plan and timeout (seconds): what a workflow is started with."""
    c = Endpoint.__table__.c
    found = await connection.execute(
        select(c.url, c.retry_plan, c.timeout_seconds).where(c.id == endpoint_id)
    )
    row = found.first()
    return None if row is None else (row.url, row.retry_plan, row.timeout_seconds)


async def mark_started(
    connection: AsyncConnection, delivery_ids: Sequence[str], *, now: datetime
) -> None:
    """Say that these workflows exist. Rows another transaction holds are skipped: it is the record
    of their first attempt, which marks them too. So are rows without a lease: they were put back
    into the outbox since."""
    if delivery_ids:
        await connection.execute(_MARK, {"ids": list(delivery_ids), "now": now})


async def release(connection: AsyncConnection, delivery_ids: Sequence[str]) -> None:
    """Give leases back: these could not be started now."""
    if delivery_ids:
        await connection.execute(
            update(_DELIVERIES)
            .where(_C.id.in_(delivery_ids), _C.started_at.is_(None))
            .values(leased_until=None)
        )


async def reopen_lost(
    connection: AsyncConnection, *, overdue_since: datetime, now: datetime, limit: int
) -> int:
    """Put deliveries that should have been attempted before `overdue_since` back into the outbox,
    and return how many. Their workflows are late, or lost with Temporal's own data (restored from
    a backup, say); starting one that still runs changes nothing."""
    late = await connection.execute(
        select(_C.id)
        .where(
            and_(_C.next_attempt_at.is_not(None), _C.next_attempt_at < overdue_since),
            _C.started_at.is_not(None),
            _C.updated_at < overdue_since,
        )
        .limit(limit)
        # PostgreSQL only: what somebody holds is not lost, and is not waited for. Whoever records
        # attempts holds many, in the order of their ids.
        .with_for_update(skip_locked=True)
    )
    ids = list(late.scalars())
    if ids:
        await connection.execute(
            update(_DELIVERIES)
            .where(_C.id.in_(ids))
            .values(started_at=None, leased_until=None, updated_at=now, reopened=_C.reopened + 1)
        )
    return len(ids)


async def backlog(connection: AsyncConnection) -> tuple[int, datetime | None]:
    """How many deliveries wait to be started, and since when the oldest does."""
    row = (
        await connection.execute(
            select(func.count(), func.min(_C.created_at)).where(_C.started_at.is_(None))
        )
    ).one()
    return row[0], row[1]
