"""Reading `attempts`: what was tried for a delivery."""

from __future__ import annotations

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.tables import Attempt

_ATTEMPTS: Table = Attempt.__table__

MAX_SHOWN = 200
"""How many attempts of one delivery are read at most. No retry plan has more than 101; resends by
hand can add to them without end."""


async def list_newest(
    connection: AsyncConnection, delivery_id: str, *, limit: int = MAX_SHOWN
) -> list[Attempt]:
    """The newest `limit` attempts of a delivery, oldest first."""
    c = _ATTEMPTS.c
    rows = await connection.execute(
        select(_ATTEMPTS).where(c.delivery_id == delivery_id).order_by(c.number.desc()).limit(limit)
    )
    return [Attempt(**row) for row in rows.mappings()][::-1]
