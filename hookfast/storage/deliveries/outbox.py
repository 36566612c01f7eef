"""The outbox: deliveries whose workflow still has to be started or woken (`started_at` is NULL).

A relay leases rows before it starts their workflows, so that its twins leave them alone; a lease
that runs out (the relay was killed) makes the row free again. Leases compare the relays' clocks: a
skewed clock costs a second start, which Temporal refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, Select, Table, and_, bindparam, case, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.life import Life
from hookfast.deliveries.messages import Urgency
from hookfast.storage.deliveries.lives import COLUMNS, life_of
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDelivery:
    """An outbox row, as the relay starts or wakes its workflow. `batch_id` is the batch that took
    its first attempt."""

    delivery_id: str
    event_id: str
    endpoint_id: str
    tenant_id: str
    event_type: str
    payload: str
    created_at: datetime
    deliver_at: datetime | None
    wakes: int
    urgency: int
    batch_id: str | None
    life: Life

    @property
    def new(self) -> bool:
        """Whether nothing was done for it yet."""
        return self.wakes == 0

    @property
    def has_workflow(self) -> bool:
        """Whether its workflow was told of before: then it is woken, else started. A batch's first
        word of a delivery is not one of its workflow's."""
        return self.wakes > (0 if self.batch_id is None else 1)


_OWN = (
    "event_id",
    "endpoint_id",
    "tenant_id",
    "event_type",
    "payload",
    "created_at",
    "deliver_at",
    "wakes",
    "urgency",
    "batch_id",
)
_NAMES = ("delivery_id", *_OWN)
PENDING = (_C.id.label("delivery_id"), *(_C[name] for name in _OWN), *COLUMNS)
"""What `pending` reads, in this order."""

_TIME = _C.leased_until.type
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_FIND_ALL = select(*PENDING).where(_C.id.in_(_IDS))
_UNCHANGED = select(_C.id).where(
    _C.id.in_(_IDS),
    _C.wakes == 0,
    _C.batch_id == bindparam("batch"),
    _C.batch_until.is_not(None),
)
_LEASE = (
    update(_DELIVERIES).where(_C.id.in_(_IDS)).values(leased_until=bindparam("until", type_=_TIME))
)
_NOTHING_BEGAN = _C.wakes == 0
_LEASE_ALONE = _LEASE.values(
    # a batch that was lost: its word is not awaited any more (`has_workflow`)
    batch_id=case((_NOTHING_BEGAN, None), else_=_C.batch_id),
    batch_until=case((_NOTHING_BEGAN, None), else_=_C.batch_until),
)
_GIVE_TO_BATCH = _LEASE.values(
    batch_id=bindparam("batch"), batch_until=bindparam("until", type_=_TIME)
)
_OURS = (
    _C.id.in_(_IDS),
    _C.started_at.is_(None),
    # put back since, or leased by another: then there is more to be told
    _C.leased_until == bindparam("until", type_=_TIME),
)
# A common table expression, which PostgreSQL evaluates once when it locks rows.
_UNMARKED = select(_C.id).where(*_OURS).with_for_update(skip_locked=True).cte("unmarked")
_MARK = (
    update(_DELIVERIES)
    .where(_C.id.in_(select(_UNMARKED.c.id)))
    .values(started_at=bindparam("now", type_=_TIME), leased_until=None)
)
_RELEASE = update(_DELIVERIES).where(_C.id.in_(select(_UNMARKED.c.id))).values(leased_until=None)


async def lease(
    connection: AsyncConnection,
    delivery_ids: Sequence[str],
    *,
    until: datetime,
    batch_id: str | None = None,
) -> None:
    """Lease rows that `FairClaim` found free in this transaction. With `batch_id`, that batch alone
    makes their first attempts until then; without it, each has a workflow of its own."""
    if not delivery_ids:
        return
    given: dict[str, object] = {"ids": list(delivery_ids), "until": until}
    if batch_id is None:
        await connection.execute(_LEASE_ALONE, given)
    else:
        await connection.execute(_GIVE_TO_BATCH, given | {"batch": batch_id})


async def find_pending(connection: AsyncConnection, delivery_id: str) -> PendingDelivery | None:
    """One delivery in the form the relay uses, whether it waits in the outbox or not."""
    found = await connection.execute(select(*PENDING).where(_C.id == delivery_id))
    row = found.first()
    return None if row is None else pending(row)


async def find_all_pending(
    connection: AsyncConnection, delivery_ids: Sequence[str]
) -> list[PendingDelivery]:
    """The same of several; those without a row are left out."""
    if not delivery_ids:
        return []
    found = await connection.execute(_FIND_ALL, {"ids": list(delivery_ids)})
    return [pending(row) for row in found]


async def unchanged(
    connection: AsyncConnection, delivery_ids: Sequence[str], *, batch_id: str
) -> set[str]:
    """Return the ids of the deliveries that nobody has changed since this batch took them. A change
    from outside always adds to `wakes`, and only the batch itself attempts them meanwhile."""
    found = await connection.execute(_UNCHANGED, {"ids": list(delivery_ids), "batch": batch_id})
    return set(found.scalars())


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


async def leave_batch(
    connection: AsyncConnection,
    delivery_ids: Sequence[str],
    *,
    batch_id: str,
    under_way_until: datetime | None = None,
) -> None:
    """These deliveries leave their batch and get workflows of their own. `under_way_until`: their
    requests go on, and nobody makes another before then. Those that the batch has not in hand any
    more stay as they are."""
    held = _held(delivery_ids, batch_id)
    await connection.execute(
        update(_DELIVERIES)
        .where(_C.id.in_(held))
        .values(**_WOKEN, urgency=Urgency.RETRY, batch_until=under_way_until)
    )


async def return_from_batch(
    connection: AsyncConnection, delivery_ids: Sequence[str], *, batch_id: str
) -> None:
    """The batch did not begin with these: they wait again as if it had not taken them."""
    held = _held(delivery_ids, batch_id)
    await connection.execute(
        update(_DELIVERIES)
        .where(_C.id.in_(held))
        .values(leased_until=None, batch_until=None, batch_id=None)
    )


def _held(delivery_ids: Sequence[str], batch_id: str) -> Select[tuple[str]]:
    """Those of them that the batch has in hand, locked in the order in which others lock them."""
    held = (
        select(_C.id)
        .where(_C.id.in_(sorted(delivery_ids)), _C.batch_id == batch_id)
        .where(_C.batch_until.is_not(None))
        .order_by(_C.id)
        .with_for_update()
        .cte("held")
    )
    return select(held.c.id)


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
                **_WOKEN,
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


_WOKEN = {"started_at": None, "leased_until": None, "wakes": _C.wakes + 1}


def pending(row: Sequence[Any]) -> PendingDelivery:
    """The delivery in a row of `PENDING`."""
    own = dict(zip(_NAMES, row, strict=False))  # the life follows
    return PendingDelivery(**own, life=life_of(row))
