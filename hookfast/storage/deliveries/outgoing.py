"""Loads what an attempt needs: the delivery, its event, and the endpoint with decrypted secrets.
Bodies of more than 16 KiB are left to `bodies`.

The relay loads the deliveries of a batch all at once, in the transaction that leases them, and
hands them over as values: alone, each costs many times as much. Whether a delivery may be sent (its
life, its endpoint's gate) is read again, with one statement, before an attempt that begins later
than a moment after it was read. The rest is cached until it changes, events within a size limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from cachetools import LRUCache
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock, utc_now
from hookfast.deliveries.retry_plan import PlanSpec
from hookfast.endpoints.gate import Due, Gate, due_attempt
from hookfast.errors import NotFound
from hookfast.signing.keyring import Keyring
from hookfast.storage.circuits.circuits import gates
from hookfast.storage.database.engine import Database
from hookfast.storage.database.prepared import AnyOf, Prepared
from hookfast.storage.database.small_body import small_body
from hookfast.storage.deliveries.bodies import StoredBody
from hookfast.storage.deliveries.outbox import BatchLease, PendingDelivery, find_many_pending
from hookfast.storage.endpoints import mappings
from hookfast.storage.endpoints.endpoint_cache import CachedEndpoint, EndpointCache
from hookfast.storage.inbox import inbox_entries
from hookfast.storage.inbox.inbox_entries import RawRequest
from hookfast.storage.tables import Event

_E = Event.__table__.c
_FIND_EVENTS = Prepared(
    select(
        *(_E.id, _E.tenant_id, _E.created_at, *small_body(_E.body), _E.traceparent, _E.inbox_id),
        _E.hops,
    ).where(AnyOf(_E.id, "ids"))
)

# 1,700 small events, many more than a worker has in hand. With 8 MiB it took 7 MiB more after
# 20,000 deliveries (127 and 134).
_CACHE_BYTES = 2 * 1024 * 1024
_EVENT_BYTES = 700  # memory of a cached event, without its body
_RAW_BYTES = 2_000  # memory of a cached request with its headers, without its body
FRESH_SECONDS = 0.5
"""Seconds for which a read of a delivery and its endpoint is valid. Before a request that begins
later, both are read again (see `activities.delivery`), so nothing is sent that long after a cancel,
a pause or a circuit's opening was committed, however long a worker was frozen."""


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event as an attempt uses it. `body` is the bytes that are signed and sent, unless they are
    many; `size` says how many."""

    event_id: str
    tenant_id: str | None
    created_at: datetime
    size: int
    body: bytes | None
    traceparent: str
    inbox_id: str | None
    hops: int = 0


@dataclass(frozen=True, slots=True)
class DeliveryWithEndpoint:
    """A delivery's row and its endpoint, as they were read."""

    row: PendingDelivery
    endpoint: CachedEndpoint

    @property
    def delivery_id(self) -> str:
        """The delivery's id."""
        return self.row.delivery_id

    @property
    def gate(self) -> Gate:
        """The gate of its endpoint."""
        return self.row.gate.gate


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing(DeliveryWithEndpoint):
    """Everything that one attempt of a delivery needs, except for a large body. `raw` is the
    original inbound request if the delivery forwards it unchanged. `mapping` makes the body if the
    payload is `mapped`; None: the subscription's is not known. `plan` is the retry plan that the
    delivery started with. The row is as of `read_at`, in the event loop's time."""

    event: OutgoingEvent
    raw: RawRequest | None
    mapping: str | None
    plan: PlanSpec
    read_at: float

    @property
    def is_recent(self) -> bool:
        """Whether the row is still valid without reading it again."""
        return asyncio.get_running_loop().time() - self.read_at <= FRESH_SECONDS

    def due(self, now: datetime, *, in_batch: bool = False) -> Due:
        """Return the attempt that is due by its row, and whether it is sent."""
        return due_attempt(self.row.life, self.gate, self.delivery_id, now, in_batch=in_batch)

    @property
    def stored_body(self) -> StoredBody | None:
        """The stored body that the attempt sends, or makes its body of. None: it needs none."""
        event, raw = self.event, self.raw
        if raw is not None:
            return None if raw.damaged else StoredBody("inbox", raw.inbox_id, raw.size, raw.body)
        if self.row.payload == "thin":
            return None
        # also for `raw`, if the event came in through no source or its request is not kept any more
        return StoredBody("events", event.event_id, event.size, event.body)


class OutgoingLoader:
    """Loads and caches what attempts need. One per process. Raises NotFound if a delivery's row or
    event is missing."""

    def __init__(self, database: Database, keyring: Keyring, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._endpoints = EndpointCache(keyring, clock=clock)
        self._events: LRUCache[str, OutgoingEvent] = LRUCache(
            _CACHE_BYTES, getsizeof=lambda event: len(event.body or b"") + _EVENT_BYTES
        )
        self._raws: LRUCache[str, RawRequest] = LRUCache(
            _CACHE_BYTES, getsizeof=lambda raw: len(raw.body or b"") + _RAW_BYTES
        )

    async def with_endpoints(
        self, connection: AsyncConnection, deliveries: Sequence[PendingDelivery]
    ) -> list[DeliveryWithEndpoint]:
        """Return these deliveries with their endpoints."""
        current = {row.endpoint_id: row.gate for row in deliveries}
        endpoints = await self._endpoints.load(connection, current)
        return [DeliveryWithEndpoint(row, endpoints[row.endpoint_id]) for row in deliveries]

    async def read_events(
        self, connection: AsyncConnection, deliveries: Sequence[PendingDelivery]
    ) -> None:
        """Read the events of these deliveries, for their starts and their first attempts."""
        await self._load_events(connection, {row.event_id for row in deliveries})

    async def of_rows(
        self,
        connection: AsyncConnection,
        deliveries: Sequence[DeliveryWithEndpoint],
        *,
        read_at: float,
        plan: PlanSpec | None = None,
        batch: BatchLease | None = None,
    ) -> list[Outgoing]:
        """Return what the attempts of these deliveries need, without those whose event is missing.
        They were read at `read_at`, and are about to be given to `batch`. `plan` is the retry plan
        that they started with (None: their endpoint's)."""
        rows = [one.row for one in deliveries]
        events = await self._load_events(connection, {row.event_id for row in rows})
        raws = await self._load_raws(connection, rows, events)
        mapped = await _load_mappings(connection, rows)
        return [
            Outgoing(
                row=one.row if batch is None else _given_to(batch, one.row),
                endpoint=one.endpoint,
                event=event,
                raw=raws.get(_raw_id(one.row, event) or ""),
                mapping=mapped.get(one.row.subscription_id),
                plan=one.endpoint.plan if plan is None else plan,
                read_at=read_at,
            )
            for one in deliveries
            if (event := events.get(one.row.event_id)) is not None
        ]

    async def load(self, delivery_id: str, *, plan: PlanSpec | None = None) -> Outgoing:
        """Return what the next attempt of this delivery needs. `plan` is the retry plan that it
        started with (None: its endpoint's)."""
        found = await self.load_many([delivery_id], plan=plan)
        if not found:
            raise NotFound(f"There is no delivery {delivery_id}, or its event is missing.")
        return found[0]

    async def load_many(
        self, delivery_ids: Sequence[str], *, plan: PlanSpec | None = None
    ) -> list[Outgoing]:
        """Return what the attempts of these deliveries need, as `load` does. Those without a row or
        an event are left out."""
        read_at = asyncio.get_running_loop().time()
        async with self._database.read(quick=True) as connection:
            rows = await find_many_pending(connection, delivery_ids)
            known = await self.with_endpoints(connection, rows)
            return await self.of_rows(connection, known, read_at=read_at, plan=plan)

    async def refresh_many(self, deliveries: Iterable[Outgoing]) -> dict[str, Outgoing]:
        """Read again, all at once, what may have changed of these deliveries. Those that no longer
        exist are left out."""
        before = {one.delivery_id: one for one in deliveries}
        read_at = asyncio.get_running_loop().time()
        async with self._database.read(quick=True) as connection:
            rows = await find_many_pending(connection, list(before))
            known = await self.with_endpoints(connection, rows)
        return {
            one.delivery_id: replace(
                before[one.delivery_id],
                row=one.row,
                endpoint=one.endpoint,
                read_at=read_at,
            )
            for one in known
        }

    async def refresh(self, outgoing: Outgoing) -> Outgoing:
        """Read again what may have changed. Raises NotFound if the delivery no longer exists."""
        found = await self.refresh_many([outgoing])
        if not found:
            raise NotFound(f"There is no delivery {outgoing.delivery_id}.")
        return found[outgoing.delivery_id]

    async def load_endpoint(self, endpoint_id: str) -> CachedEndpoint:
        """Return an endpoint in any state. Raises NotFound."""
        async with self._database.read(quick=True) as connection:
            current = await gates(connection, {endpoint_id})
            endpoints = await self._endpoints.load(connection, current)
        if endpoint_id not in current:
            raise NotFound("There is no such endpoint.")
        return endpoints[endpoint_id]

    def traceparent_of(self, event_id: str) -> str | None:
        """Return the trace of an event that was read recently, or None for any other event."""
        event = self._events.get(event_id)
        return None if event is None else event.traceparent

    def forget_event(self, outgoing: Outgoing) -> None:
        """Read the delivery's event and original request again, because a body was deleted."""
        self._events.pop(outgoing.event.event_id, None)
        if outgoing.raw is not None:
            self._raws.pop(outgoing.raw.inbox_id, None)

    async def _load_events(
        self, connection: AsyncConnection, event_ids: set[str]
    ) -> dict[str, OutgoingEvent]:
        found = {key: event for key in event_ids if (event := self._events.get(key)) is not None}
        missing = sorted(event_ids - found.keys())
        if missing:
            for row in await _FIND_EVENTS.rows(connection, {"ids": missing}):
                event = OutgoingEvent(*row)
                found[event.event_id] = self._events[event.event_id] = event
        return found

    async def _load_raws(
        self,
        connection: AsyncConnection,
        deliveries: Sequence[PendingDelivery],
        events: Mapping[str, OutgoingEvent],
    ) -> dict[str, RawRequest]:
        """Return the original requests of the deliveries with payload style `raw`, by inbox id."""
        inbox_ids = {
            inbox_id
            for row in deliveries
            if (event := events.get(row.event_id)) is not None
            and (inbox_id := _raw_id(row, event)) is not None
        }
        found = {one: raw for one in inbox_ids if (raw := self._raws.get(one)) is not None}
        if missing := inbox_ids - found.keys():
            loaded = await inbox_entries.raw_requests(connection, missing, whole=False)
            self._raws.update({one: raw for one, raw in loaded.items() if not raw.damaged})
            found |= loaded
        return found


async def _load_mappings(
    connection: AsyncConnection, deliveries: Sequence[PendingDelivery]
) -> dict[str, str]:
    """Return the mappings of the deliveries with payload style `mapped`, by subscription id. They
    are read again for each attempt, so that a corrected mapping is used for retries and resends."""
    return await mappings.latest(
        connection, {row.subscription_id for row in deliveries if row.payload == "mapped"}
    )


def _raw_id(row: PendingDelivery, event: OutgoingEvent) -> str | None:
    """Return the id of the inbox entry whose request a delivery forwards, or None."""
    return event.inbox_id if row.payload == "raw" else None


def _given_to(batch: BatchLease, row: PendingDelivery) -> PendingDelivery:
    life = replace(row.life, batch_until=batch.until)
    return replace(row, batch_id=batch.batch_id, life=life)
