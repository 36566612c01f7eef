"""Statements that read `attempts`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from sqlalchemy import ColumnElement, Table, and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import first_id_at, time_of
from hookfast.storage.database.planner_hints import Residual
from hookfast.storage.database.rows import fetch_all
from hookfast.storage.tables import Attempt

_ATTEMPTS: Table = Attempt.__table__

MAX_SHOWN = 200
"""Most attempts of one delivery that are read. No retry plan has more than 101, but resends can add
any number."""

_CLOCK_DIFFERENCE: Final = timedelta(days=1)


def where_delivery_in(delivery_ids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that an attempt belongs to one of these deliveries. No attempt is older
    than its delivery, up to the difference of two hosts' clocks, so the condition also lets
    PostgreSQL skip the partitions of earlier days."""
    c = _ATTEMPTS.c
    found = c.delivery_id.in_(delivery_ids)
    times = [time_of(one) for one in delivery_ids]
    created = [at for at in times if at is not None]
    if not created or len(created) < len(times):
        return found
    return and_(found, Residual(c.id) >= first_id_at("att", min(created) - _CLOCK_DIFFERENCE))


async def list_newest(
    connection: AsyncConnection, delivery_id: str, *, limit: int = MAX_SHOWN
) -> list[Attempt]:
    """Return the newest `limit` attempts of a delivery, oldest first."""
    c = _ATTEMPTS.c
    newest = select(_ATTEMPTS).where(where_delivery_in([delivery_id])).order_by(c.number.desc())
    return (await fetch_all(connection, newest.limit(limit), Attempt))[::-1]
