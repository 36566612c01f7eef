"""What an endpoint's consumer gets when it polls: the endpoint's part of the feed.

An endpoint that is sent to has a row in `deliveries` for each event it wants, and those are what it
gets. One that is polled has none: what it gets is what its active subscriptions want at the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.event_type import matches
from hookfast.storage.feed import feed
from hookfast.storage.feed.cursor import START, Cursor
from hookfast.storage.feed.feed import FeedEvent, FeedFilter
from hookfast.storage.inbox import inbox_entries
from hookfast.storage.inbox.inbox_entries import RawRequest
from hookfast.storage.tables import Delivery, Endpoint, Subscription

_SUBSCRIPTIONS: Table = Subscription.__table__
_DELIVERIES: Table = Delivery.__table__

MOST_COUNTED: Final = 1_000
"""Events of the feed that `behind` looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledDelivery:
    """How the sending of the same event fares, at an endpoint that is sent to."""

    id: str
    status: str
    attempts: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollItem:
    """One event for one subscription. `cursor` acknowledges it and what comes before, and nothing
    else. `raw` is the request it came in with, where the subscription wants that."""

    event: FeedEvent
    subscription_id: str
    payload: str
    delivery: PolledDelivery | None
    raw: RawRequest | None
    cursor: Cursor

    @property
    def message_id(self) -> str:
        """The same however often it comes, and the same as when it is sent."""
        return self.event.id if self.delivery is None else self.delivery.id


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPage:
    """Items in order, and where to go on; `more` as in `FeedPage`. `part` is of the feed what holds
    all that comes next, and perhaps more."""

    items: Sequence[PollItem]
    cursor: Cursor
    more: bool
    part: FeedFilter


@dataclass(frozen=True, slots=True)
class _Wanting:
    """A subscription, or a delivery made for one."""

    subscription_id: str
    payload: str
    delivery: PolledDelivery | None


async def read(
    connection: AsyncConnection, endpoint: Endpoint, *, after: Cursor, limit: int, now: datetime
) -> PollPage:
    """What the endpoint's consumer gets behind `after`: items of at most `limit` events. It may be
    nothing and yet have `more`, as with `feed.read`."""
    subscriptions = await _subscriptions(connection, endpoint)
    chosen = _chosen(endpoint, subscriptions)
    if chosen is None:
        end = await feed.end(connection, now=now)
        part = FeedFilter(tenant_id=endpoint.tenant_id)
        return PollPage(items=[], cursor=max(after, end), more=False, part=part)
    page = await feed.read(connection, chosen, after=after, limit=limit, now=now)
    if endpoint.mode == "push":
        wanting = await _deliveries(connection, endpoint.id, page.events)
    else:
        wanting = {event.id: [_first(subscriptions, event.type)] for event in page.events}
    raw_ids = {
        event.inbox_id
        for event in page.events
        for one in wanting[event.id]
        if one.payload == "raw" and event.inbox_id is not None
    }
    raws = await inbox_entries.raw_requests(connection, raw_ids) if raw_ids else {}
    return PollPage(
        items=list(_items(page.events, wanting, raws, after=after)),
        cursor=page.cursor,
        more=page.more,
        part=chosen,
    )


async def begin(connection: AsyncConnection, endpoint: Endpoint, *, now: datetime) -> Cursor:
    """Where the polling of an endpoint begins that never was: with its first events."""
    place = await feed.since(connection, endpoint.created_at, now=now)
    missing = await feed.gap(connection, place, now=now)
    return place if missing is None else START


async def behind(
    connection: AsyncConnection, endpoint: Endpoint, *, after: Cursor
) -> tuple[int, bool]:
    """How many events there are for the endpoint among the next of the feed, and whether these are
    all there are. What is committed but cannot be read yet is counted too."""
    chosen = _chosen(endpoint, await _subscriptions(connection, endpoint))
    if chosen is None:
        return 0, True
    statement = feed.page_statement(chosen, after, limit=MOST_COUNTED + 1)
    rows = (await connection.execute(statement)).all()
    ids = [row.id for row in rows[:MOST_COUNTED] if chosen.wants(row.type, row.tenant_id)]
    if chosen.endpoint_id is not None:
        ids = list(await feed.delivered(connection, ids, endpoint_id=chosen.endpoint_id))
    return len(ids), len(rows) <= MOST_COUNTED


def _chosen(endpoint: Endpoint, subscriptions: Sequence[Any]) -> FeedFilter | None:
    """The endpoint's part of the feed; None for one that wants nothing."""
    if endpoint.mode == "push":
        return FeedFilter(tenant_id=endpoint.tenant_id, endpoint_id=endpoint.id)
    patterns = frozenset(pattern for one in subscriptions for pattern in one.events)
    return FeedFilter(tenant_id=endpoint.tenant_id, patterns=patterns) if patterns else None


async def _subscriptions(connection: AsyncConnection, endpoint: Endpoint) -> Sequence[Any]:
    """The active subscriptions of an endpoint that is polled, oldest first."""
    if endpoint.mode == "push":
        return []
    c = _SUBSCRIPTIONS.c
    rows = await connection.execute(
        select(c.id, c.events, c.payload)
        .where(c.endpoint_id == endpoint.id, c.active)
        .order_by(c.id)
    )
    return rows.all()


def _first(subscriptions: Sequence[Any], event_type: str) -> _Wanting:
    """The oldest subscription that wants the type: an event that several want comes once."""
    found = next(
        one for one in subscriptions if any(matches(pattern, event_type) for pattern in one.events)
    )
    return _Wanting(found.id, found.payload, None)


async def _deliveries(
    connection: AsyncConnection, endpoint_id: str, events: Sequence[FeedEvent]
) -> Mapping[str, list[_Wanting]]:
    """The deliveries of these events to an endpoint, by event."""
    found: defaultdict[str, list[_Wanting]] = defaultdict(list)
    if not events:
        return found
    c = _DELIVERIES.c
    rows = await connection.execute(
        select(c.event_id, c.id, c.subscription_id, c.payload, c.status, c.attempts, c.reason)
        .where(*feed.sent_to(endpoint_id, [event.id for event in events]))
        .order_by(c.id)
    )
    for row in rows:
        delivery = PolledDelivery(
            id=row.id, status=row.status, attempts=row.attempts, reason=row.reason
        )
        found[row.event_id].append(_Wanting(row.subscription_id, row.payload, delivery))
    return found


def _items(
    events: Sequence[FeedEvent],
    wanting: Mapping[str, Sequence[_Wanting]],
    raws: Mapping[str, RawRequest],
    *,
    after: Cursor,
) -> Iterator[PollItem]:
    before = after
    for event in events:
        for index, one in enumerate(found := wanting[event.id]):
            last = index == len(found) - 1
            yield PollItem(
                event=event,
                subscription_id=one.subscription_id,
                payload=one.payload,
                delivery=one.delivery,
                raw=raws.get(event.inbox_id or "") if one.payload == "raw" else None,
                # acknowledging the first of two must not acknowledge the second
                cursor=event.cursor if last else before,
            )
        before = event.cursor
