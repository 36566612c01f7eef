"""The newest events that match patterns, with their bodies: what a filter can be tried on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.event_type import matching_patterns
from hookfast.storage.events.events import EventFilter, page_statement
from hookfast.storage.tables import Event

_EVENTS: Table = Event.__table__

MAX_EVENTS: Final = 20
SCANNED: Final = 500
"""The events among which those that match are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentEvent:
    """An event with its exact body."""

    id: str
    type: str
    created_at: datetime
    body: bytes = field(repr=False)


async def read(
    connection: AsyncConnection, *, tenant_id: str, patterns: Iterable[str]
) -> list[RecentEvent]:
    """Return the newest MAX_EVENTS events that this tenant sees and that match a pattern, newest
    first. Only its newest events are scanned, so there may be older ones."""
    chosen = EventFilter(tenant_id=tenant_id, broadcasts=True)
    newest = await connection.execute(page_statement(chosen, after=None, limit=SCANNED))
    wanted = frozenset(patterns)
    rows = [row for row in newest if not wanted.isdisjoint(matching_patterns(row.type))]
    rows = rows[:MAX_EVENTS]
    c = _EVENTS.c
    found = await connection.execute(
        select(c.id, c.body).where(c.id.in_(sorted(row.id for row in rows)))
    )
    bodies = {row.id: row.body for row in found}
    return [
        RecentEvent(id=row.id, type=row.type, created_at=row.created_at, body=bodies[row.id])
        for row in rows
        if row.id in bodies  # retention may delete an event at this moment
    ]
