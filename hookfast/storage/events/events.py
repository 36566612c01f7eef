"""Statements that read `events`. Lists do not read the bodies, which can be large."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, select, union_all, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.keyset import created_between, newest_first
from hookfast.storage.database.planner_hints import Residual
from hookfast.storage.database.rows import fetch_one
from hookfast.storage.tables import Event

_EVENTS: Table = Event.__table__
_C = _EVENTS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """A filter of events; all given conditions must hold. `since` is inclusive, `until` exclusive.
    `broadcasts` also includes the events without a tenant."""

    type: str | None = None
    tenant_id: str | None = None
    broadcasts: bool = False
    since: datetime | None = None
    until: datetime | None = None

    def fits(self, event: EventSummary) -> bool:
        """Return whether the filter includes this event."""
        own = self.tenant_id is None or event.tenant_id == self.tenant_id
        return (
            (own or (self.broadcasts and event.tenant_id is None))
            and self.type in (None, event.type)
            and (self.since is None or event.created_at >= self.since)
            and (self.until is None or event.created_at < self.until)
        )


@dataclass(frozen=True, slots=True)
class EventSummary:
    """An event without its body. `raw_only`: its data violate the schema of its type, so that only
    subscriptions with payload `raw` get it."""

    id: str
    type: str
    tenant_id: str | None
    created_at: datetime
    deliver_at: datetime | None
    deliveries: int
    inbox_id: str | None
    ordering_key: str | None
    raw_only: bool


_SUMMARY = [_C[field.name] for field in fields(EventSummary)]


async def get(connection: AsyncConnection, event_id: str) -> Event | None:
    """Return the event with this id, including its body."""
    return await fetch_one(connection, select(_EVENTS).where(_C.id == event_id), Event)


async def get_summary(connection: AsyncConnection, event_id: str) -> EventSummary | None:
    """Return the event with this id, without its body."""
    rows = await connection.execute(select(*_SUMMARY).where(_C.id == event_id))
    row = rows.first()
    return None if row is None else EventSummary(*row)


async def clear_raw_only(connection: AsyncConnection, event_id: str) -> EventSummary | None:
    """Allow all subscriptions to get an event, whose data match its schema now. Return it, or None
    if it is not kept."""
    await connection.execute(update(_EVENTS).where(_C.id == event_id).values(raw_only=False))
    return await get_summary(connection, event_id)


async def list_page(
    connection: AsyncConnection, chosen: EventFilter, *, after: str | None, limit: int
) -> list[EventSummary]:
    """Return the newest `limit` events that match, beyond the id `after`."""
    rows = await connection.execute(page_statement(chosen, after=after, limit=limit))
    return [EventSummary(*row) for row in rows]


def page_statement(chosen: EventFilter, *, after: str | None, limit: int) -> Select[Any]:
    """Return the statement that `list_page` executes."""
    tenant, event_type = chosen.tenant_id, chosen.type
    if tenant is None:
        by_type = () if event_type is None else (_C.type == event_type,)
        return _range(chosen, *by_type, after=after, limit=limit)
    # The tenant's index is used: with many tenants it is the narrower of the two.
    by_type = () if event_type is None else (Residual(_C.type) == event_type,)
    own = _range(chosen, _C.tenant_id == tenant, *by_type, after=after, limit=limit)
    if not chosen.broadcasts:
        return own
    # A page of each, and the newest of both: an OR would read both to the end and sort them.
    broadcasts = _range(chosen, _C.tenant_id.is_(None), *by_type, after=after, limit=limit)
    both = union_all(select(own.subquery()), select(broadcasts.subquery())).subquery()
    return newest_first(select(both), both.c.id, after=None, limit=limit)


def _range(
    chosen: EventFilter, *conditions: ColumnElement[bool], after: str | None, limit: int
) -> Select[Any]:
    times = created_between(_C.id, "evt", chosen.since, chosen.until)
    statement = select(*_SUMMARY).where(*conditions, *times)
    return newest_first(statement, _C.id, after=after, limit=limit)
