"""Statements on `poll_positions`: up to where each polling consumer has acknowledged the feed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Table, and_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.upsert import insert_into
from hookfast.storage.feed.cursor import Cursor
from hookfast.storage.tables import PollPosition

_POSITIONS: Table = PollPosition.__table__
_C = _POSITIONS.c
_MOVES = ("position", "event_id", "seen_at", "acknowledged_at")


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The cursor up to which everything is acknowledged, and when it was acknowledged."""

    cursor: Cursor
    at: datetime


async def get(connection: AsyncConnection, endpoint_id: str) -> Acknowledged | None:
    """Return the position of an endpoint's consumer; None if it never acknowledged any."""
    rows = await connection.execute(
        select(_C.position, _C.seen_at, _C.event_id, _C.acknowledged_at).where(
            _C.endpoint_id == endpoint_id
        )
    )
    row = rows.first()
    if row is None:
        return None
    return Acknowledged(Cursor(row.position, row.seen_at, row.event_id), row.acknowledged_at)


async def put(
    connection: AsyncConnection, endpoint_id: str, cursor: Cursor, *, now: datetime
) -> None:
    """Set the position, also backwards."""
    statement = _insert(connection, endpoint_id, cursor, now=now)
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["endpoint_id"], set_={name: statement.excluded[name] for name in _MOVES}
        )
    )


async def advance(
    connection: AsyncConnection, endpoint_id: str, cursor: Cursor, *, now: datetime
) -> None:
    """Move the position forward to `cursor`, unless it is further already. It is one statement, so
    of two consumers that do this at once the further one wins, in either order."""
    statement = _insert(connection, endpoint_id, cursor, now=now)
    new = statement.excluded
    same_place = and_(_C.position == new.position, _C.event_id.is_not_distinct_from(new.event_id))
    ahead = or_(
        _C.position < new.position,
        # without an id the cursor is after all events at that position
        and_(
            _C.position == new.position,
            _C.event_id.is_not(None),
            or_(new.event_id.is_(None), _C.event_id < new.event_id),
        ),
        # the same place, but seen later: retention has not overtaken it
        and_(same_place, _C.seen_at < new.seen_at),
    )
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["endpoint_id"],
            set_={name: new[name] for name in _MOVES},
            where=ahead,
        )
    )


def _insert(connection: AsyncConnection, endpoint_id: str, cursor: Cursor, *, now: datetime) -> Any:
    return insert_into(connection, _POSITIONS).values(
        endpoint_id=endpoint_id,
        position=cursor.position,
        event_id=cursor.id,
        seen_at=cursor.at,
        acknowledged_at=now,
    )
