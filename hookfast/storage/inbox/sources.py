"""Statements on `sources`. A deleted source keeps its row, because the inbox refers to it, and is
otherwise treated as unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Table, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.keyset import newest_first
from hookfast.storage.database.rows import fetch_all, fetch_one
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.inbox import source_stats
from hookfast.storage.tables import EventType, Source, SourceEventType

_SOURCES: Table = Source.__table__
_C = _SOURCES.c
_LIVE = _C.deleted_at.is_(None)
_OWN_TYPES: Table = SourceEventType.__table__
_TYPES: Table = EventType.__table__

MAX_EVENT_TYPES = 1_000
"""The most event types that requests to one source may register."""


async def add(connection: AsyncConnection, source: Source) -> None:
    """Add a source."""
    await connection.execute(insert(_SOURCES).values(source.model_dump()))
    await source_stats.add(connection, source.id)


async def get(
    connection: AsyncConnection, source_id: str, *, lock: bool = False, deleted: bool = False
) -> Source | None:
    """Return a source by its id; with `deleted`, even a deleted one. `lock` keeps it from being
    changed until the transaction ends (SQLite's write transactions do anyway)."""
    statement = select(_SOURCES).where(_C.id == source_id)
    if not deleted:
        statement = statement.where(_LIVE)
    return await fetch_one(connection, statement.with_for_update() if lock else statement, Source)


async def list_page(
    connection: AsyncConnection,
    *,
    tenant_id: str | None,
    provider: str | None,
    after: str | None,
    limit: int,
) -> list[Source]:
    """List sources, newest first: of one tenant (None: of all), of one provider (None: of any)."""
    statement = select(_SOURCES).where(_LIVE)
    if tenant_id is not None:
        statement = statement.where(_C.tenant_id == tenant_id)
    if provider is not None:
        statement = statement.where(_C.provider == provider)
    page = newest_first(statement, _C.id, after=after, limit=limit)
    return await fetch_all(connection, page, Source)


async def change(connection: AsyncConnection, source_id: str, values: dict[str, Any]) -> None:
    """Set columns of a source that the transaction has locked."""
    await connection.execute(update(_SOURCES).where(_C.id == source_id, _LIVE).values(values))


async def mark_deleted(connection: AsyncConnection, source_id: str, *, at: datetime) -> None:
    """Mark a source as deleted, and delete its secrets."""
    await change(connection, source_id, {"deleted_at": at, "updated_at": at, "secrets": []})


async def mark_deleted_of_tenant(
    connection: AsyncConnection, tenant_id: str, *, at: datetime
) -> None:
    """Mark all sources of a tenant as deleted, and delete their secrets."""
    await connection.execute(
        update(_SOURCES)
        .where(_C.tenant_id == tenant_id, _LIVE)
        .values(deleted_at=at, updated_at=at, secrets=[])
    )


async def at_event_type_limit(connection: AsyncConnection, source_ids: Collection[str]) -> set[str]:
    """Return those of these sources that have registered MAX_EVENT_TYPES event types."""
    c = _OWN_TYPES.c
    rows = await connection.execute(
        select(c.source_id)
        .where(c.source_id.in_(source_ids))
        .group_by(c.source_id)
        .having(func.count() >= MAX_EVENT_TYPES)
    )
    return set(rows.scalars())


async def register_types(
    connection: AsyncConnection, new: Iterable[tuple[str, str, str]], *, at: datetime
) -> None:
    """Register the event types of received requests, as tuples of source id, provider and name.
    Event types that exist are not changed."""
    # in the order of their names: two transactions that share some wait for each other in one order
    by_name = sorted({name: (source, provider) for source, provider, name in new}.items())
    if not by_name:
        return
    await connection.execute(
        insert_into(connection, _TYPES).on_conflict_do_nothing(index_elements=["name"]),
        [
            EventType(
                name=name, description=f"From {provider}.", created_at=at, updated_at=at
            ).model_dump()
            for name, (_, provider) in by_name
        ],
    )
    own = insert_into(connection, _OWN_TYPES)
    await connection.execute(
        own.on_conflict_do_nothing(index_elements=["source_id", "name"]),
        [{"source_id": source, "name": name} for name, (source, _) in by_name],
    )
