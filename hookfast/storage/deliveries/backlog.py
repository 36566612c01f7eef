"""Whether more deliveries wait in the outbox than may."""

from __future__ import annotations

from sqlalchemy import Select, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.tables import Delivery

_D = Delivery.__table__.c


async def reaches(connection: AsyncConnection, limit: int) -> bool:
    """Whether so many deliveries wait to be taken up by a worker."""
    found: int = (await connection.execute(waiting(limit))).scalar_one()
    return found >= limit


def waiting(limit: int) -> Select[int]:
    """The statement that counts them in the outbox's index, up to `limit`."""
    counted = select(literal(1)).where(_D.started_at.is_(None)).limit(limit).subquery()
    return select(func.count()).select_from(counted)
