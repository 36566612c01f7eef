"""Events on their way into the database: as the caller gave them, as drafts of rows, committed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from sqlalchemy import Table, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import rfc3339
from hookfast.envelope import full_body
from hookfast.errors import Unavailable
from hookfast.ids import new_id
from hookfast.outcome import DeliveryStatus
from hookfast.storage.fan_out import Audience, Subscriber
from hookfast.storage.tables import Delivery, Event

_EVENTS: Table = Event.__table__
_DELIVERIES: Table = Delivery.__table__

ENDPOINT_DISABLED = "endpoint_disabled"
"""Reason of a delivery that is dead on arrival: its endpoint was disabled when the event came."""

_ROWS_PER_INSERT = 5_000  # bounds the memory of a broadcast to very many subscribers


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to emit. `data` is the exact JSON text of its data and `value` what that means."""

    type: str
    data: str
    value: Any
    tenant_id: str | None = None
    deliver_at: datetime | None = None
    idempotency_key: str | None = None

    @property
    def audience(self) -> Audience:
        """Its type, and who may see it."""
        return self.type, self.tenant_id

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

    @classmethod
    def of(
        cls, event: NewEvent, *, at: datetime, traceparent: str, subscribers: Sequence[Subscriber]
    ) -> Self:
        """The draft of `event`, created `at`."""
        committed = Committed(
            id=new_id("evt", at),
            type=event.type,
            created_at=at,
            deliveries=len(subscribers),
            sha256=None if event.idempotency_key is None else event.sha256(),
        )
        return cls(
            event=event, committed=committed, traceparent=traceparent, subscribers=subscribers
        )

    @property
    def deliver_at(self) -> datetime | None:
        """When to deliver it, unless that is now: a time that is past means now."""
        wanted = self.event.deliver_at
        return wanted if wanted is not None and wanted > self.committed.created_at else None

    @property
    def key(self) -> str | None:
        """Its idempotency key."""
        return self.event.idempotency_key

    @property
    def sha256(self) -> str | None:
        """Hash of what it says, when it has a key."""
        return self.committed.sha256

    def event_row(self, scope: str) -> dict[str, Any]:
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
            "idempotency_scope": None if self.key is None else scope,
            "idempotency_key": self.key,
            "idempotency_sha256": committed.sha256,
        }

    def delivery_rows(self) -> Iterator[dict[str, Any]]:
        """One row in `deliveries` per subscriber. Pending ones are the relay's to start; those to a
        disabled endpoint are dead letters at once, and count as started so that it leaves them."""
        now, deliver_at = self.committed.created_at, self.deliver_at
        for subscriber in self.subscribers:
            dead = subscriber.endpoint_state == "disabled"
            yield {
                "id": new_id("dlv", now),
                "event_id": self.committed.id,
                "subscription_id": subscriber.subscription_id,
                "endpoint_id": subscriber.endpoint_id,
                "tenant_id": subscriber.tenant_id,
                "event_type": self.event.type,
                "payload": subscriber.payload,
                "status": (DeliveryStatus.DEAD if dead else DeliveryStatus.PENDING).value,
                "reason": ENDPOINT_DISABLED if dead else None,
                "next_attempt_at": None if dead else deliver_at or now,
                "deliver_at": deliver_at,
                "created_at": now,
                "updated_at": now,
                "finished_at": now if dead else None,
                "started_at": now if dead else None,
            }


_ADD_EVENTS, _ADD_DELIVERIES = insert(_EVENTS), insert(_DELIVERIES)


async def commit_drafts(
    connection: AsyncConnection, drafts: Sequence[Draft], *, scope: str
) -> dict[str, Committed]:
    """Insert these events and their deliveries; return what is committed under each idempotency
    key, which another request may have used first: then its event stands and the draft is void.

    Raises Unavailable when that event vanished before it could be read.
    """
    plain = [draft for draft in drafts if draft.key is None]
    # In the order of their keys: two batches that share keys wait for each other in one order.
    keyed = {draft.key: draft for draft in sorted(drafts, key=_by_key) if draft.key is not None}
    if plain:
        await connection.execute(_ADD_EVENTS, [draft.event_row(scope) for draft in plain])
    committed: dict[str, Committed] = {}
    if keyed:
        inserted = await _insert_new(connection, keyed.values(), scope=scope)
        ours = {key: draft for key, draft in keyed.items() if draft.committed.id in inserted}
        plain += ours.values()
        committed = {key: draft.committed for key, draft in ours.items()}
        if theirs := keyed.keys() - ours.keys():
            committed |= await find_by_keys(connection, theirs, scope=scope)
        if committed.keys() != keyed.keys():
            raise Unavailable("An event was deleted while its idempotency key was in use; retry.")
    await _insert_deliveries(connection, plain)
    return committed


async def find_by_keys(
    connection: AsyncConnection, keys: Iterable[str], *, scope: str
) -> dict[str, Committed]:
    """The committed events with these idempotency keys, by key."""
    c = _EVENTS.c
    rows = await connection.execute(
        select(
            c.idempotency_key, c.id, c.type, c.created_at, c.deliveries, c.idempotency_sha256
        ).where(c.idempotency_scope == scope, c.idempotency_key.in_(keys))
    )
    return {
        key: Committed(
            id=event_id,
            type=event_type,
            created_at=created_at,
            deliveries=deliveries,
            sha256=sha256,
        )
        for key, event_id, event_type, created_at, deliveries, sha256 in rows
    }


async def _insert_new(
    connection: AsyncConnection, drafts: Iterable[Draft], *, scope: str
) -> set[str]:
    """Insert those events whose idempotency key is free, and return their ids."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = (
        dialect.insert(_EVENTS)
        .on_conflict_do_nothing(index_elements=["idempotency_scope", "idempotency_key"])
        .returning(_EVENTS.c.id)
    )
    rows = await connection.execute(statement, [draft.event_row(scope) for draft in drafts])
    return set(rows.scalars())


async def _insert_deliveries(connection: AsyncConnection, drafts: Iterable[Draft]) -> None:
    rows: list[dict[str, Any]] = []
    for draft in drafts:
        for row in draft.delivery_rows():
            rows.append(row)
            if len(rows) == _ROWS_PER_INSERT:
                await connection.execute(_ADD_DELIVERIES, rows)
                rows = []
    if rows:
        await connection.execute(_ADD_DELIVERIES, rows)


def _by_key(draft: Draft) -> str:
    return draft.key or ""
