"""New events in three forms: as the caller gave them, as drafts of rows, and as committed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Self, TypeAlias

from sqlalchemy import Table, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import rfc3339
from hookfast.deliveries.figures import Owner, State, Tally, minute_of_id
from hookfast.deliveries.lane import Place, lane_id
from hookfast.deliveries.outcome import DeliveryStatus, Reason
from hookfast.endpoints.circuit import EndpointState
from hookfast.errors import Unavailable
from hookfast.events.envelope import full_body
from hookfast.ids import new_id
from hookfast.storage.counting import entries
from hookfast.storage.database.prepared import Prepared, Writes
from hookfast.storage.events import idempotency_keys, lanes
from hookfast.storage.events.fan_out import Audience, Subscriber
from hookfast.storage.events.lanes import Entrant, Entry
from hookfast.storage.tables import Delivery, Event
from hookfast.strict_json.text import to_text

_EVENTS: Table = Event.__table__
_DELIVERIES: Table = Delivery.__table__

_ROWS_PER_INSERT = 5_000  # bounds the memory of a broadcast to very many subscribers


ScopedKey: TypeAlias = tuple[str, str]
"""A pair of a scope and an idempotency key that is unique within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to emit. `data` is the exact JSON text of its data, and `value` the parsed data.
    With a `traceparent`, it belongs to that trace, otherwise to the request's."""

    type: str
    data: str
    value: Any
    tenant_id: str | None = None
    deliver_at: datetime | None = None
    idempotency_key: str | None = None
    ordering_key: str | None = None
    traceparent: str | None = None
    inbox_id: str | None = None  # of the inbound request that became this event
    hops: int = 0
    raw_only: bool = False  # its data violate the schema of its type

    @property
    def audience(self) -> Audience:
        """The event's type, and the tenant that may see it."""
        return self.type, self.tenant_id

    def key_in(self, scope: str | None) -> ScopedKey | None:
        """Return the event's idempotency key in `scope`, or None without a key or scope."""
        key = self.idempotency_key
        return None if scope is None or key is None else (scope, key)

    def sha256(self) -> str:
        """Return a hash of the event's content. An event with a repeated idempotency key must have
        the same hash. It does not depend on the order of members and on white space, but on the
        digits of numbers, which are delivered as they were written: `1` and `1.0` differ."""
        deliver_at = None if self.deliver_at is None else rfc3339(self.deliver_at)
        meaning: tuple[Any, ...] = (self.type, self.tenant_id, deliver_at, self.value)
        if self.ordering_key is not None:
            meaning += (self.ordering_key,)
        return hashlib.sha256(to_text(meaning, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedEvent:
    """A committed event, as `emit` returns it. `sha256` is None without an idempotency key."""

    id: str
    type: str
    created_at: datetime
    deliveries: int
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeliveries:
    """The new deliveries of one event, one for each subscriber. Those that are scheduled for later
    are in no lane, because they would delay those behind them until then."""

    event_id: str
    event_type: str
    ordering_key: str | None
    deliver_at: datetime | None
    created_at: datetime
    subscribers: Sequence[Subscriber]

    def entrants(self) -> Iterator[Entrant]:
        """Yield those that join a lane, each with its id."""
        for subscriber in self.subscribers:
            if (lane := self._lane_of(subscriber)) is not None:
                delivery_id = new_id("dlv", self.created_at)
                yield Entrant(lane, delivery_id, ended=_is_dead(subscriber))

    def rows(self, entries: Mapping[str, Entry]) -> Iterator[dict[str, Any]]:
        """Yield their rows for `deliveries`. `entries` has their places, by lane."""
        for subscriber in self.subscribers:
            lane = self._lane_of(subscriber)
            yield self._row(subscriber, None if lane is None else entries[lane])

    def _lane_of(self, subscriber: Subscriber) -> str | None:
        if not subscriber.ordered or self.deliver_at is not None:
            return None
        return lane_id(subscriber.subscription_id, self.ordering_key)

    def _row(self, subscriber: Subscriber, entry: Entry | None) -> dict[str, Any]:
        """Return the row of a delivery. The relay starts a pending one. A delivery to a disabled
        endpoint is a dead letter on arrival, and is marked as started so that the relay ignores it.
        A delivery that is queued in its lane is marked so until it is the head."""
        now, due_at = self.created_at, self.deliver_at or self.created_at
        dead = _is_dead(subscriber)
        queued = entry is not None and entry.place is Place.QUEUED
        return {
            "id": new_id("dlv", now) if entry is None else entry.delivery_id,
            "event_id": self.event_id,
            "subscription_id": subscriber.subscription_id,
            "endpoint_id": subscriber.endpoint_id,
            "tenant_id": subscriber.tenant_id,
            "event_type": self.event_type,
            "payload": subscriber.payload,
            "status": (DeliveryStatus.DEAD if dead else DeliveryStatus.PENDING).value,
            "reason": Reason.ENDPOINT_DISABLED.value if dead else None,
            "next_attempt_at": None if dead or queued else due_at,
            "due_at": None if dead else due_at,
            "deliver_at": self.deliver_at,
            "created_at": now,
            "updated_at": now,
            "finished_at": now if dead else None,
            "started_at": now if dead or queued else None,
            "lane": entry and entry.lane,
            "lane_position": entry and entry.position,
            "place": entry and entry.place.value,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An event that is to be committed. The ids and all times in its row and its deliveries' rows
    derive from the same instant, `committed.created_at`. `request_id` is for the log."""

    event: NewEvent
    committed: CommittedEvent
    traceparent: str
    subscribers: Sequence[Subscriber]
    key: ScopedKey | None
    request_id: str | None

    @classmethod
    def create(
        cls,
        event: NewEvent,
        *,
        at: datetime,
        traceparent: str,
        subscribers: Sequence[Subscriber],
        scope: str | None = None,
        request_id: str | None = None,
    ) -> Self:
        """Create the draft of `event` at the time `at`. Without `scope`, its idempotency key is
        ignored."""
        key = event.key_in(scope)
        committed = CommittedEvent(
            id=new_id("evt", at),
            type=event.type,
            created_at=at,
            deliveries=len(subscribers),
            sha256=None if key is None else event.sha256(),
        )
        return cls(
            event=event,
            committed=committed,
            traceparent=traceparent,
            subscribers=subscribers,
            key=key,
            request_id=request_id,
        )

    @property
    def deliver_at(self) -> datetime | None:
        """The time for which the deliveries are scheduled, None if they are due at once. A time in
        the past also means at once."""
        at = self.event.deliver_at
        return at if at is not None and at > self.committed.created_at else None

    @property
    def has_dead(self) -> bool:
        """Whether some deliveries are dead letters on arrival."""
        return any(_is_dead(subscriber) for subscriber in self.subscribers)

    @property
    def is_plain(self) -> bool:
        """Whether it is stored with `insert_drafts` alone, in one statement with others like it: it
        claims no key, joins no lane, and has no dead letters to notify of."""
        ordered = any(subscriber.ordered for subscriber in self.subscribers)
        return self.key is None and not ordered and not self.has_dead

    @property
    def sha256(self) -> str | None:
        """The hash of the event's content, None without an idempotency key."""
        return self.committed.sha256

    @property
    def deliveries(self) -> NewDeliveries:
        """The event's deliveries."""
        return NewDeliveries(
            event_id=self.committed.id,
            event_type=self.event.type,
            ordering_key=self.event.ordering_key,
            deliver_at=self.deliver_at,
            created_at=self.committed.created_at,
            subscribers=self.subscribers,
        )

    def event_row(self) -> dict[str, Any]:
        """Return the event's row for `events`."""
        event, committed = self.event, self.committed
        return {
            "id": committed.id,
            "type": event.type,
            "tenant_id": event.tenant_id,
            "body": full_body(
                event_id=committed.id,
                event_type=event.type,
                created_at=committed.created_at,
                tenant_id=event.tenant_id,
                data=event.data,
            ),
            "traceparent": self.traceparent,
            "deliveries": committed.deliveries,
            "created_at": committed.created_at,
            "deliver_at": self.deliver_at,
            "inbox_id": event.inbox_id,
            "ordering_key": event.ordering_key,
            "hops": event.hops,
            "raw_only": event.raw_only,
        }

    def key_row(self) -> dict[str, Any] | None:
        """Return the event's row for `idempotency_keys`, or None without a key."""
        if self.key is None:
            return None
        scope, key = self.key
        return {
            "scope": scope,
            "key": key,
            "event_id": self.committed.id,
            "sha256": self.sha256,
            "created_at": self.committed.created_at,
        }


_ADD_EVENTS, _ADD_DELIVERIES = Prepared(insert(_EVENTS)), Prepared(insert(_DELIVERIES))


async def claim_keys(
    connection: AsyncConnection, drafts: Sequence[Draft]
) -> dict[ScopedKey, CommittedEvent]:
    """Claim the idempotency keys of these drafts, and return the event of each key: the draft's, or
    that of another request which used the key first.

    Raises Unavailable if the other event was deleted before it could be read.
    """
    keyed = {draft.key: draft for draft in drafts if draft.key is not None}
    if not keyed:
        return {}
    # In the order of their keys: groups that share keys wait for each other in the same order.
    rows = [row for key in sorted(keyed) if (row := keyed[key].key_row()) is not None]
    claimed = await idempotency_keys.claim(connection, rows)
    found = {key: one.committed for key, one in keyed.items() if one.committed.id in claimed}
    if theirs := keyed.keys() - found.keys():
        found |= await find_by_keys(connection, theirs)
    if found.keys() != keyed.keys():
        raise Unavailable("An event was deleted while its idempotency key was in use; retry.")
    return found


async def insert_drafts(connection: AsyncConnection, drafts: Sequence[Draft]) -> None:
    """Insert these events and their deliveries. Their idempotency keys are claimed. In a lane, the
    deliveries have the order of the drafts."""
    deliveries = [draft.deliveries for draft in drafts]
    entries = await enter_lanes(connection, deliveries)
    events = Writes()
    events.add(_ADD_EVENTS, [draft.event_row() for draft in drafts])
    await insert_deliveries(
        connection,
        (row for one, own in zip(deliveries, entries, strict=True) for row in one.rows(own)),
        together_with=events,
    )


async def enter_lanes(
    connection: AsyncConnection, deliveries: Sequence[NewDeliveries]
) -> list[dict[str, Entry]]:
    """Let the deliveries of these events join their lanes, in this order, and return their places
    by lane, for each event."""
    entries: list[dict[str, Entry]] = [{} for _ in deliveries]
    joining = [
        (own, one) for own, new in zip(entries, deliveries, strict=True) for one in new.entrants()
    ]
    if joining:
        entered = await lanes.enter(
            connection, [one for _, one in joining], now=deliveries[0].created_at
        )
        for own, entrant in joining:
            own[entrant.lane] = entered[entrant.delivery_id]
    return entries


async def insert_deliveries(
    connection: AsyncConnection,
    rows: Iterable[dict[str, Any]],
    *,
    together_with: Writes | None = None,
) -> list[str]:
    """Insert these rows, count them, and return the ids of those that are dead letters on arrival.
    `together_with` is written with the first of them, also if there are none."""
    dead: list[str] = []
    writes = together_with or Writes()
    left = iter(rows)
    while some := list(islice(left, _ROWS_PER_INSERT)):
        tally = Tally()
        writes.add(_ADD_DELIVERIES, some)
        for row in some:
            owner = Owner(row["tenant_id"], row["endpoint_id"], row["event_type"])
            state = State(
                DeliveryStatus(row["status"]),
                row["reason"],
                row["finished_at"],
                queued=row["place"] == Place.QUEUED,
            )
            tally.delivery(owner, minute_of_id(row["id"]), None, state)
            if state.status is DeliveryStatus.DEAD:
                dead.append(row["id"])
                tally.ended(owner, state, took=None)
        entries.add(writes, tally.numbers())
        await writes.run(connection)
    await writes.run(connection)
    return dead


async def dead_on_arrival(connection: AsyncConnection, drafts: Iterable[Draft]) -> list[str]:
    """Return the ids of the inserted deliveries that are dead letters on arrival: one per event and
    disabled endpoint, even if several subscriptions lead there."""
    event_ids = [draft.committed.id for draft in drafts if draft.has_dead]
    if not event_ids:
        return []
    c = _DELIVERIES.c
    first = func.min(c.id)
    rows = await connection.execute(
        select(first)
        .where(c.event_id.in_(event_ids), c.status == DeliveryStatus.DEAD.value)
        .group_by(c.event_id, c.endpoint_id)
        .order_by(first)
    )
    return list(rows.scalars())


def dead_subscribers(drafts: Iterable[Draft]) -> Iterator[Subscriber]:
    """Yield the subscribers whose endpoint is disabled, one entry per delivery."""
    return (one for draft in drafts for one in draft.subscribers if _is_dead(one))


async def find_by_keys(
    connection: AsyncConnection, keys: Iterable[ScopedKey]
) -> dict[ScopedKey, CommittedEvent]:
    """Return the committed events with these idempotency keys, by key."""
    used = await idempotency_keys.find(connection, keys)
    if not used:
        return {}
    # Not a join: with the ids, PostgreSQL knows which partitions to read.
    c = _EVENTS.c
    rows = await connection.execute(
        select(c.id, c.type, c.created_at, c.deliveries).where(
            c.id.in_([one.event_id for one in used])
        )
    )
    events = {row.id: row for row in rows}
    return {
        (one.scope, one.key): CommittedEvent(
            id=event.id,
            type=event.type,
            created_at=event.created_at,
            deliveries=event.deliveries,
            sha256=one.sha256,
        )
        for one in used
        if (event := events.get(one.event_id)) is not None
    }


def _is_dead(subscriber: Subscriber) -> bool:
    return subscriber.endpoint_state == EndpointState.DISABLED
