"""What an attempt needs: the delivery, the event's bytes and the endpoint, with its secrets opened.

The relay has just read all of this for the deliveries it starts, so it primes the loader and their
first attempts, run eagerly in the same process, need no query at all. Endpoints are cached for two
seconds (a change reaches every worker within that), events by size; a delivery is handed out once.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_network
from typing import Any

import structlog
from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock, utc_now
from hookfast.errors import HookfastError, Misconfigured, NotFound
from hookfast.keyring import Keyring
from hookfast.outcome import DeliveryStatus
from hookfast.retry_plan import PlanSpec
from hookfast.settings import Network
from hookfast.signature import HashName, Profile, parse_profiles, secret_key
from hookfast.storage.engine import Database
from hookfast.storage.outbox import PendingDelivery, find_pending
from hookfast.storage.tables import Attempt, Endpoint, Event

_ENDPOINTS: Table = Endpoint.__table__
_EVENTS: Table = Event.__table__
_ATTEMPTS: Table = Attempt.__table__

_ENDPOINT_SECONDS = 2.0
_EVENT_CACHE_BYTES = 64 * 1024 * 1024
_PRIMED_LIMIT = 10_000

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An endpoint as an attempt sees it. `state` is why nothing may be sent, when not `enabled`."""

    endpoint_id: str
    url: str
    state: str
    keys: tuple[bytes, ...]
    profiles: tuple[Profile, ...]
    hash_name: HashName
    headers: dict[str, str]
    plan: PlanSpec
    timeout_seconds: float
    allowed_networks: tuple[Network, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBody:
    """An event as an attempt sees it: the bytes that are signed and sent."""

    event_id: str
    tenant_id: str | None
    created_at: datetime
    body: bytes
    traceparent: str


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
    """Everything one attempt of a delivery needs; `earlier` when it has been made already."""

    delivery_id: str
    event_type: str
    payload: str
    event: EventBody
    target: Target
    earlier: EarlierAttempt | None


class OutgoingLoader:
    """One per process. Raises NotFound for a delivery whose row or event is missing, Misconfigured
    for one whose endpoint cannot be used (its secret cannot be opened)."""

    def __init__(self, database: Database, keyring: Keyring, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._keyring = keyring
        self._clock = clock
        self._targets: dict[str, tuple[float, Target]] = {}
        self._events: OrderedDict[str, EventBody] = OrderedDict()
        self._event_bytes = 0
        self._primed: OrderedDict[str, PendingDelivery] = OrderedDict()

    async def prime(
        self, connection: AsyncConnection, deliveries: Sequence[PendingDelivery]
    ) -> list[tuple[PendingDelivery, Target]]:
        """Read the events and endpoints of these deliveries, keep them for their first attempts,
        and return what their workflows are started with."""
        targets = await self._load_targets(connection, {row.endpoint_id for row in deliveries})
        await self._load_events(connection, {row.event_id for row in deliveries})
        for row in deliveries:
            if row.attempts == 0:
                self._primed[row.delivery_id] = row
        while len(self._primed) > _PRIMED_LIMIT:
            self._primed.popitem(last=False)
        return [(row, targets[row.endpoint_id]) for row in deliveries if row.endpoint_id in targets]

    async def load(self, delivery_id: str, number: int) -> Outgoing:
        """What attempt `number` of this delivery needs."""
        row = self._primed.pop(delivery_id, None) if number == 1 else None
        if row is not None:
            event = self._events.get(row.event_id)
            target = self._fresh_target(row.endpoint_id)
            if event is not None and target is not None:
                return _outgoing(row, event, target, earlier=None)
        async with self._database.read() as connection:
            row = await find_pending(connection, delivery_id)
            if row is None:
                raise NotFound(f"There is no delivery {delivery_id}.")
            targets = await self._load_targets(connection, {row.endpoint_id})
            events = await self._load_events(connection, {row.event_id})
            earlier = await _earlier(connection, row, number)
        if row.event_id not in events:
            raise NotFound(f"The event of {delivery_id} is missing.")
        if row.endpoint_id not in targets:
            raise Misconfigured(f"The endpoint of {delivery_id} cannot be used now; see the log.")
        return _outgoing(row, events[row.event_id], targets[row.endpoint_id], earlier=earlier)

    def _fresh_target(self, endpoint_id: str) -> Target | None:
        known = self._targets.get(endpoint_id)
        if known is None or time.monotonic() - known[0] > _ENDPOINT_SECONDS:
            return None
        return known[1]

    async def _load_targets(
        self, connection: AsyncConnection, endpoint_ids: set[str]
    ) -> dict[str, Target]:
        found: dict[str, Target] = {}
        missing = []
        for endpoint_id in endpoint_ids:
            if (target := self._fresh_target(endpoint_id)) is not None:
                found[endpoint_id] = target
            else:
                missing.append(endpoint_id)
        if missing:
            rows = await connection.execute(
                select(_ENDPOINTS).where(_ENDPOINTS.c.id.in_(sorted(missing)))
            )
            now = time.monotonic()
            for row in rows.mappings():
                try:
                    found[row["id"]] = self._open(row)
                except HookfastError as error:
                    # a key that is missing, say: it must not stop the other endpoints' deliveries
                    log.error(
                        "An endpoint cannot be used.", endpoint_id=row["id"], error=error.message
                    )
                else:
                    self._targets[row["id"]] = (now, found[row["id"]])
            if len(self._targets) > _PRIMED_LIMIT:
                self._targets = {
                    key: known
                    for key, known in self._targets.items()
                    if now - known[0] <= _ENDPOINT_SECONDS
                }
        return found

    def _open(self, row: Any) -> Target:
        now = self._clock()
        keys = tuple(
            secret_key(self._keyring.open(secret["sealed"], context=row["id"]))
            for secret in row["secrets"]
            if secret.get("expires_at") is None
            or datetime.fromisoformat(secret["expires_at"]) > now
        )
        return Target(
            endpoint_id=row["id"],
            url=row["url"],
            state="deleted" if row["deleted_at"] is not None else row["state"],
            keys=keys,
            profiles=parse_profiles(row["signatures"]),
            hash_name=HashName(row["signature_hash"]),
            headers=row["headers"],
            plan=row["retry_plan"],
            timeout_seconds=row["timeout_seconds"],
            allowed_networks=tuple(ip_network(text) for text in row["allowed_networks"]),
        )

    async def _load_events(
        self, connection: AsyncConnection, event_ids: set[str]
    ) -> dict[str, EventBody]:
        found = {key: self._events[key] for key in event_ids if key in self._events}
        missing = sorted(event_ids - found.keys())
        if missing:
            c = _EVENTS.c
            rows = await connection.execute(
                select(c.id, c.tenant_id, c.created_at, c.body, c.traceparent).where(
                    c.id.in_(missing)
                )
            )
            for event_id, tenant_id, created_at, body, traceparent in rows:
                found[event_id] = EventBody(
                    event_id=event_id,
                    tenant_id=tenant_id,
                    created_at=created_at,
                    body=body,
                    traceparent=traceparent,
                )
                self._remember(found[event_id])
        return found

    def _remember(self, event: EventBody) -> None:
        self._events[event.event_id] = event
        self._event_bytes += len(event.body)
        while self._event_bytes > _EVENT_CACHE_BYTES:
            _, oldest = self._events.popitem(last=False)
            self._event_bytes -= len(oldest.body)


async def _earlier(
    connection: AsyncConnection, row: PendingDelivery, number: int
) -> EarlierAttempt | None:
    c = _ATTEMPTS.c
    found = (
        await connection.execute(
            select(c.result, c.status_code, c.error)
            .where(c.delivery_id == row.delivery_id, c.number == number)
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


def _outgoing(
    row: PendingDelivery, event: EventBody, target: Target, *, earlier: EarlierAttempt | None
) -> Outgoing:
    return Outgoing(
        delivery_id=row.delivery_id,
        event_type=row.event_type,
        payload=row.payload,
        event=event,
        target=target,
        earlier=earlier,
    )
