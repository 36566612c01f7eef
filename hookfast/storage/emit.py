"""Emitting: events in, one `deliveries` row per matching subscription out, in one transaction.

This is the transactional outbox: once `emit` returns, every delivery it counted will be made, and
nothing but the database stood between the caller and that promise. All look-ups happen before the
write, so that SQLite's one writer is held for two inserts and a commit. A subscription or endpoint
that changes in between changed while the event was being emitted: either order is right, and the
attempt looks at its endpoint again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock, utc_now
from hookfast.errors import Conflict, HookfastError, InvalidInput, NotFound
from hookfast.storage.doorbell import Doorbell
from hookfast.storage.engine import Database
from hookfast.storage.fan_out import Audience, Subscriber, find_subscribers
from hookfast.storage.new_events import Committed, Draft, NewEvent, commit_drafts, find_by_keys
from hookfast.storage.schemas import Schema, SchemaCache
from hookfast.storage.tables import Tenant

_TENANTS: Table = Tenant.__table__

# Judging more data than this (schemas, hashes) moves to a thread: it takes longer than other
# requests should wait.
_THREAD_CHARACTERS = 65_536


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event that is committed. `replayed`: by an earlier request with its idempotency key."""

    event: Committed
    replayed: bool


EmitResult: TypeAlias = "Accepted | HookfastError"


class Emitter:
    """One per process."""

    def __init__(self, database: Database, doorbell: Doorbell, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._doorbell = doorbell
        self._clock = clock
        self._schemas = SchemaCache()

    async def emit(
        self, events: Sequence[NewEvent], *, scope: str, traceparent: str
    ) -> list[EmitResult]:
        """Commit the events that can be accepted, all in one transaction, and answer for each, in
        order: what was accepted, or why it was not (InvalidInput, NotFound, Conflict).

        `scope` is where idempotency keys are unique. Raises the database's errors; nothing is
        stored then, or the caller cannot know and repeats it with its idempotency keys.
        """
        if not events:
            return []
        async with self._database.read() as connection:
            facts = await self._look_up(connection, events, scope=scope)
        if sum(len(event.data) for event in events) > _THREAD_CHARACTERS:
            verdicts = await asyncio.to_thread(self._judge, events, facts, traceparent)
        else:
            verdicts = self._judge(events, facts, traceparent)
        committed = dict(facts.earlier)
        if drafts := [verdict for verdict in verdicts if isinstance(verdict, Draft)]:
            async with self._database.write() as connection:
                committed |= await commit_drafts(connection, drafts, scope=scope)
            self._doorbell.ring()
        return [_result(verdict, committed) for verdict in verdicts]

    async def _look_up(
        self, connection: AsyncConnection, events: Sequence[NewEvent], *, scope: str
    ) -> _Facts:
        keys = {event.idempotency_key for event in events if event.idempotency_key is not None}
        earlier = await find_by_keys(connection, keys, scope=scope) if keys else {}
        schemas = await self._schemas.load(connection, {event.type for event in events})
        audiences = {event.audience for event in events if event.type in schemas}
        subscribers = await find_subscribers(connection, audiences)
        # A tenant with a subscription exists: only the others have to be asked for.
        tenants = {tenant for (_, tenant), found in subscribers.items() if tenant and found}
        unseen = {tenant for _, tenant in audiences if tenant} - tenants
        if unseen:
            tenants |= await _find_tenants(connection, unseen)
        return _Facts(earlier, schemas, subscribers, tenants)

    def _judge(self, events: Sequence[NewEvent], facts: _Facts, traceparent: str) -> list[_Verdict]:
        """What is to be done with each event."""
        now = self._clock()
        verdicts: list[_Verdict] = []
        taken = set(facts.earlier)
        for position, event in enumerate(events):
            key = event.idempotency_key
            if key is not None and key in taken:
                verdicts.append(_Repeated(key, event.sha256()))
                continue
            try:
                facts.check(event)
            except HookfastError as error:
                verdicts.append(error)
                continue
            if key is not None:
                taken.add(key)
            verdicts.append(
                Draft.of(
                    event,
                    # a microsecond apart: the events of a batch sort as they were sent
                    at=now + timedelta(microseconds=position),
                    traceparent=traceparent,
                    subscribers=facts.subscribers[event.audience],
                )
            )
        return verdicts


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the database says about the events to emit."""

    earlier: Mapping[str, Committed]
    schemas: Mapping[str, Schema]
    subscribers: Mapping[Audience, Sequence[Subscriber]]
    tenants: Set[str]

    def check(self, event: NewEvent) -> None:
        """Raises InvalidInput (`unknown_event_type`, `schema_…`) or NotFound."""
        schema = self.schemas.get(event.type)
        if schema is None:
            raise InvalidInput.at(
                "/type",
                "this event type is not registered; `PUT /v1/event-types/{name}` registers it",
                code="unknown_event_type",
            )
        if event.tenant_id is not None and event.tenant_id not in self.tenants:
            raise NotFound("There is no such tenant.")
        schema.check(event.value)


@dataclass(frozen=True, slots=True)
class _Repeated:
    """An event whose idempotency key is taken: by an earlier request, or earlier in its batch."""

    key: str
    sha256: str


_Verdict: TypeAlias = "Draft | _Repeated | HookfastError"


def _result(verdict: _Verdict, committed: Mapping[str, Committed]) -> EmitResult:
    """The answer for one event, once everything is committed; `committed` is by key."""
    if isinstance(verdict, HookfastError):
        return verdict
    if verdict.key is None:
        return Accepted(verdict.committed, replayed=False)
    event = committed[verdict.key]
    if event.sha256 != verdict.sha256:
        return Conflict(
            "This idempotency key came with another event before; use a new key for a new event.",
            code="idempotency_key_reused",
        )
    is_ours = isinstance(verdict, Draft) and verdict.committed.id == event.id
    return Accepted(event, replayed=not is_ours)


async def _find_tenants(connection: AsyncConnection, tenant_ids: Set[str]) -> set[str]:
    """Those of these tenants that exist."""
    c = _TENANTS.c
    rows = await connection.execute(
        select(c.id).where(c.id.in_(tenant_ids), c.deleted_at.is_(None))
    )
    return set(rows.scalars())
