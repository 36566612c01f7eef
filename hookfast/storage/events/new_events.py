"""Events on their way into the database: as the caller gave them, as drafts of rows, committed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, TypeAlias

from sqlalchemy import Table, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import rfc3339
from hookfast.deliveries.outcome import DeliveryStatus, Reason
from hookfast.endpoints.circuit import EndpointState
from hookfast.errors import Unavailable
from hookfast.events.envelope import full_body
from hookfast.ids import new_id
from hookfast.storage.database.plain_insert import PlainInsert
from hookfast.storage.events import idempotency_keys
from hookfast.storage.events.fan_out import Audience, Subscriber
from hookfast.storage.tables import Delivery, Event

_EVENTS: Table = Event.__table__
_DELIVERIES: Table = Delivery.__table__

_ROWS_PER_INSERT = 5_000  # bounds the memory of a broadcast to very many subscribers


ScopedKey: TypeAlias = tuple[str, str]
"""An idempotency key after the scope in which it is unique."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to emit. `data` is the exact JSON text of its data and `value` what that means."""

    type: str
    data: str
    value: Any
    tenant_id: str | None = None
    deliver_at: datetime | None = None
    idempotency_key: str | None = None
    inbox_id: str | None = None  # of the request it came in with

    @property
    def audience(self) -> Audience:
        """Its type, and who may see it."""
        return self.type, self.tenant_id

    def key_in(self, scope: str | None) -> ScopedKey | None:
        """Its idempotency key, if it has one that counts."""
        key = self.idempotency_key
        return None if scope is None or key is None else (scope, key)

    def sha256(self) -> str:
        """Hash of what the event says, however its JSON is written: what has to be the same when
        an idempotency key comes again."""
        deliver_at = None if self.deliver_at is None else rfc3339(self.deliver_at)
        meaning = (self.type, self.tenant_id, deliver_at, self.value)
        canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What an emit answers about an event. `sha256` is None for one without an idempotency key."""

    id: str
    type: str
    created_at: datetime
    deliveries: int
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An event that is to be committed. Its id, its deliveries' ids and every time in their rows
    are made from the one instant `committed.created_at`."""

    event: NewEvent
    committed: Committed
    traceparent: str
    subscribers: Sequence[Subscriber]
    key: ScopedKey | None

    @classmethod
    def of(
        cls,
        event: NewEvent,
        *,
        at: datetime,
        traceparent: str,
        subscribers: Sequence[Subscriber],
        scope: str | None = None,
    ) -> Self:
        """The draft of `event`, created `at`. Its idempotency key counts in a `scope` only."""
        key = event.key_in(scope)
        committed = Committed(
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
        )

    @property
    def deliver_at(self) -> datetime | None:
        """When to deliver it, unless that is now: a time that is past means now."""
        wanted = self.event.deliver_at
        return wanted if wanted is not None and wanted > self.committed.created_at else None

    @property
    def has_dead(self) -> bool:
        """Whether it has deliveries that are dead letters at once."""
        return any(_is_dead(subscriber) for subscriber in self.subscribers)

    @property
    def sha256(self) -> str | None:
        """Hash of what it says, when it has a key."""
        return self.committed.sha256

    def event_row(self) -> dict[str, Any]:
        """The row in `events`."""
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
        }

    def key_row(self) -> dict[str, Any] | None:
        """The row in `idempotency_keys` of one with a key."""
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

    def delivery_rows(self) -> Iterator[dict[str, Any]]:
        """One row in `deliveries` per subscriber."""
        for subscriber in self.subscribers:
            yield delivery_row(
                subscriber,
                event_id=self.committed.id,
                event_type=self.event.type,
                deliver_at=self.deliver_at,
                now=self.committed.created_at,
            )


def delivery_row(
    subscriber: Subscriber,
    *,
    event_id: str,
    event_type: str,
    deliver_at: datetime | None,
    now: datetime,
) -> dict[str, Any]:
    """The row of a new delivery. A pending one is the relay's to start; one to a disabled endpoint
    is a dead letter at once, and counts as started so that the relay leaves it."""
    dead = _is_dead(subscriber)
    return {
        "id": new_id("dlv", now),
        "event_id": event_id,
        "subscription_id": subscriber.subscription_id,
        "endpoint_id": subscriber.endpoint_id,
        "tenant_id": subscriber.tenant_id,
        "event_type": event_type,
        "payload": subscriber.payload,
        "status": (DeliveryStatus.DEAD if dead else DeliveryStatus.PENDING).value,
        "reason": Reason.ENDPOINT_DISABLED.value if dead else None,
        "next_attempt_at": None if dead else deliver_at or now,
        "due_at": None if dead else deliver_at or now,
        "deliver_at": deliver_at,
        "created_at": now,
        "updated_at": now,
        "finished_at": now if dead else None,
        "started_at": now if dead else None,
    }


_ADD_EVENTS, _ADD_DELIVERIES = PlainInsert(_EVENTS), PlainInsert(_DELIVERIES)


async def commit_drafts(
    connection: AsyncConnection, drafts: Sequence[Draft]
) -> dict[ScopedKey, Committed]:
    """Insert these events and their deliveries; return what is committed under each idempotency
    key, which another request may have used first: then its event stands and the draft is void.

    Raises Unavailable when that event vanished before it could be read.
    """
    plain = [draft for draft in drafts if draft.key is None]
    keyed = {draft.key: draft for draft in drafts if draft.key is not None}
    committed: dict[ScopedKey, Committed] = {}
    if keyed:
        # In the order of their keys: two groups that share keys wait for each other in one order.
        rows = [row for key in sorted(keyed) if (row := keyed[key].key_row()) is not None]
        claimed = await idempotency_keys.claim(connection, rows)
        ours = {key: draft for key, draft in keyed.items() if draft.committed.id in claimed}
        plain += ours.values()
        committed = {key: draft.committed for key, draft in ours.items()}
        if theirs := keyed.keys() - ours.keys():
            committed |= await find_by_keys(connection, theirs)
        if committed.keys() != keyed.keys():
            raise Unavailable("An event was deleted while its idempotency key was in use; retry.")
    if plain:
        await _ADD_EVENTS.execute(connection, [draft.event_row() for draft in plain])
    await _insert_deliveries(connection, plain)
    return committed


async def dead_on_arrival(connection: AsyncConnection, drafts: Iterable[Draft]) -> list[str]:
    """Those deliveries of these drafts, now committed, that ended before they began: one for each
    event and disabled endpoint, however many subscriptions lead there."""
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
    """Whoever has a delivery in these drafts that ends before it begins, once for each."""
    return (one for draft in drafts for one in draft.subscribers if _is_dead(one))


async def find_by_keys(
    connection: AsyncConnection, keys: Iterable[ScopedKey]
) -> dict[ScopedKey, Committed]:
    """The committed events with these idempotency keys, by key."""
    used = await idempotency_keys.find(connection, keys)
    if not used:
        return {}
    # Not a join: the ids tell PostgreSQL which of the partitions to look at.
    c = _EVENTS.c
    rows = await connection.execute(
        select(c.id, c.type, c.created_at, c.deliveries).where(
            c.id.in_([one.event_id for one in used])
        )
    )
    events = {row.id: row for row in rows}
    return {
        (one.scope, one.key): Committed(
            id=event.id,
            type=event.type,
            created_at=event.created_at,
            deliveries=event.deliveries,
            sha256=one.sha256,
        )
        for one in used
        if (event := events.get(one.event_id)) is not None
    }


async def _insert_deliveries(connection: AsyncConnection, drafts: Iterable[Draft]) -> None:
    rows: list[dict[str, Any]] = []
    for draft in drafts:
        for row in draft.delivery_rows():
            rows.append(row)
            if len(rows) == _ROWS_PER_INSERT:
                await _ADD_DELIVERIES.execute(connection, rows)
                rows = []
    if rows:
        await _ADD_DELIVERIES.execute(connection, rows)


def _is_dead(subscriber: Subscriber) -> bool:
    return subscriber.endpoint_state == EndpointState.DISABLED
