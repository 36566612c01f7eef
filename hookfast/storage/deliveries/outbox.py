"""The outbox: deliveries whose workflow still has to be started or woken (`started_at` is NULL).

A relay leases rows before it starts their workflows, so that other relays leave them alone. When a
lease runs out (the relay was killed), the row is free again. A relay that takes a row too early, as
after a jump of the database server's clock, costs a second start, which Temporal rejects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    bindparam,
    case,
    func,
    literal,
    null,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.life import Life
from hookfast.deliveries.messages import Urgency
from hookfast.storage.circuits.circuits import GATE, EndpointGate, endpoint_gate
from hookfast.storage.database.prepared import AnyOf, Prepared
from hookfast.storage.deliveries.life_rows import COLUMNS, life_of
from hookfast.storage.tables import Delivery, Endpoint, EndpointHealth

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c
_ENDPOINTS: Table = Endpoint.__table__
_HEALTH: Table = EndpointHealth.__table__


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDelivery:
    """An outbox row, with what the relay needs to start or wake its workflow. `batch_id` is the
    batch that took its first attempt; `last_duration_ms` is how long its last attempt took; `gate`
    is its endpoint's, as of the same statement."""

    delivery_id: str
    event_id: str
    subscription_id: str
    endpoint_id: str
    tenant_id: str
    event_type: str
    payload: str
    created_at: datetime
    deliver_at: datetime | None
    wake_count: int
    urgency: int
    batch_id: str | None
    last_duration_ms: float | None
    life: Life
    gate: EndpointGate

    @property
    def new(self) -> bool:
        """Whether the delivery is in the outbox for the first time."""
        return self.wake_count == 0

    @property
    def emitted_at(self) -> datetime:
        """When it was committed, or the time that it is scheduled for."""
        return self.deliver_at or self.created_at

    @property
    def due_from(self) -> datetime:
        """When its first attempt could begin: at its creation, unless it was scheduled for later or
        had to wait in its lane."""
        if self.life.place is not None and not self.life.attempts and self.life.due_at is not None:
            return self.life.due_at
        return self.emitted_at

    @property
    def has_workflow(self) -> bool:
        """Whether the delivery's workflow was requested before, so that it is woken, not started.
        The first time that a batch puts a row back is the request for its workflow."""
        return self.wake_count > (0 if self.batch_id is None else 1)


@dataclass(frozen=True, slots=True)
class BatchLease:
    """A batch's lease of deliveries: only this batch may make their first attempts until then."""

    batch_id: str
    until: datetime


_NAMES = tuple(
    field.name for field in fields(PendingDelivery) if field.name not in ("life", "gate")
)
PENDING = (*GATE, _C.id, *(_C[name] for name in _NAMES[1:]), *COLUMNS)
"""The columns that `pending_from_row` reads, in this order."""

_TIME = _C.leased_until.type
_WITH_IDS = AnyOf(_C.id, "ids")
_FIND_ALL = Prepared(
    select(*PENDING)
    .join_from(_DELIVERIES, _ENDPOINTS, _C.endpoint_id == _ENDPOINTS.c.id)
    .outerjoin(_HEALTH, _C.endpoint_id == _HEALTH.c.endpoint_id)
    .where(_WITH_IDS)
)
_LEASE = update(_DELIVERIES).where(_WITH_IDS).values(leased_until=bindparam("until", type_=_TIME))
_NOTHING_BEGAN = _C.wake_count == 0
_LEASE_ALONE = Prepared(
    _LEASE.values(
        # the batch was lost, and will not request a workflow any more (see `has_workflow`)
        batch_id=case((_NOTHING_BEGAN, null()), else_=_C.batch_id),
        batch_until=case((_NOTHING_BEGAN, null()), else_=_C.batch_until),
    )
)
_GIVE_TO_BATCH = Prepared(
    _LEASE.values(batch_id=bindparam("batch"), batch_until=bindparam("until", type_=_TIME))
)


def _unmarked(condition: ColumnElement[bool]) -> Select[tuple[str]]:
    """Select the rows with these ids that are in the outbox and fulfil the condition, locked. It is
    a common table expression, which PostgreSQL evaluates once when it locks rows."""
    rows = select(_C.id).where(_WITH_IDS, _C.started_at.is_(None), condition)
    found = rows.with_for_update(skip_locked=True).cte("unmarked")
    return select(found.c.id)


# A row that was put back since then has to be relayed again. The lease does not matter: it may have
# ended while Temporal was slow, and then a row that is only marked within it never leaves.
_MARK = Prepared(
    update(_DELIVERIES)
    .where(_C.id.in_(_unmarked(_C.wake_count == bindparam("started_count"))))
    .values(started_at=bindparam("now", type_=_TIME), leased_until=null())
)
_RELEASE = Prepared(
    update(_DELIVERIES)
    .where(_C.id.in_(_unmarked(_C.leased_until == bindparam("until", type_=_TIME))))
    .values(leased_until=null())
)


async def lease(
    connection: AsyncConnection,
    delivery_ids: Sequence[str],
    *,
    until: datetime,
    batch_id: str | None = None,
) -> None:
    """Lease rows that `FairClaim` found free in this transaction. With `batch_id`, only that batch
    may make their first attempts until then. Without it, each row gets a workflow of its own."""
    if not delivery_ids:
        return
    given: dict[str, object] = {"ids": delivery_ids, "until": until, "batch": batch_id}
    await (_LEASE_ALONE if batch_id is None else _GIVE_TO_BATCH).rows(connection, given)


async def find_many_pending(
    connection: AsyncConnection, delivery_ids: Sequence[str]
) -> list[PendingDelivery]:
    """Return deliveries in the form that the relay uses, whether they are in the outbox or not.
    Those without a row are left out."""
    if not delivery_ids:
        return []
    rows = await _FIND_ALL.rows(connection, {"ids": delivery_ids})
    return [pending_from_row(row) for row in rows]


async def mark_started(
    connection: AsyncConnection,
    delivery_ids: Sequence[str],
    *,
    wake_count: int,
    now: datetime,
) -> None:
    """Mark deliveries as started or woken whose rows had this wake count before that. Rows
    locked by another transaction are skipped: it records their first attempt, which marks them
    too."""
    if delivery_ids:
        given = {"ids": delivery_ids, "started_count": wake_count, "now": now}
        await _MARK.rows(connection, given)


async def release(
    connection: AsyncConnection, delivery_ids: Sequence[str], *, leased_until: datetime
) -> None:
    """End the leases of deliveries that were leased together and could not be started now."""
    if delivery_ids:
        await _RELEASE.rows(connection, {"ids": delivery_ids, "until": leased_until})


async def leave_batch(
    connection: AsyncConnection, delivery_ids: Sequence[str], *, batch_id: str
) -> None:
    """Take deliveries out of their batch, and request workflows of their own. Deliveries that no
    longer belong to the batch stay unchanged."""
    await connection.execute(
        update(_DELIVERIES)
        .where(_C.id.in_(_in_batch(delivery_ids, batch_id)))
        .values(**_WOKEN, urgency=Urgency.RETRY, batch_until=None)
    )


async def return_from_batch(
    connection: AsyncConnection, delivery_ids: Sequence[str], *, batch_id: str
) -> None:
    """Put deliveries that their batch has not begun back into the outbox, as if never taken. A
    delivery that was changed meanwhile has a workflow, which waits for the end of the batch's
    lease: it is woken."""
    wake_count = case((_NOTHING_BEGAN, 0), else_=_C.wake_count + 1)
    await connection.execute(
        update(_DELIVERIES)
        .where(_C.id.in_(_in_batch(delivery_ids, batch_id)))
        .values(**_WOKEN | {"wake_count": wake_count}, batch_until=None, batch_id=None)
    )


def _in_batch(delivery_ids: Sequence[str], batch_id: str) -> Select[tuple[str]]:
    """Select those that belong to the batch, locked in the order in which others lock them."""
    held = (
        select(_C.id)
        .where(_C.id.in_(sorted(delivery_ids)), _C.batch_id == batch_id)
        .where(_C.batch_until.is_not(None), _C.attempts == 0)
        .order_by(_C.id)
        .with_for_update()
        .cte("held")
    )
    return select(held.c.id)


async def wake(connection: AsyncConnection, delivery_ids: Sequence[str]) -> None:
    """Request that the deliveries' workflows read their rows again, although these did not change:
    their endpoint's circuit changed, or their workflows are overdue."""
    if delivery_ids:
        await connection.execute(
            update(_DELIVERIES)
            .where(_C.id.in_(delivery_ids))
            .values(
                **_WOKEN,
                # a person's action stays urgent until the relay has woken the workflow
                urgency=case(
                    (and_(_C.started_at.is_(None), _C.urgency < Urgency.RETRY), _C.urgency),
                    else_=Urgency.RETRY,
                ),
            )
        )


async def wake_lost(connection: AsyncConnection, *, overdue_since: datetime, limit: int) -> int:
    """Put deliveries that should have been attempted before `overdue_since` back into the outbox,
    and return how many. Their workflows are late, or lost with Temporal's own data (restored from
    a backup, for example). Waking a workflow that still runs changes nothing."""
    late = await connection.execute(
        select(_C.id)
        .where(
            and_(_C.next_attempt_at.is_not(None), _C.next_attempt_at < overdue_since),
            # a workflow that was started or woken recently is not lost
            _C.started_at < overdue_since,
            _C.updated_at < overdue_since,
        )
        .limit(limit)
        # PostgreSQL only: a locked row is not lost, so do not wait for it. The recorder locks many
        # rows, in the order of their ids.
        .with_for_update(skip_locked=True)
    )
    ids = list(late.scalars())
    await wake(connection, ids)
    return len(ids)


async def backlog_reaches(connection: AsyncConnection, limit: int) -> bool:
    """Return whether at least `limit` deliveries wait to be started or woken."""
    found: int = (await connection.execute(backlog_statement(limit))).scalar_one()
    return found >= limit


def backlog_statement(limit: int) -> Select[int]:
    """Return the statement that counts waiting deliveries in the outbox's index, up to `limit`."""
    counted = select(literal(1)).where(_C.started_at.is_(None)).limit(limit).subquery()
    return select(func.count()).select_from(counted)


_WOKEN = {"started_at": None, "leased_until": None, "wake_count": _C.wake_count + 1}


def pending_from_row(row: Sequence[Any]) -> PendingDelivery:
    """Return the delivery in a row of `PENDING`."""
    columns = dict(zip(_NAMES, row[len(GATE) :], strict=False))  # the life follows
    return PendingDelivery(**columns, life=life_of(row), gate=endpoint_gate(*row[: len(GATE)]))
