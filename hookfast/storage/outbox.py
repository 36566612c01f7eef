"""The outbox: deliveries whose workflow still has to be started or woken (`started_at` is NULL).

A relay leases rows before it starts their workflows, so that its twins leave them alone; a lease
that runs out (the relay was killed) makes the row free again. Leases compare the relays' clocks: a
skewed clock costs a second start, which Temporal refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Integer, Table, and_, bindparam, case, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.life import Life
from hookfast.delivery import Urgency
from hookfast.storage.lives import COLUMNS, life_of
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDelivery:
    """An outbox row, as the relay starts or wakes its workflow. `leased_until` names the lease."""

    delivery_id: str
    event_id: str
    endpoint_id: str
    tenant_id: str
    event_type: str
    payload: str
    created_at: datetime
    deliver_at: datetime | None
    leased_until: datetime | None
    wakes: int
    urgency: int
    life: Life


_OWN = (
    "event_id",
    "endpoint_id",
    "tenant_id",
    "event_type",
    "payload",
    "created_at",
    "deliver_at",
    "leased_until",
    "wakes",
    "urgency",
)
_PENDING_COLUMNS = (_C.id.label("delivery_id"), *(_C[name] for name in _OWN), *COLUMNS)


_TIME = _C.leased_until.type
# Common table expressions, which PostgreSQL evaluates once when they lock rows: as a plain subquery
# it might run the SELECT again for every row, and lease more than the limit.
_FREE = (
    select(_C.id)
    .where(
        _C.started_at.is_(None),
        _C.urgency.between(bindparam("most_urgent"), bindparam("least_urgent")),
        or_(_C.leased_until.is_(None), _C.leased_until < bindparam("now", type_=_TIME)),
    )
    .order_by(_C.urgency, _C.id)
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
        # put back since, or leased by another: then there is more to be told
        _C.leased_until == bindparam("until", type_=_TIME),
    )
    .with_for_update(skip_locked=True)
    .cte("unmarked")
)
_MARK = (
    update(_DELIVERIES)
    .where(_C.id.in_(select(_UNMARKED.c.id)))
    .values(started_at=bindparam("now", type_=_TIME), leased_until=None)
)
_RELEASE = update(_DELIVERIES).where(_C.id.in_(select(_UNMARKED.c.id))).values(leased_until=None)


async def claim(
    connection: AsyncConnection,
    *,
    limit: int,
    lease: timedelta,
    now: datetime,
    most_urgent: int = Urgency.WISH,
    least_urgent: int = Urgency.JOB,
) -> list[PendingDelivery]:
    """Lease free rows, at most `limit`, the most urgent and then the oldest first, and return them
    in that order."""
    given = {"most_urgent": most_urgent, "least_urgent": least_urgent}
    claimed = await connection.execute(
        _CLAIM, {"limit": limit, "now": now, "until": now + lease, **given}
    )
    rows = [_pending(row) for row in claimed]
    return sorted(rows, key=lambda row: (row.urgency, row.delivery_id))


async def find_pending(connection: AsyncConnection, delivery_id: str) -> PendingDelivery | None:
    """One delivery in the form the relay uses, whether it waits in the outbox or not."""
    found = await connection.execute(select(*_PENDING_COLUMNS).where(_C.id == delivery_id))
    row = found.first()
    return None if row is None else _pending(row)


async def mark_started(
    connection: AsyncConnection,
    delivery_ids: Sequence[str],
    *,
    leased_until: datetime,
    now: datetime,
) -> None:
    """Say that these workflows, claimed together, exist and were told. Rows another transaction
    holds are skipped: it is the record of their first attempt, which marks them too."""
    if delivery_ids:
        given = {"ids": list(delivery_ids), "until": leased_until, "now": now}
        await connection.execute(_MARK, given)


async def release(
    connection: AsyncConnection, delivery_ids: Sequence[str], *, leased_until: datetime
) -> None:
    """Give the leases of one claim back: these could not be started now."""
    if delivery_ids:
        await connection.execute(_RELEASE, {"ids": list(delivery_ids), "until": leased_until})


async def wake(
    connection: AsyncConnection, delivery_ids: Sequence[str], *, urgency: int = Urgency.RETRY
) -> None:
    """Have these deliveries' workflows look at their rows, which say what they already said: their
    endpoint's circuit changed, or nothing was heard of them."""
    if delivery_ids:
        await connection.execute(
            update(_DELIVERIES)
            .where(_C.id.in_(delivery_ids))
            .values(
                started_at=None,
                leased_until=None,
                wakes=_C.wakes + 1,
                urgency=case(
                    (and_(_C.started_at.is_(None), _C.urgency < urgency), _C.urgency),
                    else_=urgency,
                ),
            )
        )


async def wake_lost(connection: AsyncConnection, *, overdue_since: datetime, limit: int) -> int:
    """Put deliveries that should have been attempted before `overdue_since` back into the outbox,
    and return how many. Their workflows are late, or lost with Temporal's own data (restored from
    a backup, say); waking one that still runs changes nothing."""
    late = await connection.execute(
        select(_C.id)
        .where(
            and_(_C.next_attempt_at.is_not(None), _C.next_attempt_at < overdue_since),
            # also what was told lately: it is on its way
            _C.started_at < overdue_since,
            _C.updated_at < overdue_since,
        )
        .limit(limit)
        # PostgreSQL only: what somebody holds is not lost, and is not waited for. Whoever records
        # attempts holds many, in the order of their ids.
        .with_for_update(skip_locked=True)
    )
    ids = list(late.scalars())
    await wake(connection, ids)
    return len(ids)


async def backlog(connection: AsyncConnection) -> tuple[int, datetime | None]:
    """How many deliveries wait to be started or woken, and since when the oldest does."""
    row = (
        await connection.execute(
            select(func.count(), func.min(_C.created_at)).where(_C.started_at.is_(None))
        )
    ).one()
    return row[0], row[1]


def _pending(row: object) -> PendingDelivery:
    own = {name: getattr(row, name) for name in ("delivery_id", *_OWN)}
    return PendingDelivery(**own, life=life_of(row))
