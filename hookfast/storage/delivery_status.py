"""Statuses that no attempt writes: paused, resumed, cancelled, limited, dead without a request."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Table, Update, and_, case, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.delivery import StatusNote, Unheard
from hookfast.outcome import DeliveryStatus
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_FINISHED = [status.value for status in DeliveryStatus if status.finished]


async def note_status(
    connection: AsyncConnection, note: StatusNote, *, now: datetime
) -> Unheard | None:
    """Write `note`, unless the delivery has ended without its workflow's hearing of it. Only a
    delivery's own workflow does, so there is nobody to race with."""
    noting = _noting(note, reason=None, now=now)
    if note.attempts is None:
        await connection.execute(noting)
        return None
    c = _DELIVERIES.c
    ended = and_(c.attempts > note.attempts, c.status.in_(_FINISHED))
    if (await connection.execute(noting.where(~ended))).rowcount:
        return None
    found = await connection.execute(
        select(c.status, c.attempts).where(c.id == note.delivery_id, ended)
    )
    row = found.first()
    return None if row is None else Unheard(DeliveryStatus(row.status), row.attempts)


async def note_refused(
    connection: AsyncConnection, delivery_id: str, *, reason: str, now: datetime
) -> bool:
    """A delivery was to be sent and its endpoint takes nothing any more: it is a dead letter. False
    for one that was delivered and sent again: that it arrived stays true."""
    note = StatusNote(delivery_id, DeliveryStatus.DEAD)
    arrived = _DELIVERIES.c.status == DeliveryStatus.DELIVERED.value
    changed = await connection.execute(_noting(note, reason=reason, now=now).where(~arrived))
    return changed.rowcount == 1


def _noting(note: StatusNote, *, reason: str | None, now: datetime) -> Update:
    c = _DELIVERIES.c
    return (
        update(_DELIVERIES)
        .where(c.id == note.delivery_id)
        .values(
            status=note.status.value,
            reason=reason,
            next_attempt_at=note.next_attempt_at,
            updated_at=now,
            finished_at=now if note.status.finished else None,
            started_at=func.coalesce(c.started_at, now),
            leased_until=None,
        )
    )


async def note_limited(
    connection: AsyncConnection, delivery_id: str, *, until: datetime, now: datetime
) -> bool:
    """A delivery waits for its turn: its endpoint's limits put it off `until` then. One that is
    paused stays so, whatever was tried meanwhile. Whether it was on hold before."""
    c = _DELIVERIES.c
    noting = (
        update(_DELIVERIES)
        .where(c.id == delivery_id)
        .values(
            status=case(
                (c.attempts > 0, DeliveryStatus.RETRYING.value), else_=DeliveryStatus.PENDING.value
            ),
            reason="endpoint_limit",
            next_attempt_at=until,
            updated_at=now,
            finished_at=None,
            started_at=func.coalesce(c.started_at, now),
            leased_until=None,
        )
    )
    was_held = await connection.execute(noting.where(c.status == DeliveryStatus.HELD.value))
    if was_held.rowcount:
        return True
    await connection.execute(noting.where(c.status != DeliveryStatus.PAUSED.value))
    return False
