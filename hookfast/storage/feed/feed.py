"""The feed: events in the order in which they became visible, to be read from any place on. Nothing
ever appears behind a cursor that was given out; `feed_position` tells why.

A reader keeps a `Cursor`: it begins at `end`, `since` a time or at an event, and goes on with the
cursor of each page. `gap` says whether retention, or a restore from a backup, left a hole behind
the cursor. Each function makes a few statements in the caller's (reading) transaction.
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

MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Bodies of one page, together; a page has one event at least."""
_SCAN_AT_ONCE: Final = 500
_SCAN_MOST: Final = 5_000  # events that one read looks at for those that are wanted
_NEIGHBOURS: Final = 1_000  # events made at about one time of which the first visible is looked for
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFilter:
    """Which events: those a tenant may see, broadcasts included (None: all of them), of a type that
    one of the valid `patterns` matches (none: any), that came in through a source (None: any), that
    have a delivery to an endpoint (None: or not)."""

    tenant_id: str | None = None
    patterns: frozenset[str] = frozenset()
    source_id: str | None = None
    endpoint_id: str | None = None

    def wants(self, event_type: str, tenant_id: str | None) -> bool:
        """Whether an event of this type and tenant is one of them, as far as these tell."""
        if self.tenant_id is not None and tenant_id not in (None, self.tenant_id):
            return False
        return not self.patterns or not self.patterns.isdisjoint(matching_patterns(event_type))

    @property
    def takes_all(self) -> bool:
        """Whether there is no need to look further than the tenant."""
        return not self.patterns and self.source_id is None and self.endpoint_id is None

    def wants_from(self, source_id: str | None) -> bool:
        """Whether events that came in there (None: nowhere) may be among them."""
        return self.source_id is None or self.source_id == source_id

    def wants_event(self, event: FeedEvent) -> bool:
        """Whether an event is one of them."""
        return self.wants_from(event.source_id) and self.wants(event.type, event.tenant_id)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """What at least one of several filters wants, as far as type and tenant tell."""

    filters: tuple[FeedFilter, ...]

    @property
    def tenant_id(self) -> str | None:
        """The one tenant of them all, if it is one."""
        tenants = {one.tenant_id for one in self.filters}
        return tenants.pop() if len(tenants) == 1 else None

    @property
    def takes_all(self) -> bool:
        """Whether there is no need to look further than the tenant."""
        return any(one.tenant_id is None and one.takes_all for one in self.filters)

    def wants(self, event_type: str, tenant_id: str | None) -> bool:
        """Whether one of them may want such an event."""
        return any(one.wants(event_type, tenant_id) for one in self.filters)

    def wants_from(self, source_id: str | None) -> bool:
        """Whether one of them may want what came in there."""
        return any(one.wants_from(source_id) for one in self.filters)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEvent:
    """An event with its exact body. `source_id` is where it came in, as `inbox_id`, if it did (and
    while that is kept); `deliver_at` a time ahead that it was emitted for."""

    id: str
    position: int
    type: str
    tenant_id: str | None
    created_at: datetime
    deliver_at: datetime | None
    inbox_id: str | None
    source_id: str | None
    traceparent: str
    body: bytes = field(repr=False)

    @property
    def cursor(self) -> Cursor:
        """Where it stands: whoever goes on from here does not get it again."""
        return Cursor.of_event(self.position, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedPage:
    """Events in order, and where to go on. `more`: there is more to read at once. `held_back`: more
    is committed already, and becomes readable when transactions from before it have ended."""

    events: Sequence[FeedEvent]
    cursor: Cursor
    more: bool
    held_back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Events between these times may be missing behind a cursor; `cursor` is where to go on.
    `expired`: they are no longer kept. `restored`: the database is an older copy, of which this
    cursor knows more than it holds; some events may come again."""

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
    """At most `limit` of the events that fit, behind `after`. A page may be empty and yet have
    `more`: so many events were looked at that do not fit."""
    edge = await horizon(connection)  # first: what is below it is complete in what is read next
    at_once = limit + 1 if chosen.takes_all else _SCAN_AT_ONCE
    cursor, size, seen = after, 0, 0
    found: list[Any] = []
    sources: dict[str, str] = {}
    while True:
        rows = (await connection.execute(page_statement(chosen, cursor, limit=at_once))).all()
        ready = [row for row in rows if edge is None or row.position < edge]
        fitting = [row for row in ready if chosen.wants(row.type, row.tenant_id)]
        inbox_ids = {row.inbox_id for row in fitting if row.inbox_id is not None}
        if inbox_ids:
            sources |= await inbox_entries.sources_of(connection, inbox_ids)
        wanted = {row.id for row in fitting if chosen.wants_from(sources.get(row.inbox_id or ""))}
        if isinstance(chosen, FeedFilter) and chosen.endpoint_id is not None:
            wanted = await delivered(connection, wanted, endpoint_id=chosen.endpoint_id)
        for row in ready:
            if row.id in wanted:
                if len(found) == limit or (found and size + row.size > MAX_PAGE_BYTES):
                    page = await _with_bodies(connection, found, sources)
                    return FeedPage(events=page, cursor=cursor, more=True, held_back=False)
                found.append(row)
                size += row.size
            cursor = Cursor.of_event(row.position, row.id)
        held_back = len(ready) < len(rows)
        if held_back or len(rows) < at_once:
            break
        seen += len(rows)
        if seen >= _SCAN_MOST:
            page = await _with_bodies(connection, found, sources)
            return FeedPage(events=page, cursor=cursor, more=True, held_back=False)
    # Everything there is was looked at: nothing at these positions will come any more.
    end = cursor.position if edge is None else max(cursor.position, edge - 1)
    return FeedPage(
        events=await _with_bodies(connection, found, sources),
        cursor=Cursor(end, max(cursor.at, now)),
        more=False,
        held_back=held_back,
    )


async def end(connection: AsyncConnection, *, now: datetime) -> Cursor:
    """Behind everything that can be read now."""
    edge = await horizon(connection)
    return Cursor(await newest(connection) if edge is None else edge - 1, now)


async def since(connection: AsyncConnection, moment: datetime, *, now: datetime) -> Cursor:
    """Before the events made from about then on. Some that were made a little earlier may follow;
    so may, where transactions of then took that long, one that was made later be left out."""
    made = (
        select(_C.id, _C.position)
        .where(_C.id >= first_id_at("evt", moment))
        .order_by(_C.id)
        .limit(_NEIGHBOURS)
        .subquery()
    )
    first = select(made).order_by(made.c.position, made.c.id).limit(1)
    row = (await connection.execute(first)).first()
    if row is None:
        return await end(connection, now=now)
    return Cursor(row.position - 1, moment)


async def place_of(connection: AsyncConnection, event_id: str) -> Cursor | None:
    """Where an event stands; None for one that is not kept."""
    rows = await connection.execute(select(_C.position).where(_C.id == event_id))
    position = rows.scalar_one_or_none()
    return None if position is None else Cursor.of_event(position, event_id)


async def gap(connection: AsyncConnection, after: Cursor, *, now: datetime) -> Gap | None:
    """What may be missing behind this cursor, if anything. Ask once, before the first page; behind
    a page's cursor nothing goes missing unless its holder stays away for as long as events live."""
    edge = await horizon(connection)
    last = max(await newest(connection), _microseconds(now)) if edge is None else edge - 1
    if after.position > last:
        place = await since(connection, min(after.at, now), now=now)
        return Gap(since=after.at, until=now, reason="restored", cursor=place)
    kept_since = await retention_runs.kept_since(connection, "events")
    if kept_since is None or after.at >= kept_since or after == START:
        return None
    moved = replace(after, at=kept_since)
    return Gap(since=after.at, until=kept_since, reason="expired", cursor=moved)


def page_statement(chosen: FeedFilter | AnyOf, after: Cursor, *, limit: int) -> Select[Any]:
    """The next events behind a cursor that the tenant may see, without their bodies: one range of
    one index, or of two."""
    if chosen.tenant_id is None:
        return _range(after, limit=limit)
    # A page of each, and the first of both; an OR would read both to their ends and sort.
    own = _range(after, _C.tenant_id == chosen.tenant_id, limit=limit)
    everyones = _range(after, _C.tenant_id.is_(None), limit=limit)
    both = union_all(select(own.subquery()), select(everyones.subquery())).subquery()
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
    bodies = await _bodies(connection, [row.id for row in rows])
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
            body=bodies[row.id].body,
        )
        for row in rows
        if row.id in bodies  # retention may take one in this very moment
    ]


async def delivered(
    connection: AsyncConnection, event_ids: Collection[str], *, endpoint_id: str
) -> set[str]:
    """Those of these events that have a delivery to this endpoint."""
    if not event_ids:
        return set()
    c = _DELIVERIES.c
    rows = await connection.execute(
        select(c.event_id).where(*sent_to(endpoint_id, sorted(event_ids)))
    )
    return set(rows.scalars())


def sent_to(endpoint_id: str, event_ids: Sequence[str]) -> tuple[ColumnElement[bool], ...]:
    """Which deliveries are of one of these events to this endpoint, which may have millions."""
    c = _DELIVERIES.c
    return c.event_id.in_(event_ids), Residual(c.endpoint_id) == endpoint_id


async def _bodies(connection: AsyncConnection, ids: Collection[str]) -> dict[str, Any]:
    if not ids:
        return {}
    rows = await connection.execute(
        select(_C.id, _C.body, _C.traceparent).where(_C.id.in_(sorted(ids)))
    )
    return {row.id: row for row in rows}


def _microseconds(moment: datetime) -> int:
    return (moment - START.at) // _MICROSECOND
