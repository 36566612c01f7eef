"""Reading `attempts`: what was tried for a delivery."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from sqlalchemy import ColumnElement, Table, and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import first_id_at, time_of
from hookfast.storage.database.planner_hints import Residual
from hookfast.storage.tables import Attempt

_ATTEMPTS: Table = Attempt.__table__

MAX_SHOWN = 200
"""How many attempts of one delivery are read at most. No retry plan has more than 101; resends by
hand can add to them without end."""


_CLOCKS_APART: Final = timedelta(days=1)


def of(delivery_ids: Sequence[str]) -> ColumnElement[bool]:
    """That an attempt is one of these deliveries'. None is older than its delivery, up to the
    difference of two hosts' clocks: PostgreSQL so leaves out the partitions of the days before."""
    c = _ATTEMPTS.c
    found = c.delivery_id.in_(delivery_ids)
    times = [time_of(one) for one in delivery_ids]
    made = [at for at in times if at is not None]
    if not made or len(made) < len(times):
        return found
    return and_(found, Residual(c.id) >= first_id_at("att", min(made) - _CLOCKS_APART))


async def list_newest(
    connection: AsyncConnection, delivery_id: str, *, limit: int = MAX_SHOWN
) -> list[Attempt]:
    """The newest `limit` attempts of a delivery, oldest first."""
    c = _ATTEMPTS.c
    rows = await connection.execute(
        select(_ATTEMPTS).where(of([delivery_id])).order_by(c.number.desc()).limit(limit)
    )
    return [Attempt(**row) for row in rows.mappings()][::-1]
