"""What an attempt needs: the delivery, the event's bytes and the endpoint, with its secrets opened.

The relay has just read all of this for the deliveries it starts, so it primes the loader and their
first attempts, run eagerly in the same process, need no query at all. Whether a delivery may go
(its life, its endpoint's gate) is read anew each time, but for those that begin a moment after the
relay read it; the rest is cached until it is changed, events by size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from cachetools import LRUCache
from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock, utc_now
from hookfast.deliveries.life import Life
from hookfast.deliveries.retry_plan import PlanSpec
from hookfast.endpoints.circuit import Gate
from hookfast.errors import Misconfigured, NotFound
from hookfast.signing.keyring import Keyring
from hookfast.storage.circuits.circuits import gates
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import lives
from hookfast.storage.deliveries.outbox import (
    PendingDelivery,
    find_all_pending,
    find_pending,
    unchanged,
)
from hookfast.storage.endpoints.endpoint_cache import CachedEndpoint, EndpointCache
from hookfast.storage.inbox.inbox_entries import RawRequest
from hookfast.storage.inbox.raw_requests import RawRequests
from hookfast.storage.tables import Event

_E = Event.__table__.c
# Built once: to build its condition for each claim took 6 % of a worker's busy time at 50/s.
_FIND_EVENTS = select(
    _E.id, _E.tenant_id, _E.created_at, _E.body, _E.traceparent, _E.inbox_id
).where(_E.id.in_(bindparam("ids", expanding=True)))

_EVENT_CACHE_BYTES = 8 * 1024 * 1024
_EVENT_BYTES = 700  # of one, without its body
_PRIMED_LIMIT = 10_000
COUNTS_FOR = 0.5
"""Seconds that what was read of a delivery and its endpoint counts. A request that begins later
than that is preceded by a second look (see `activities.delivery`), so nothing is sent so long after
a cancel, a pause or a circuit's opening was committed, however long a worker was frozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBody:
    """An event as an attempt sees it: the bytes that are signed and sent."""

    event_id: str
    tenant_id: str | None
    created_at: datetime
    body: bytes
    traceparent: str
    inbox_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """Everything one attempt of a delivery needs. `raw` is what the event came in with, where that
    is sent on as it came. `plan` is the one it started with. `wanted_at` is when the delivery was
    committed, or the time it is scheduled for. `batch_id` is the batch that took its first attempt.
    `life` and `gate` are as of `read_at`, in the event loop's time."""

    delivery_id: str
    event_type: str
    wanted_at: datetime
    payload: str
    event: EventBody
    target: CachedEndpoint
    gate: Gate
    raw: RawRequest | None
    plan: PlanSpec
    batch_id: str | None
    life: Life
    read_at: float

    @property
    def fresh(self) -> bool:
        """Whether `life` and `gate` still count without a second look."""
        return asyncio.get_running_loop().time() - self.read_at <= COUNTS_FOR


@dataclass(frozen=True, slots=True)
class _Primed:
    """What the relay read of a delivery whose first attempt begins at once."""

    row: PendingDelivery
    gate: Gate
    read_at: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """A delivery that the relay sends on its way, with its endpoint as it is now."""

    row: PendingDelivery
    target: CachedEndpoint
    gate: Gate

    def in_batch(self, batch_id: str, until: datetime) -> Chosen:
        """The same after a batch has taken it."""
        life = replace(self.row.life, batch_until=until)
        return replace(self, row=replace(self.row, batch_id=batch_id, life=life))


class OutgoingLoader:
    """One per process. Raises NotFound for a delivery whose row or event is missing, Misconfigured
    for one whose endpoint cannot be used (its secret cannot be opened)."""

    def __init__(self, database: Database, keyring: Keyring, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._targets = EndpointCache(keyring, clock=clock)
        self._events: LRUCache[str, EventBody] = LRUCache(
            _EVENT_CACHE_BYTES, getsizeof=lambda event: len(event.body) + _EVENT_BYTES
        )
        self._raws = RawRequests()
        self._primed: LRUCache[str, _Primed] = LRUCache(_PRIMED_LIMIT)

    async def choose(
        self, connection: AsyncConnection, deliveries: Sequence[PendingDelivery]
    ) -> list[Chosen]:
        """These deliveries with their endpoints. Those whose endpoint cannot be used are left out;
        why is in the log."""
        seen = await gates(connection, {row.endpoint_id for row in deliveries})
        targets = await self._targets.load(connection, seen)
        return [
            Chosen(row, targets[row.endpoint_id], seen[row.endpoint_id].gate)
            for row in deliveries
            if row.endpoint_id in targets
        ]

    async def prime(
        self, connection: AsyncConnection, chosen: Sequence[Chosen], *, read_at: float
    ) -> None:
        """Read the events of these deliveries, which were read at `read_at`, and keep all of it for
        their first attempts."""
        new = [one.row for one in chosen if one.row.new]
        events = await self._load_events(connection, {row.event_id for row in new})
        await self._load_raws(connection, new, events)
        now = self._clock()
        for one in chosen:
            row = one.row
            if row.new and (row.deliver_at is None or row.deliver_at <= now):
                self._primed[row.delivery_id] = _Primed(row, one.gate, read_at)

    async def renew(self, delivery_ids: Sequence[str], *, batch_id: str) -> None:
        """Read these deliveries of a batch, all at once, where what is known of them is not fresh.
        Of those that are as they were only that is read."""
        now = asyncio.get_running_loop().time()
        stale = [
            one
            for one in delivery_ids
            if (primed := self._primed.get(one)) is None or now - primed.read_at > COUNTS_FOR / 2
        ]
        if not stale:
            return
        async with self._database.read(quick=True) as connection:
            same = await unchanged(connection, stale, batch_id=batch_id)
            known = {
                one: self._primed[one].row for one in stale if one in same and one in self._primed
            }
            others = [one for one in stale if one not in known]
            rows = [*known.values(), *await find_all_pending(connection, others)]
            await self.prime(connection, await self.choose(connection, rows), read_at=now)

    def endpoints_of(self, delivery_ids: Iterable[str]) -> dict[str, str]:
        """Where those of these deliveries go whose first attempt is about to begin."""
        primed = ((one, self._primed.get(one)) for one in delivery_ids)
        return {one: known.row.endpoint_id for one, known in primed if known is not None}

    async def load(
        self, delivery_id: str, *, plan: PlanSpec | None = None, fresh: bool = False
    ) -> Outgoing:
        """What the next attempt of this delivery needs. `plan` is the one it started with (None:
        its endpoint's). `fresh`: none was made before, so what the relay read counts, which knows
        of no attempt."""
        primed = self._primed.pop(delivery_id, None)
        if primed is not None and fresh and (known := self._known(primed, plan)) is not None:
            return known if known.fresh else await self.refresh(known)
        read_at = asyncio.get_running_loop().time()
        async with self._database.read(quick=True) as connection:
            row = await find_pending(connection, delivery_id)
            if row is None:
                raise NotFound(f"There is no delivery {delivery_id}.")
            seen = await gates(connection, {row.endpoint_id})
            targets = await self._targets.load(connection, seen)
            events = await self._load_events(connection, {row.event_id})
            raws = await self._load_raws(connection, [row], events)
        if row.event_id not in events:
            raise NotFound(f"The event of {delivery_id} is missing.")
        if row.endpoint_id not in targets:
            raise Misconfigured(f"The endpoint of {delivery_id} cannot be used now; see the log.")
        event = events[row.event_id]
        return _outgoing(
            row,
            event,
            targets[row.endpoint_id],
            seen[row.endpoint_id].gate,
            raw=raws.get(_raw_id(row, event) or ""),
            plan=plan,
            read_at=read_at,
        )

    async def refresh(self, outgoing: Outgoing) -> Outgoing:
        """The same, with what may have changed read anew: the life, the gate and the endpoint.
        Raises NotFound for a delivery that is gone, Misconfigured as `load` does."""
        endpoint_id, read_at = outgoing.target.endpoint_id, asyncio.get_running_loop().time()
        async with self._database.read(quick=True) as connection:
            life = await lives.read(connection, outgoing.delivery_id)
            seen = await gates(connection, {endpoint_id})
            targets = await self._targets.load(connection, seen)
        if life is None or endpoint_id not in seen:
            raise NotFound(f"There is no delivery {outgoing.delivery_id}.")
        if endpoint_id not in targets:
            raise Misconfigured(f"The endpoint {endpoint_id} cannot be used now; see the log.")
        return replace(
            outgoing,
            life=life,
            gate=seen[endpoint_id].gate,
            target=targets[endpoint_id],
            read_at=read_at,
        )

    def _known(self, primed: _Primed, plan: PlanSpec | None) -> Outgoing | None:
        """It from memory; None where something of it is not kept any more."""
        row = primed.row
        event = self._events.get(row.event_id)
        target = self._targets.known(row.endpoint_id)
        if event is None or target is None:
            return None
        inbox_id = _raw_id(row, event)
        raw = None if inbox_id is None else self._raws.known(inbox_id)
        if inbox_id is not None and raw is None:
            return None
        return _outgoing(
            row, event, target, primed.gate, raw=raw, plan=plan, read_at=primed.read_at
        )

    async def target(self, endpoint_id: str) -> CachedEndpoint:
        """An endpoint, whatever its state. Raises NotFound, and Misconfigured as `load` does."""
        async with self._database.read(quick=True) as connection:
            seen = await gates(connection, {endpoint_id})
            targets = await self._targets.load(connection, seen)
        if endpoint_id not in seen:
            raise NotFound("There is no such endpoint.")
        if endpoint_id not in targets:
            raise Misconfigured(f"The endpoint {endpoint_id} cannot be used now; see the log.")
        return targets[endpoint_id]

    def traceparent_of(self, event_id: str) -> str | None:
        """The trace of an event that was read lately; None of any other."""
        event = self._events.get(event_id)
        return None if event is None else event.traceparent

    def forget_primed(self) -> None:
        """A circuit changed in this process: first attempts that have not begun read anew whether
        they may go."""
        self._primed.clear()

    async def _load_events(
        self, connection: AsyncConnection, event_ids: set[str]
    ) -> dict[str, EventBody]:
        found = {key: event for key in event_ids if (event := self._events.get(key)) is not None}
        missing = sorted(event_ids - found.keys())
        if missing:
            rows = await connection.execute(_FIND_EVENTS, {"ids": missing})
            for event_id, tenant_id, created_at, body, traceparent, inbox_id in rows:
                found[event_id] = EventBody(
                    event_id=event_id,
                    tenant_id=tenant_id,
                    created_at=created_at,
                    body=body,
                    traceparent=traceparent,
                    inbox_id=inbox_id,
                )
                self._events[event_id] = found[event_id]
        return found

    async def _load_raws(
        self,
        connection: AsyncConnection,
        deliveries: Sequence[PendingDelivery],
        events: Mapping[str, EventBody],
    ) -> dict[str, RawRequest]:
        """What those of these deliveries send that send it as it came."""
        wanted = {
            inbox_id
            for row in deliveries
            if (event := events.get(row.event_id)) is not None
            and (inbox_id := _raw_id(row, event)) is not None
        }
        return await self._raws.load(connection, wanted) if wanted else {}


def _raw_id(row: PendingDelivery, event: EventBody) -> str | None:
    """The entry whose request a delivery sends on; None for one that sends something else."""
    return event.inbox_id if row.payload == "raw" else None


def _outgoing(
    row: PendingDelivery,
    event: EventBody,
    target: CachedEndpoint,
    gate: Gate,
    *,
    raw: RawRequest | None,
    plan: PlanSpec | None,
    read_at: float,
) -> Outgoing:
    return Outgoing(
        delivery_id=row.delivery_id,
        event_type=row.event_type,
        wanted_at=row.deliver_at or row.created_at,
        payload=row.payload,
        event=event,
        target=target,
        gate=gate,
        raw=raw,
        plan=target.plan if plan is None else plan,
        batch_id=row.batch_id,
        life=row.life,
        read_at=read_at,
    )
