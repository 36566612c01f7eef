"""What an attempt needs: the delivery, the event's bytes and the endpoint, with its secrets opened.

The relay has just read all of this for the deliveries it starts, so it primes the loader and their
first attempts, run eagerly in the same process, need no query at all. Whether an endpoint may be
sent to (its gate) is read anew each time, but for those who begin a moment after the relay read it;
the rest of it is cached until it is changed, events by size; a delivery is handed out once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.circuit import Gate
from hookfast.clock import Clock, utc_now
from hookfast.errors import Misconfigured, NotFound
from hookfast.keyring import Keyring
from hookfast.outcome import DeliveryStatus, Result
from hookfast.storage import attempts
from hookfast.storage.circuits import gates
from hookfast.storage.engine import Database
from hookfast.storage.inbox_entries import RawRequest
from hookfast.storage.outbox import PendingDelivery, find_pending
from hookfast.storage.raw_requests import RawRequests
from hookfast.storage.remembered import Remembered
from hookfast.storage.tables import Attempt, Event
from hookfast.storage.targets import Target, Targets

_EVENTS: Table = Event.__table__
_ATTEMPTS: Table = Attempt.__table__

_EVENT_CACHE_BYTES = 64 * 1024 * 1024
_PRIMED_LIMIT = 10_000
_PRIMED_FOR = timedelta(seconds=2)
"""How long what the relay read counts: a batch's first attempts begin within it unless the machine
cannot keep up. Somebody who pauses an endpoint may see it asked for that much longer."""


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
class EarlierAttempt:
    """The same attempt, already recorded: the worker that made it died before it could report.
    With the delivery's row it says what was decided then."""

    result: str
    status_code: int | None
    error: str | None
    status: DeliveryStatus
    reason: str | None
    next_attempt_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """Everything one attempt of a delivery needs; `earlier` when it has been made already. `raw`
    is what the event came in with, where that is sent on as it came. `wanted_at` is when the
    delivery was committed, or the time it is scheduled for."""

    delivery_id: str
    event_type: str
    wanted_at: datetime
    payload: str
    event: EventBody
    target: Target
    gate: Gate
    earlier: EarlierAttempt | None
    raw: RawRequest | None


@dataclass(frozen=True, slots=True)
class _Primed:
    """What the relay read of a delivery whose first attempt begins at once."""

    row: PendingDelivery
    gate: Gate
    read_at: datetime

    def counts(self, now: datetime) -> bool:
        """Whether that is not too old. Never with a clock that was set back."""
        return timedelta(0) <= now - self.read_at <= _PRIMED_FOR


class OutgoingLoader:
    """One per process. Raises NotFound for a delivery whose row or event is missing, Misconfigured
    for one whose endpoint cannot be used (its secret cannot be opened)."""

    def __init__(self, database: Database, keyring: Keyring, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._targets = Targets(keyring, clock=clock)
        self._events: Remembered[EventBody] = Remembered(
            lambda event: len(event.body), most_bytes=_EVENT_CACHE_BYTES
        )
        self._raws = RawRequests()
        self._primed: OrderedDict[str, _Primed] = OrderedDict()

    async def prime(
        self, connection: AsyncConnection, deliveries: Sequence[PendingDelivery]
    ) -> list[tuple[PendingDelivery, Target]]:
        """Read the events and endpoints of these deliveries, keep them for their first attempts,
        and return what their workflows are started with."""
        seen = await gates(connection, {row.endpoint_id for row in deliveries})
        targets = await self._targets.load(connection, seen)
        events = await self._load_events(connection, {row.event_id for row in deliveries})
        await self._load_raws(connection, deliveries, events)
        now = self._clock()
        for row in deliveries:
            if row.attempts or row.endpoint_id not in seen:
                continue
            if row.deliver_at is None or row.deliver_at <= now:
                self._primed[row.delivery_id] = _Primed(row, seen[row.endpoint_id].gate, now)
        while len(self._primed) > _PRIMED_LIMIT:
            self._primed.popitem(last=False)
        return [(row, targets[row.endpoint_id]) for row in deliveries if row.endpoint_id in targets]

    async def load(self, delivery_id: str, number: int, *, fresh: bool = False) -> Outgoing:
        """What attempt `number` of this delivery needs. `fresh`: it was not made before, so what
        the relay read counts, which knows of no attempt."""
        primed = self._primed.pop(delivery_id, None)
        if primed is not None and fresh and primed.counts(self._clock()):
            row = primed.row
            event = self._events.get(row.event_id)
            target = self._targets.known(row.endpoint_id)
            inbox_id = None if event is None else _raw_id(row, event)
            raw = None if inbox_id is None else self._raws.known(inbox_id)
            if event is not None and target is not None and (inbox_id is None or raw is not None):
                return _outgoing(row, event, target, primed.gate, earlier=None, raw=raw)
        async with self._database.read() as connection:
            found = await find_pending(connection, delivery_id)
            if found is None:
                raise NotFound(f"There is no delivery {delivery_id}.")
            row = found
            seen = await gates(connection, {row.endpoint_id})
            targets = await self._targets.load(connection, seen)
            events = await self._load_events(connection, {row.event_id})
            raws = await self._load_raws(connection, [row], events)
            earlier = await _earlier(connection, row, number)
        if row.event_id not in events:
            raise NotFound(f"The event of {delivery_id} is missing.")
        if row.endpoint_id not in targets:
            raise Misconfigured(f"The endpoint of {delivery_id} cannot be used now; see the log.")
        gate = seen[row.endpoint_id].gate
        target = targets[row.endpoint_id]
        event = events[row.event_id]
        raw = raws.get(_raw_id(row, event) or "")
        return _outgoing(row, event, target, gate, earlier=earlier, raw=raw)

    async def target(self, endpoint_id: str) -> Target:
        """An endpoint, whatever its state. Raises NotFound, and Misconfigured as `load` does."""
        async with self._database.read() as connection:
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
            c = _EVENTS.c
            rows = await connection.execute(
                select(c.id, c.tenant_id, c.created_at, c.body, c.traceparent, c.inbox_id).where(
                    c.id.in_(missing)
                )
            )
            for event_id, tenant_id, created_at, body, traceparent, inbox_id in rows:
                found[event_id] = EventBody(
                    event_id=event_id,
                    tenant_id=tenant_id,
                    created_at=created_at,
                    body=body,
                    traceparent=traceparent,
                    inbox_id=inbox_id,
                )
                self._events.keep(event_id, found[event_id])
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


async def _earlier(
    connection: AsyncConnection, row: PendingDelivery, number: int
) -> EarlierAttempt | None:
    c = _ATTEMPTS.c
    found = (
        await connection.execute(
            select(c.result, c.status_code, c.error)
            .where(attempts.of([row.delivery_id]), c.number == number)
            # of several, the one that moved the row (`late_attempts`)
            .order_by((c.result == Result.SUCCESS.value).desc(), c.id.desc())
            .limit(1)
        )
    ).first()
    if found is None:
        return None
    return EarlierAttempt(
        result=found.result,
        status_code=found.status_code,
        error=found.error,
        status=DeliveryStatus(row.status),
        reason=row.reason,
        next_attempt_at=row.next_attempt_at,
    )


def _raw_id(row: PendingDelivery, event: EventBody) -> str | None:
    """The entry whose request a delivery sends on; None for one that sends something else."""
    return event.inbox_id if row.payload == "raw" else None


def _outgoing(
    row: PendingDelivery,
    event: EventBody,
    target: Target,
    gate: Gate,
    *,
    earlier: EarlierAttempt | None,
    raw: RawRequest | None,
) -> Outgoing:
    return Outgoing(
        delivery_id=row.delivery_id,
        event_type=row.event_type,
        wanted_at=row.deliver_at or row.created_at,
        payload=row.payload,
        event=event,
        target=target,
        gate=gate,
        earlier=earlier,
        raw=raw,
    )
