"""Polling: the part of the feed that an endpoint's consumer gets.

A push endpoint has a row in `deliveries` for each event, and its consumer gets those events. A poll
endpoint has none: its consumer gets the events that match its active subscriptions at the time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Table, Text, cast, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.event_type import matches
from hookfast.storage.database.feed_position import horizon
from hookfast.storage.endpoints import mappings
from hookfast.storage.events.filtering import Evaluation, StoredData
from hookfast.storage.feed import feed
from hookfast.storage.feed.cursor import START, Cursor
from hookfast.storage.feed.feed import FeedEvent, FeedFilter, FeedPage
from hookfast.storage.inbox import inbox_entries
from hookfast.storage.inbox.inbox_entries import RawRequest
from hookfast.storage.tables import Delivery, Endpoint, Subscription

_SUBSCRIPTIONS: Table = Subscription.__table__
_DELIVERIES: Table = Delivery.__table__

MAX_COUNTED: Final = 1_000
"""The most events of the feed that `count_behind` reads."""
_FILTERED_AT_ONCE: Final = 200
_FILTERED_BYTES: Final = feed.MAX_PAGE_BYTES
"""Bodies that one poll reads to apply filters to them; at most one page more."""
_FILTER_STEPS: Final = 1_000_000
"""Steps of one poll: less than a second. The next poll continues after the last event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledDelivery:
    """The delivery of the same event by push."""

    id: str
    status: str
    attempts: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollItem:
    """One event for one subscription. `cursor` acknowledges this item and all before it, and no
    other. `raw` is the request that the event was received with, if the subscription's payload is
    `raw`; `mapping` is the subscription's, if its payload is `mapped`."""

    event: FeedEvent
    subscription_id: str
    payload: str
    delivery: PolledDelivery | None
    raw: RawRequest | None
    mapping: str | None
    cursor: Cursor

    @property
    def message_id(self) -> str:
        """The message id, the same each time it is polled and when it is pushed."""
        return self.event.id if self.delivery is None else self.delivery.id


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPage:
    """Items in order, and the cursor of the next page; `more` as in `FeedPage`. `filter` matches
    all events that may come next, and perhaps others."""

    items: Sequence[PollItem]
    cursor: Cursor
    more: bool
    filter: FeedFilter

    @property
    def size(self) -> int:
        """The bytes of the bodies of all items together, with those of their events."""
        return sum(
            len(item.event.body) + (0 if item.raw is None else item.raw.size) for item in self.items
        )


@dataclass(frozen=True, slots=True)
class _Match:
    """A subscription that an event matches, with its delivery at a push endpoint."""

    subscription_id: str
    payload: str
    delivery: PolledDelivery | None


async def read(
    connection: AsyncConnection, endpoint: Endpoint, *, after: Cursor, limit: int, now: datetime
) -> PollPage:
    """Return the endpoint's items after `after`, of at most `limit` events. A page may be empty and
    have `more`, as with `feed.read`."""
    edge = await horizon(connection)  # first: a subscription that is not seen has no event below it
    subscriptions = await _subscriptions(connection, endpoint)
    chosen = _feed_filter(endpoint, subscriptions)
    if chosen is None:
        end = await feed.end_below(connection, edge, now=now)
        whole = FeedFilter(tenant_id=endpoint.tenant_id)
        return PollPage(items=[], cursor=max(after, end), more=False, filter=whole)
    matches: Mapping[str, Sequence[_Match]]
    if endpoint.mode == "push":
        page = await feed.read_below(connection, edge, chosen, after=after, limit=limit, now=now)
        matches = await _deliveries(connection, endpoint.id, page.events)
    elif all(one.filter is None for one in subscriptions):
        page = await feed.read_below(connection, edge, chosen, after=after, limit=limit, now=now)
        matches, _ = _oldest_matches(page.events, subscriptions, Evaluation())
    else:
        page, matches = await _read_filtered(
            connection, edge, chosen, subscriptions, after=after, limit=limit, now=now
        )
    page = await _within_bytes(connection, page, matches)
    raw_ids = {one for event in page.events for one in _raw_ids(event, matches)}
    raws = await inbox_entries.raw_requests(connection, raw_ids) if raw_ids else {}
    mapped = await mappings.latest(
        connection,
        {
            one.subscription_id
            for of_event in matches.values()
            for one in of_event
            if one.payload == "mapped"
        },
    )
    return PollPage(
        items=list(_items(page.events, matches, raws, mapped, after=after)),
        cursor=page.cursor,
        more=page.more,
        filter=chosen,
    )


async def _within_bytes(
    connection: AsyncConnection, page: FeedPage, matches: Mapping[str, Sequence[_Match]]
) -> FeedPage:
    """Return the beginning of the page whose received requests have at most `MAX_PAGE_BYTES`: at
    least one event, and `more` if there are others. The events of a page are within it already, but
    the request of an event may be many times larger."""
    ids = [_raw_ids(event, matches) for event in page.events]
    sizes = await inbox_entries.sizes(connection, {one for of_event in ids for one in of_event})
    total = 0
    for index, of_event in enumerate(ids):
        total += sum(sizes.get(one, 0) for one in of_event)
        if index and total > feed.MAX_PAGE_BYTES:
            events = page.events[:index]
            return replace(page, events=events, cursor=events[-1].cursor, more=True)
    return page


def _raw_ids(event: FeedEvent, matches: Mapping[str, Sequence[_Match]]) -> list[str]:
    """Return the inbox entry whose request an event's items have, once for each such item."""
    raw = [one for one in matches.get(event.id, ()) if one.payload == "raw"]
    return [] if event.inbox_id is None else [event.inbox_id] * len(raw)


async def first_cursor(connection: AsyncConnection, endpoint: Endpoint, *, now: datetime) -> Cursor:
    """Return the cursor at which an endpoint's first poll begins: before its first event."""
    place = await feed.cursor_since(connection, endpoint.created_at, now=now)
    missing = await feed.find_gap(connection, place, now=now)
    return place if missing is None else START


async def count_behind(
    connection: AsyncConnection, endpoint: Endpoint, *, after: Cursor
) -> tuple[int, bool]:
    """Count the endpoint's events among the next ones of the feed, and return also whether these
    are all. Events that are committed but cannot be read yet are counted too, and so are those that
    filters keep out: applying them would mean reading every event's data."""
    chosen = _feed_filter(endpoint, await _subscriptions(connection, endpoint))
    if chosen is None:
        return 0, True
    statement = feed.page_statement(chosen, after, limit=MAX_COUNTED + 1)
    rows = (await connection.execute(statement)).all()
    ids = [row.id for row in rows[:MAX_COUNTED] if chosen.matches(row.type, row.tenant_id)]
    if chosen.endpoint_id is not None:
        ids = list(await feed.delivered(connection, ids, endpoint_id=chosen.endpoint_id))
    return len(ids), len(rows) <= MAX_COUNTED


def _feed_filter(endpoint: Endpoint, subscriptions: Sequence[Any]) -> FeedFilter | None:
    """Return the filter for an endpoint's events; None if it polls and has no subscription."""
    if endpoint.mode == "push":
        return FeedFilter(tenant_id=endpoint.tenant_id, endpoint_id=endpoint.id)
    patterns = frozenset(pattern for one in subscriptions for pattern in one.events)
    return FeedFilter(tenant_id=endpoint.tenant_id, patterns=patterns) if patterns else None


async def _subscriptions(connection: AsyncConnection, endpoint: Endpoint) -> Sequence[Any]:
    """Return the active subscriptions of a poll endpoint, oldest first."""
    if endpoint.mode == "push":
        return []
    c = _SUBSCRIPTIONS.c
    rows = await connection.execute(
        select(c.id, c.events, c.payload, cast(c.filter, Text).label("filter"))
        .where(c.endpoint_id == endpoint.id, c.active)
        .order_by(c.id)
    )
    return rows.all()


async def _read_filtered(
    connection: AsyncConnection,
    edge: int | None,
    chosen: FeedFilter,
    subscriptions: Sequence[Any],
    *,
    after: Cursor,
    limit: int,
    now: datetime,
) -> tuple[FeedPage, Mapping[str, Sequence[_Match]]]:
    """Return the next `limit` events that pass a filter, each with its subscription. The page has
    fewer, and `more`, when filters keep many out: the next page continues after those."""
    evaluation = Evaluation(_FILTER_STEPS)
    kept: list[FeedEvent] = []
    matches: dict[str, Sequence[_Match]] = {}
    read = 0
    while True:
        page = await feed.read_below(
            connection, edge, chosen, after=after, limit=_FILTERED_AT_ONCE, now=now
        )
        found, examined = await asyncio.to_thread(
            _oldest_matches, page.events, subscriptions, evaluation
        )
        for index, event in enumerate(page.events):
            if len(kept) == limit or index == examined:
                return replace(page, events=kept, cursor=after, more=True), matches
            if event.id in found:
                kept.append(event)
                matches[event.id] = found[event.id]
            read += len(event.body)
            after = event.cursor
        after = page.cursor
        if len(kept) == limit or read >= _FILTERED_BYTES or not page.more:
            return replace(page, events=kept), matches


def _oldest_matches(
    events: Sequence[FeedEvent], subscriptions: Sequence[Any], evaluation: Evaluation
) -> tuple[dict[str, Sequence[_Match]], int]:
    """Return the oldest subscription that each event matches, without the events that match none:
    an event that matches several comes once. Return also how many events there were steps for."""
    found: dict[str, Sequence[_Match]] = {}
    for index, event in enumerate(events):
        if not evaluation.has_steps_for_event:
            return found, index
        of_event = evaluation.of_event(StoredData(event.body))
        for one in subscriptions:
            if (
                any(matches(pattern, event.type) for pattern in one.events)
                and (one.payload == "raw" or not event.raw_only)
                and of_event.passes(one.filter, tenant_id="") is not False
            ):
                found[event.id] = [_Match(one.id, one.payload, None)]
                break
    return found, len(events)


async def _deliveries(
    connection: AsyncConnection, endpoint_id: str, events: Sequence[FeedEvent]
) -> Mapping[str, list[_Match]]:
    """Return the deliveries of these events to an endpoint, by event."""
    matches: defaultdict[str, list[_Match]] = defaultdict(list)
    if not events:
        return matches
    c = _DELIVERIES.c
    rows = await connection.execute(
        select(c.event_id, c.id, c.subscription_id, c.payload, c.status, c.attempts, c.reason)
        .where(*feed.deliveries_to(endpoint_id, [event.id for event in events]))
        .order_by(c.id)
    )
    for row in rows:
        delivery = PolledDelivery(
            id=row.id, status=row.status, attempts=row.attempts, reason=row.reason
        )
        matches[row.event_id].append(_Match(row.subscription_id, row.payload, delivery))
    return matches


def _items(
    events: Sequence[FeedEvent],
    matches: Mapping[str, Sequence[_Match]],
    raws: Mapping[str, RawRequest],
    mapped: Mapping[str, str],
    *,
    after: Cursor,
) -> Iterator[PollItem]:
    before = after
    for event in events:
        for index, one in enumerate(of_event := matches.get(event.id, ())):
            last = index == len(of_event) - 1
            yield PollItem(
                event=event,
                subscription_id=one.subscription_id,
                payload=one.payload,
                delivery=one.delivery,
                raw=raws.get(event.inbox_id or "") if one.payload == "raw" else None,
                mapping=mapped.get(one.subscription_id) if one.payload == "mapped" else None,
                # acknowledging the first of an event's items must not acknowledge the second
                cursor=event.cursor if last else before,
            )
        before = event.cursor
