"""Statements on `event_types`."""

from __future__ import annotations

from sqlalchemy import Table, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.keyset import by_name
from hookfast.storage.database.rows import fetch_all, fetch_one
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import EventType

_TYPES: Table = EventType.__table__


async def put(connection: AsyncConnection, event_type: EventType) -> EventType | None:
    """Register an event type, or replace it but keep its creation time. Returns the replaced event
    type, or None if it is new."""
    values = event_type.model_dump()
    adding = insert_into(connection, _TYPES).values(values)
    adding = adding.on_conflict_do_nothing(index_elements=["name"])
    replaced: EventType | None = None
    while replaced is None:  # repeats if another request deletes it in between
        if (await connection.execute(adding)).rowcount == 1:
            return None
        replaced = await get(connection, event_type.name, lock=True)
    del values["created_at"]
    await connection.execute(update(_TYPES).where(_TYPES.c.name == event_type.name).values(values))
    return replaced


async def get(connection: AsyncConnection, name: str, *, lock: bool = False) -> EventType | None:
    """Return the event type with this name. `lock` prevents changes and deletion until the
    transaction ends (SQLite's write transactions do anyway)."""
    statement = select(_TYPES).where(_TYPES.c.name == name)
    return await fetch_one(
        connection, statement.with_for_update() if lock else statement, EventType
    )


async def list_page(
    connection: AsyncConnection, *, after: str | None, limit: int
) -> list[EventType]:
    """Return the first `limit` event types after the name `after`, in order of their names."""
    statement = by_name(select(_TYPES), _TYPES.c.name, after=after, limit=limit)
    return await fetch_all(connection, statement, EventType)


async def list_names(connection: AsyncConnection, *, after: str | None, limit: int) -> list[str]:
    """Return the first `limit` names after `after`, in order."""
    names = by_name(select(_TYPES.c.name), _TYPES.c.name, after=after, limit=limit)
    return list((await connection.execute(names)).scalars())


async def remove(connection: AsyncConnection, name: str) -> bool:
    """Delete an event type but not its events. Returns whether it existed."""
    result = await connection.execute(delete(_TYPES).where(_TYPES.c.name == name))
    return result.rowcount == 1
