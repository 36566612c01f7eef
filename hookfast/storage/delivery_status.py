"""Statuses that no attempt writes: paused, resumed, cancelled, or dead without a request."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Table, func, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.delivery import StatusNote
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__


async def note_status(
    connection: AsyncConnection, note: StatusNote, *, now: datetime, reason: str | None = None
) -> None:
    """Write `note`. Only a delivery's own workflow does, so there is nobody to race with."""
    c = _DELIVERIES.c
    await connection.execute(
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
