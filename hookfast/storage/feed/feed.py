"""The feed: events in the order in which they became visible, readable from any place. No event
ever appears before a cursor that was returned; `feed_position` explains why.

A reader keeps a `Cursor`: it begins at the end (`end_cursor`), at a time (`cursor_since`) or at an
event, and continues with the cursor of each page. `find_gap` tells whether events after the cursor
are missing because of retention or a restore from a backup. Each function executes a few statements
in the caller's (reading) transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from sqlalchemy import (
    ColumnElement,
    Select,
    String,
    Table,
    func,
    literal,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.event_type import matching_patterns
from hookfast.ids import first_id_at
from hookfast.storage.database.feed_position import horizon, newest
from hookfast.storage.database.planner_hints import Residual
from hookfast.storage.feed.cursor import START, Cursor
from hookfast.storage.inbox import inbox_entries
from hookfast.storage.retention import retention_runs
from hookfast.storage.tables import Delivery, Event

_EVENTS: Table = Event.__table__
_DELIVERIES: Table = Delivery.__table__
_C = _EVENTS.c
_HEAD = (
    *(_C.id, _C.position, _C.type, _C.tenant_id, _C.created_at, _C.deliver_at, _C.inbox_id),
    func.length(_C.body).label("size"),
)

MAX_PAGE_BYTES: Final = 1024 * 1024
"""The total size of one page's bodies; a page has at least one event."""
_SCAN_AT_ONCE: Final = 500
_SCAN_MOST: Final = 5_000  # events that one read scans for matching ones
_NEIGHBOURS: Final = 1_000  # events created at about one time, of which the first visible is taken
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFilter:
    """Selects events: those that a tenant may see, broadcasts included (None: all), of a type that
    matches one of the valid `patterns` (none: any type), received through a source (None: any
    event), with a delivery to an endpoint (None: with or without)."""

    tenant_id: str | None = None
    patterns: frozenset[str] = frozenset()
    source_id: str | None = None
    endpoint_id: str | None = None

    def matches(self, event_type: str, tenant_id: str | None) -> bool:
        """Whether an event of this type and tenant may be one of them."""
        if self.tenant_id is not None and tenant_id not in (None, self.tenant_id):
            return False
        return not self.patterns or not self.patterns.isdisjoint(matching_patterns(event_type))

    @property
    def tenant_only(self) -> bool:
        """Whether the filter selects by nothing but the tenant."""
        return not self.patterns and self.source_id is None and self.endpoint_id is None

    def matches_source(self, source_id: str | None) -> bool:
        """Whether events received through this source (None: through none) may be among them."""
        return self.source_id is None or self.source_id == source_id

    def matches_event(self, event: FeedEvent) -> bool:
        """Whether an event is one of them."""
        return self.matches_source(event.source_id) and self.matches(event.type, event.tenant_id)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Selects the events that at least one of several filters may match."""

    filters: tuple[FeedFilter, ...]

    @property
    def tenant_id(self) -> str | None:
        """The tenant of all the filters, if it is the same."""
        tenants = {one.tenant_id for one in self.filters}
        return tenants.pop() if len(tenants) == 1 else None

    @property
    def tenant_only(self) -> bool:
        """Whether one of the filters matches all events."""
        return any(one.tenant_id is None and one.tenant_only for one in self.filters)

    def matches(self, event_type: str, tenant_id: str | None) -> bool:
        """Whether one of the filters may match an event of this type and tenant."""
        return any(one.matches(event_type, tenant_id) for one in self.filters)

    def matches_source(self, source_id: str | None) -> bool:
        """Whether one of the filters may match events received through this source."""
        return any(one.matches_source(source_id) for one in self.filters)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEvent:
    """An event with its exact body. `source_id` and `inbox_id` are where it was received, if it was
    (the source only while the inbox entry is kept); `deliver_at` is the later time at which it is
    to be delivered, if any; `raw_only` as in `EventSummary`."""

    id: str
    position: int
    type: str
    tenant_id: str | None
    created_at: datetime
    deliver_at: datetime | None
    inbox_id: str | None
    source_id: str | None
    traceparent: str
    raw_only: bool
    body: bytes = field(repr=False)

    @property
    def cursor(self) -> Cursor:
        """The place after this event."""
        return Cursor.of_event(self.position, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedPage:
    """Events in order, and the cursor of the next page. `more`: there are more events to read now.
    `held_back`: more events are committed, and can be read once older transactions have ended."""

    events: Sequence[FeedEvent]
    cursor: Cursor
    more: bool
    held_back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A period of which events after a cursor may be missing; `cursor` is where to continue.
    `expired`: they are no longer kept. `restored`: the database is a copy that is older than the
    cursor; some events may come again."""

    since: datetime
    until: datetime
    reason: Literal["expired", "restored"]
    cursor: Cursor


async def read(
    connection: AsyncConnection,
    chosen: FeedFilter | AnyOf,
    *,
    after: Cursor,
    limit: int,
    now: datetime,
) -> FeedPage:
    """Return at most `limit` matching events after `after`. A page may be empty and have `more`,
    when many events were scanned that do not match."""
    edge = await horizon(connection)  # first: the statements after it see all events below it
    return await read_below(connection, edge, chosen, after=after, limit=limit, now=now)


async def read_below(
    connection: AsyncConnection,
    edge: int | None,
    chosen: FeedFilter | AnyOf,
    *,
    after: Cursor,
    limit: int,
    now: datetime,
) -> FeedPage:
    """Return what `read` does. `edge` is the `horizon` from before `chosen` was read: what is
    stored after that selects no event that this page leaves behind."""
    at_once = limit + 1 if chosen.tenant_only else _SCAN_AT_ONCE
    cursor, size, seen = after, 0, 0
    chosen_rows: list[Any] = []
    sources: dict[str, str] = {}
    while True:
        rows = (await connection.execute(page_statement(chosen, cursor, limit=at_once))).all()
        ready = [row for row in rows if edge is None or row.position < edge]
        candidates = [row for row in ready if chosen.matches(row.type, row.tenant_id)]
        inbox_ids = {row.inbox_id for row in candidates if row.inbox_id is not None}
        if inbox_ids:
            sources |= await inbox_entries.source_ids(connection, inbox_ids)
        matching = {
            row.id for row in candidates if chosen.matches_source(sources.get(row.inbox_id or ""))
        }
        if isinstance(chosen, FeedFilter) and chosen.endpoint_id is not None:
            matching = await delivered(connection, matching, endpoint_id=chosen.endpoint_id)
        for row in ready:
            if row.id in matching:
                full = len(chosen_rows) == limit
                if full or (chosen_rows and size + row.size > MAX_PAGE_BYTES):
                    page = await _with_bodies(connection, chosen_rows, sources)
                    return FeedPage(events=page, cursor=cursor, more=True, held_back=False)
                chosen_rows.append(row)
                size += row.size
            cursor = Cursor.of_event(row.position, row.id)
        held_back = len(ready) < len(rows)
        if held_back or len(rows) < at_once:
            break
        seen += len(rows)
        if seen >= _SCAN_MOST:
            page = await _with_bodies(connection, chosen_rows, sources)
            return FeedPage(events=page, cursor=cursor, more=True, held_back=False)
    # All readable events were scanned, and no event will be added up to this position.
    last = cursor.position if edge is None else max(cursor.position, edge - 1)
    return FeedPage(
        events=await _with_bodies(connection, chosen_rows, sources),
        cursor=Cursor(last, max(cursor.at, now)),
        more=False,
        held_back=held_back,
    )


async def end_cursor(connection: AsyncConnection, *, now: datetime) -> Cursor:
    """Return the cursor after all events that can be read now."""
    return await end_below(connection, await horizon(connection), now=now)


async def end_below(connection: AsyncConnection, edge: int | None, *, now: datetime) -> Cursor:
    """Return the cursor after all events below this `horizon`."""
    return Cursor(await newest(connection, _EVENTS) if edge is None else edge - 1, now)


async def cursor_since(connection: AsyncConnection, moment: datetime, *, now: datetime) -> Cursor:
    """Return the cursor before the events created from about this time on, also before those whose
    transactions have not ended. A few older events may come after it, and if transactions took long
    at that time, a newer one may come before it."""
    edge = await horizon(connection)  # first: an event that is not seen below is above it
    created = (
        select(_C.id, _C.position)
        .where(_C.id >= first_id_at("evt", moment))
        .order_by(_C.id)
        .limit(_NEIGHBOURS)
        .subquery()
    )
    first = select(created).order_by(created.c.position, created.c.id).limit(1)
    row = (await connection.execute(first)).first()
    if row is None:
        return await end_below(connection, edge, now=now)
    return Cursor((row.position if edge is None else min(row.position, edge)) - 1, moment)


async def cursor_of_event(connection: AsyncConnection, event_id: str) -> Cursor | None:
    """Return the cursor after an event; None if the event is not kept."""
    rows = await connection.execute(select(_C.position).where(_C.id == event_id))
    position = rows.scalar_one_or_none()
    return None if position is None else Cursor.of_event(position, event_id)


async def find_gap(connection: AsyncConnection, after: Cursor, *, now: datetime) -> Gap | None:
    """Return the gap after this cursor, if events may be missing. Call it once, before the first
    page: after a page's cursor, events can only go missing if the reader stays away for as long as
    events are kept."""
    edge = await horizon(connection)
    last = max(await newest(connection, _EVENTS), _microseconds(now)) if edge is None else edge - 1
    if after.position > last:
        place = await cursor_since(connection, min(after.at, now), now=now)
        return Gap(since=after.at, until=now, reason="restored", cursor=place)
    kept_since = await retention_runs.kept_since(connection, "events")
    if kept_since is None or after.at >= kept_since or after == START:
        return None
    moved = replace(after, at=kept_since)
    return Gap(since=after.at, until=kept_since, reason="expired", cursor=moved)


def page_statement(chosen: FeedFilter | AnyOf, after: Cursor, *, limit: int) -> Select[Any]:
    """Return the statement for the next events after a cursor that the tenant may see, without
    their bodies: a range of one index, or of two."""
    if chosen.tenant_id is None:
        return _range(after, limit=limit)
    # A page of each, and the first rows of both; an OR would read both to their ends and sort.
    own = _range(after, _C.tenant_id == chosen.tenant_id, limit=limit)
    broadcasts = _range(after, _C.tenant_id.is_(None), limit=limit)
    both = union_all(select(own.subquery()), select(broadcasts.subquery())).subquery()
    return select(both).order_by(both.c.position, both.c.id).limit(limit)


def _range(after: Cursor, *conditions: ColumnElement[bool], limit: int) -> Select[Any]:
    behind: ColumnElement[bool]
    if after.id is None:
        behind = _C.position > after.position
    else:
        place = tuple_(literal(after.position, _C.position.type), literal(after.id, String()))
        behind = tuple_(_C.position, _C.id) > place
    return (
        select(*_HEAD)
        .where(behind, _C.id >= after.first_id, *conditions)
        .order_by(_C.position, _C.id)
        .limit(limit)
    )


async def _with_bodies(
    connection: AsyncConnection, rows: Sequence[Any], sources: Mapping[str, str]
) -> list[FeedEvent]:
    if not rows:
        return []
    ids = sorted(row.id for row in rows)
    found = await connection.execute(
        select(_C.id, _C.body, _C.traceparent, _C.raw_only).where(_C.id.in_(ids))
    )
    bodies = {row.id: row for row in found}
    return [
        FeedEvent(
            id=row.id,
            position=row.position,
            type=row.type,
            tenant_id=row.tenant_id,
            created_at=row.created_at,
            deliver_at=row.deliver_at,
            inbox_id=row.inbox_id,
            source_id=sources.get(row.inbox_id or ""),
            traceparent=bodies[row.id].traceparent,
            raw_only=bodies[row.id].raw_only,
            body=bodies[row.id].body,
        )
        for row in rows
        if row.id in bodies  # retention may delete an event at this moment
    ]


async def delivered(
    connection: AsyncConnection, event_ids: Collection[str], *, endpoint_id: str
) -> set[str]:
    """Return those of these events that have a delivery to this endpoint."""
    if not event_ids:
        return set()
    c = _DELIVERIES.c
    rows = await connection.execute(
        select(c.event_id).where(*deliveries_to(endpoint_id, sorted(event_ids)))
    )
    return set(rows.scalars())


def deliveries_to(endpoint_id: str, event_ids: Sequence[str]) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for the deliveries of these events to this endpoint. It may have
    millions, so they are found by event."""
    c = _DELIVERIES.c
    return c.event_id.in_(event_ids), Residual(c.endpoint_id) == endpoint_id


def _microseconds(moment: datetime) -> int:
    return (moment - START.at) // _MICROSECOND
