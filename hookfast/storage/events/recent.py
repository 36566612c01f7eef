"""The newest events that match patterns, with their bodies: what a filter can be tried on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Table, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.event_type import matching_patterns
from hookfast.storage.events.events import EventFilter, page_statement
from hookfast.storage.tables import Event

_EVENTS: Table = Event.__table__

MAX_EVENTS: Final = 20
MAX_BYTES: Final = 1024 * 1024
"""Of bodies that are read; at least one body."""
SCANNED: Final = 500
"""The events among which those that match are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentEvent:
    """An event, whose body has `size` bytes."""

    id: str
    type: str
    created_at: datetime
    size: int


async def find(
    connection: AsyncConnection, *, tenant_id: str, patterns: Iterable[str]
) -> list[RecentEvent]:
    """Return the newest MAX_EVENTS events that this tenant sees and that match a pattern, newest
    first; fewer if their bodies have more than MAX_BYTES together. Only its newest events are
    scanned, so there may be older ones."""
    chosen = EventFilter(tenant_id=tenant_id, broadcasts=True)
    newest = await connection.execute(page_statement(chosen, after=None, limit=SCANNED))
    wanted = frozenset(patterns)
    rows = [row for row in newest if not wanted.isdisjoint(matching_patterns(row.type))]
    rows = rows[:MAX_EVENTS]
    c = _EVENTS.c
    length = func.length(c.body).label("size")
    measured = await connection.execute(
        select(c.id, length).where(c.id.in_(sorted(row.id for row in rows)))
    )
    sizes = {row.id: row.size for row in measured}
    found: list[RecentEvent] = []
    total = 0
    for row in rows:
        if row.id not in sizes:  # retention deleted it at this moment
            continue
        total += sizes[row.id]
        if found and total > MAX_BYTES:
            break
        found.append(
            RecentEvent(id=row.id, type=row.type, created_at=row.created_at, size=sizes[row.id])
        )
    return found


async def load(
    connection: AsyncConnection, events: Sequence[RecentEvent]
) -> list[tuple[RecentEvent, bytes]]:
    """Return these events with their exact bodies, without those deleted since."""
    c = _EVENTS.c
    rows = await connection.execute(
        select(c.id, c.body).where(c.id.in_(sorted(event.id for event in events)))
    )
    bodies = {row.id: row.body for row in rows}
    return [(event, bodies[event.id]) for event in events if event.id in bodies]
