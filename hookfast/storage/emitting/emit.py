"""Emitting: events in, one `deliveries` row per matching subscription out, in one transaction.

This is the transactional outbox: once `emit` returns, every delivery it counted will be made, and
nothing but the database stood between the caller and that promise. All look-ups happen before the
write, so that SQLite's one writer is held for two inserts and a commit. A subscription or endpoint
that changes in between changed while the event was being emitted: either order is right, and the
attempt looks at its endpoint again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock, utc_now
from hookfast.errors import Conflict, HookfastError, InvalidInput, NotFound
from hookfast.storage.database.doorbell import Doorbell
from hookfast.storage.database.engine import Database
from hookfast.storage.database.group_commit import GroupCommit
from hookfast.storage.events.fan_out import Audience, Subscriber, find_subscribers
from hookfast.storage.events.new_events import (
    Committed,
    Draft,
    NewEvent,
    ScopedKey,
    commit_drafts,
    dead_on_arrival,
    dead_subscribers,
    find_by_keys,
)
from hookfast.storage.events.schema_checks import Check, Fault, SchemaChecks
from hookfast.storage.events.schemas import Schema, SchemaCache
from hookfast.storage.owners.announcements import deliveries_dead
from hookfast.storage.tables import Tenant
from hookfast.telemetry import instruments, spans

_TENANTS: Table = Tenant.__table__

# Judging more data than this (hashes) moves to a thread: it takes longer than other requests should
# wait.
_THREAD_CHARACTERS = 65_536

_REQUESTS_AT_ONCE = 100
_CHARACTERS_AT_ONCE = 1024 * 1024  # how long the others' writes may have to wait for one of ours

_PATIENCE_SECONDS = 10.0
"""After so long a caller is told to come again."""

_QUICK_ROWS = 200  # to insert them takes less than 3 ms, to look up so many events even less
_DEAD_AT_ONCE = 1_000  # parameters of a statement; a broadcast may have more dead letters


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event that is committed. `replayed`: by an earlier request with its idempotency key."""

    event: Committed
    replayed: bool


EmitResult: TypeAlias = "Accepted | HookfastError"


@dataclass(frozen=True, slots=True)
class _Request:
    """What one caller wants committed."""

    events: Sequence[NewEvent]
    scope: str
    traceparent: str

    @property
    def characters(self) -> int:
        return sum(len(event.data) for event in self.events)

    def scoped_keys(self) -> Iterator[ScopedKey]:
        """Its idempotency keys."""
        return (key for event in self.events if (key := event.key_in(self.scope)) is not None)


_Checked: TypeAlias = tuple[_Request, Sequence[Fault]]
_ANYTHING = Schema(datetime.min.replace(tzinfo=UTC), None)


class Emitter:
    """One per process. Requests that come while others are committed are committed together: a
    transaction, and the look-ups before it, cost about the same for fifty events as for one."""

    def __init__(self, database: Database, doorbell: Doorbell, *, clock: Clock = utc_now) -> None:
        self._database = database
        self._doorbell = doorbell
        self._clock = clock
        self._schemas = SchemaCache()
        self._checks = SchemaChecks()
        self._group = GroupCommit(
            self._commit,
            name="emitter",
            most=_REQUESTS_AT_ONCE,
            size=lambda request: request.characters,
            most_size=_CHARACTERS_AT_ONCE,
            patience=_PATIENCE_SECONDS,
        )

    async def emit(
        self, events: Sequence[NewEvent], *, scope: str, traceparent: str
    ) -> list[EmitResult]:
        """Commit the events that can be accepted, all in one transaction, and answer for each, in
        order: what was accepted, or why it was not (InvalidInput, NotFound, Conflict).

        `scope` is where idempotency keys are unique. Raises the database's errors, and Unavailable
        when it is too busy; nothing is stored then, or the caller cannot know and repeats it with
        its idempotency keys.
        """
        if not events:
            return []
        request = _Request(events, scope, traceparent)
        # nobody else should wait for that much
        if len(events) == 1 and request.characters <= _THREAD_CHARACTERS:
            results = await self._group.add(request)
            if results is not None:
                return results
        return await self._commit_alone(request)

    async def close(self) -> None:
        """Wait for what is being committed."""
        await self._group.close()

    async def _commit(self, requests: Sequence[_Request]) -> list[list[EmitResult] | None]:
        """What became of each; None for one that is to be committed alone, and was not now."""
        facts = await self._look_up(requests)
        faults = await self._checks.together(
            [facts.checks(request) for request in requests], short=_is_short(requests)
        )
        ready = [
            (request, found)
            for request, found in zip(requests, faults, strict=True)
            if found is not None
        ]
        results = iter(await self._commit_checked(ready, facts) if ready else ())
        return [None if found is None else next(results) for found in faults]

    async def _commit_alone(self, request: _Request) -> list[EmitResult]:
        facts = await self._look_up([request])
        faults = await self._checks.alone(facts.checks(request))
        [results] = await self._commit_checked([(request, faults)], facts)
        return results

    async def _commit_checked(
        self, requests: Sequence[_Checked], facts: _Facts
    ) -> list[list[EmitResult]]:
        with ExitStack() as spans_of_requests:
            emissions = [
                spans_of_requests.enter_context(spans.emission(request.traceparent))
                for request, _ in requests
            ]
            if _is_short([request for request, _ in requests]):
                verdicts = self._judge(requests, facts, emissions)
            else:
                verdicts = await asyncio.to_thread(self._judge, requests, facts, emissions)
            committed = dict(facts.earlier)
            drafts = [one for of_one in verdicts for one in of_one if isinstance(one, Draft)]
            if drafts:
                rows = sum(1 + draft.committed.deliveries for draft in drafts)
                async with self._database.write(quick=rows <= _QUICK_ROWS) as connection:
                    committed |= await commit_drafts(connection, drafts)
                    await notify_dead(connection, drafts, now=self._clock())
                count_committed(drafts, origin="api")
                self._doorbell.ring()
        return [[_result(verdict, committed) for verdict in of_one] for of_one in verdicts]

    async def _look_up(self, requests: Sequence[_Request]) -> _Facts:
        quick = sum(len(request.events) for request in requests) <= _QUICK_ROWS
        async with self._database.read(quick=quick) as connection:
            return await self._read_facts(connection, requests)

    async def _read_facts(
        self, connection: AsyncConnection, requests: Sequence[_Request]
    ) -> _Facts:
        events = [event for request in requests for event in request.events]
        keys = {key for request in requests for key in request.scoped_keys()}
        earlier = await find_by_keys(connection, keys) if keys else {}
        schemas = await self._schemas.load(connection, {event.type for event in events})
        audiences = {event.audience for event in events if event.type in schemas}
        subscribers = await find_subscribers(connection, audiences)
        # A tenant with a subscription exists: only the others have to be asked for.
        tenants = {tenant for (_, tenant), found in subscribers.items() if tenant and found}
        unseen = {tenant for _, tenant in audiences if tenant} - tenants
        if unseen:
            tenants |= await _find_tenants(connection, unseen)
        return _Facts(earlier, schemas, subscribers, tenants)

    def _judge(
        self, requests: Sequence[_Checked], facts: _Facts, emissions: Sequence[spans.Emission]
    ) -> list[list[_Verdict]]:
        """What is to be done with each event of each request."""
        # a microsecond apart: events sort as they were sent
        now = self._clock()
        times = (now + timedelta(microseconds=position) for position in itertools.count())
        taken = set(facts.earlier)
        return [
            [
                _verdict(
                    event,
                    scope=request.scope,
                    at=next(times),
                    facts=facts,
                    fault=fault,
                    taken=taken,
                    emission=emission,
                )
                for event, fault in zip(request.events, faults, strict=True)
            ]
            for (request, faults), emission in zip(requests, emissions, strict=True)
        ]


def _is_short(requests: Sequence[_Request]) -> bool:
    return sum(request.characters for request in requests) <= _THREAD_CHARACTERS


def count_committed(drafts: Sequence[Draft], *, origin: str) -> None:
    """Count events that were committed, and their deliveries that ended with it."""
    instruments.EVENTS.add(len(drafts), origin=origin)
    for subscriber in dead_subscribers(drafts):
        # apart from "dead": an endpoint that nobody enables again is no failure of today
        instruments.DELIVERIES.add(outcome="dead_on_arrival", tenant=subscriber.tenant_id)


async def notify_dead(
    connection: AsyncConnection, drafts: Sequence[Draft], *, now: datetime
) -> None:
    """Operators hear of a dead letter in the transaction that makes it, even though what that takes
    is looked up while the writer is held: it is rare."""
    dead = await dead_on_arrival(connection, drafts)
    for start in range(0, len(dead), _DEAD_AT_ONCE):
        await deliveries_dead(connection, dead[start : start + _DEAD_AT_ONCE], now=now)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the database says about the events to emit."""

    earlier: Mapping[ScopedKey, Committed]
    schemas: Mapping[str, Schema]
    subscribers: Mapping[Audience, Sequence[Subscriber]]
    tenants: Set[str]

    def checks(self, request: _Request) -> list[Check]:
        """Each event with the schema it must fit: none where it is refused or answered anyway."""
        return [
            (_ANYTHING if key in self.earlier else self.schemas.get(event.type, _ANYTHING), event)
            for event in request.events
            for key in (event.key_in(request.scope),)
        ]

    def check(self, event: NewEvent) -> None:
        """Raises InvalidInput (`unknown_event_type`) or NotFound."""
        if event.type not in self.schemas:
            raise InvalidInput.at(
                "/type",
                "this event type is not registered; `PUT /v1/event-types/{name}` registers it",
                code="unknown_event_type",
            )
        if event.tenant_id is not None and event.tenant_id not in self.tenants:
            raise NotFound("There is no such tenant.")


@dataclass(frozen=True, slots=True)
class _Repeated:
    """An event whose idempotency key is taken: by an earlier request, or earlier in its group."""

    key: ScopedKey
    sha256: str


_Verdict: TypeAlias = "Draft | _Repeated | HookfastError"


def _verdict(
    event: NewEvent,
    *,
    scope: str,
    at: datetime,
    facts: _Facts,
    fault: Fault,
    taken: set[ScopedKey],
    emission: spans.Emission,
) -> _Verdict:
    """What is to be done with an event that its schema takes unless there is a `fault`; its key is
    `taken` then."""
    key = event.key_in(scope)
    if key is not None and key in taken:
        return _Repeated(key, event.sha256())
    try:
        facts.check(event)
    except HookfastError as error:
        return error
    if fault is not None:
        return fault
    if key is not None:
        taken.add(key)
    span = emission.begin(event.type)
    draft = Draft.of(
        event,
        at=at,
        traceparent=span.traceparent,
        subscribers=facts.subscribers[event.audience],
        scope=scope,
    )
    span.committed(draft.committed.id, draft.committed.deliveries)
    return draft


def _result(verdict: _Verdict, committed: Mapping[ScopedKey, Committed]) -> EmitResult:
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
