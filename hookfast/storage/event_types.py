"""Statements on `event_types`."""

from __future__ import annotations

from sqlalchemy import Table, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.keyset import by_name
from hookfast.storage.tables import EventType

_TYPES: Table = EventType.__table__


async def put(connection: AsyncConnection, event_type: EventType) -> bool:
    """Register an event type or replace it, keeping when it was created; whether it is new."""
    values = event_type.model_dump()
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    added = await connection.execute(
        dialect.insert(_TYPES).values(values).on_conflict_do_nothing(index_elements=["name"])
    )
    if added.rowcount == 1:
        return True
    del values["created_at"]
    await connection.execute(update(_TYPES).where(_TYPES.c.name == event_type.name).values(values))
    return False


async def get(connection: AsyncConnection, name: str) -> EventType | None:
    """The event type with this name."""
    result = await connection.execute(select(_TYPES).where(_TYPES.c.name == name))
    row = result.mappings().one_or_none()
    return None if row is None else EventType(**row)


async def list_page(
    connection: AsyncConnection, *, after: str | None, limit: int
) -> list[EventType]:
    """Event types by name."""
    statement = by_name(select(_TYPES), _TYPES.c.name, after=after, limit=limit)
    result = await connection.execute(statement)
    return [EventType(**row) for row in result.mappings()]


async def remove(connection: AsyncConnection, name: str) -> bool:
    """Remove an event type; whether it was there. Its events stay."""
    result = await connection.execute(delete(_TYPES).where(_TYPES.c.name == name))
    return result.rowcount == 1
