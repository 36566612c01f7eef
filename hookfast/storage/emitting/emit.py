"""Emits events: commits each event with one `deliveries` row per matching subscription, in one
transaction.

This is the transactional outbox: once `emit` returns, every delivery that it counted will be made,
and this promise depends on nothing but the database. All look-ups happen before the write, so that
SQLite's one writer is held only for two inserts and a commit. If a subscription or endpoint changes
in between, it changed while the event was being emitted: either order is correct, and the attempt
reads its endpoint again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from hookfast.clock import Clock, utc_now
from hookfast.errors import Conflict, HookfastError, NotFound
from hookfast.events.catalogue import unknown_type
from hookfast.quotas import day_of
from hookfast.storage.accounts.tenants import find_existing
from hookfast.storage.database.doorbell import Doorbell
from hookfast.storage.database.engine import Database
from hookfast.storage.database.group_commit import GroupCommit
from hookfast.storage.emitting import event_quotas
from hookfast.storage.emitting.committing import (
    is_one_statement,
    notify_dead,
    report_committed,
    store,
)
from hookfast.storage.emitting.event_quotas import EventQuotas, Limits
from hookfast.storage.events.catalogue import EventCatalogue
from hookfast.storage.events.fan_out import Audience, Subscriber, find_subscribers
from hookfast.storage.events.filtering import Candidate, Filtering
from hookfast.storage.events.new_events import (
    CommittedEvent,
    Draft,
    NewEvent,
    ScopedKey,
    find_by_keys,
)
from hookfast.storage.events.schema_checks import Check, Fault, SchemaChecks
from hookfast.storage.events.schemas import Schema, SchemaCache
from hookfast.strict_json.parser import ParsedJson
from hookfast.telemetry import spans

# Hashing more data than this moves to a thread, because other requests should not wait that long.
_THREAD_CHARACTERS = 65_536

_REQUESTS_AT_ONCE = 100
_CHARACTERS_AT_ONCE = 1024 * 1024  # bounds how long other writes wait for one of ours

_PATIENCE_SECONDS = 10.0
"""A request that waited this long is answered with an error that asks to retry."""

_QUICK_ROWS = 200  # inserting them takes less than 3 ms, and looking up that many events even less


@dataclass(frozen=True, slots=True)
class Accepted:
    """A committed event. `replayed`: an earlier request with its idempotency key committed it."""

    event: CommittedEvent
    replayed: bool


EmitResult: TypeAlias = "Accepted | HookfastError"


@dataclass(frozen=True, slots=True)
class _Request:
    """The events of one call of `emit`."""

    events: Sequence[NewEvent]
    scope: str
    traceparent: str
    request_id: str | None

    @property
    def characters(self) -> int:
        return sum(len(event.data) for event in self.events)

    def scoped_keys(self) -> Iterator[ScopedKey]:
        """Return the idempotency keys of the events that have one."""
        return (key for event in self.events if (key := event.key_in(self.scope)) is not None)


_Checked: TypeAlias = tuple[_Request, Sequence[Fault], Sequence[Sequence[Subscriber]]]
"""A request with the fault of each event, and the subscribers that get it."""
_ANYTHING = Schema(datetime.min.replace(tzinfo=UTC), None)


class Emitter:
    """Emits events in groups. One per process. Requests that arrive during a commit are committed
    together: a transaction, with the look-ups before it, costs about the same for fifty events as
    for one."""

    def __init__(
        self,
        database: Database,
        doorbell: Doorbell,
        *,
        quotas: EventQuotas,
        catalogue: EventCatalogue,
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._doorbell = doorbell
        self._quotas = quotas
        self._catalogue = catalogue
        self._clock = clock
        self._schemas = SchemaCache()
        self._checks = SchemaChecks()
        self._filtering = Filtering()
        self._group = GroupCommit(
            self._commit,
            name="emitter",
            most=_REQUESTS_AT_ONCE,
            size=lambda request: request.characters,
            most_size=_CHARACTERS_AT_ONCE,
            patience=_PATIENCE_SECONDS,
        )

    async def emit(
        self,
        events: Sequence[NewEvent],
        *,
        scope: str,
        traceparent: str,
        request_id: str | None = None,
    ) -> list[EmitResult]:
        """Commit all valid events in one transaction, and return a result for each event, in order:
        the accepted event, or an error (InvalidInput, NotFound, Conflict, TooManyRequests).

        Idempotency keys are unique within `scope`; `request_id` is for the log. Raises the
        database's errors, and Unavailable if the database is too busy. Then either nothing is
        stored, or the caller cannot know, and repeats the request with the same idempotency keys.
        """
        if not events:
            return []
        request = _Request(events, scope, traceparent, request_id)
        # a large request would delay the others of its group
        if len(events) == 1 and request.characters <= _THREAD_CHARACTERS:
            results = await self._group.add(request)
            if results is not None:
                return results
        return await self._commit_alone(request)

    async def check(self, event_type: str, data: ParsedJson) -> None:
        """Raise the error that an event of this registered type with this data would get:
        InvalidInput (`schema_…`, with pointers under `/data`), or Unavailable. Nothing is
        emitted."""
        async with self._database.read() as connection:
            schemas = await self._schemas.load(connection, [event_type])
        [fault] = await self._checks.alone([(schemas.get(event_type, _ANYTHING), data)])
        if fault is not None:
            raise fault

    async def close(self) -> None:
        """Wait until pending requests are committed."""
        await self._group.close()

    async def _commit(self, requests: Sequence[_Request]) -> list[list[EmitResult] | None]:
        """Return the results of each request. None: its schema checks or filters take too long for
        this group, so the request is not committed yet and has to be committed alone."""
        facts = await self._look_up(requests)
        faults = await self._checks.together(
            [facts.checks(request) for request in requests], short=_is_short(requests)
        )
        filtered = await self._filtering.together(
            [facts.candidates(request) for request in requests]
        )
        ready = [
            None if found is None or subscribers is None else (request, found, subscribers)
            for request, found, subscribers in zip(requests, faults, filtered, strict=True)
        ]
        checked = [one for one in ready if one is not None]
        results = iter(await self._commit_checked(checked, facts) if checked else ())
        return [None if one is None else next(results) for one in ready]

    async def _commit_alone(self, request: _Request) -> list[EmitResult]:
        facts = await self._look_up([request])
        faults = await self._checks.alone(facts.checks(request))
        subscribers = await self._filtering.alone(facts.candidates(request))
        [results] = await self._commit_checked([(request, faults, subscribers)], facts)
        return results

    async def _commit_checked(
        self, requests: Sequence[_Checked], facts: _Facts
    ) -> list[list[EmitResult]]:
        with ExitStack() as spans_of_requests:
            emissions = [
                spans_of_requests.enter_context(spans.emission(request.traceparent))
                for request, _, _ in requests
            ]
            if _is_short([request for request, _, _ in requests]):
                decisions = self._decide(requests, facts, emissions)
            else:
                decisions = await asyncio.to_thread(self._decide, requests, facts, emissions)
            committed = dict(facts.earlier)
            rejected: dict[str, HookfastError] = {}
            drafts = [one for group in decisions for one in group if isinstance(one, Draft)]
            if drafts:
                quick = sum(1 + draft.committed.deliveries for draft in drafts) <= _QUICK_ROWS
                alone = quick and is_one_statement(drafts, facts.limits)
                async with self._database.write(quick=quick, alone=alone) as connection:
                    stored = await store(connection, drafts, facts.limits)
                    await notify_dead(connection, stored.drafts, now=self._clock())
                    report_committed(connection, stored.drafts, origin="api")
                self._doorbell.ring()
                committed |= stored.by_key
                rejected |= stored.rejected
        return [
            [_result(decision, committed, rejected) for decision in group] for group in decisions
        ]

    async def _look_up(self, requests: Sequence[_Request]) -> _Facts:
        events = [event for request in requests for event in request.events]
        keys = {key for request in requests for key in request.scoped_keys()}
        quick = len(events) <= _QUICK_ROWS
        async with self._database.read(quick=quick) as connection:
            earlier = await find_by_keys(connection, keys) if keys else {}
            types = {event.type for event in events}
            schemas = await self._schemas.load(connection, types)
            meant = await self._catalogue.suggest_types(connection, types - schemas.keys())
            audiences = {event.audience for event in events if event.type in schemas}
            subscribers = await find_subscribers(connection, audiences)
            # A tenant with a subscription exists, so only the others have to be looked up.
            tenants = {tenant for (_, tenant), found in subscribers.items() if tenant and found}
            unseen = {tenant for _, tenant in audiences if tenant} - tenants
            if unseen:
                tenants |= await find_existing(connection, unseen)
            now = self._clock()
            limits = await self._quotas.limits(connection, tenants)
            full = await event_quotas.find_full(connection, limits, day_of(now))
        return _Facts(earlier, schemas, meant, subscribers, tenants, limits, full, now)

    def _decide(
        self, requests: Sequence[_Checked], facts: _Facts, emissions: Sequence[spans.Emission]
    ) -> list[list[_Decision]]:
        """Decide for each event of each request whether it is committed, repeated or rejected."""
        # a microsecond apart, so that events sort in the order in which they were sent
        now = self._clock()
        times = (now + timedelta(microseconds=position) for position in itertools.count())
        used = set(facts.earlier)
        return [
            [
                _decide_one(
                    event,
                    request,
                    at=next(times),
                    facts=facts,
                    fault=fault,
                    subscribers=subscribers,
                    used=used,
                    emission=emission,
                )
                for event, fault, subscribers in zip(request.events, faults, filtered, strict=True)
            ]
            for (request, faults, filtered), emission in zip(requests, emissions, strict=True)
        ]


def _is_short(requests: Sequence[_Request]) -> bool:
    return sum(request.characters for request in requests) <= _THREAD_CHARACTERS


@dataclass(frozen=True, slots=True)
class _Facts:
    """The data that `emit` looks up about its events before it writes."""

    earlier: Mapping[ScopedKey, CommittedEvent]
    schemas: Mapping[str, Schema]
    meant: Mapping[str, str]
    """The event types that were probably meant by types that are not registered."""
    subscribers: Mapping[Audience, Sequence[Subscriber]]
    tenants: Set[str]
    limits: Limits
    full: Set[str]
    """The tenants that had used up their quota of events per day at the time `now`."""
    now: datetime

    def checks(self, request: _Request) -> list[Check]:
        """Return each event with the schema that it must match. An event that is rejected or
        repeated anyway gets the schema that accepts everything."""
        return [
            (_ANYTHING if key in self.earlier else self.schemas.get(event.type, _ANYTHING), event)
            for event in request.events
            for key in (event.key_in(request.scope),)
        ]

    def candidates(self, request: _Request) -> list[Candidate]:
        """Return each event with the subscribers to its type. An event of an unknown type, which is
        rejected, has none."""
        return [(self.subscribers.get(event.audience, ()), event) for event in request.events]

    def check(self, event: NewEvent) -> None:
        """Check the event's type and tenant. Raises InvalidInput (`unknown_event_type`) or
        NotFound."""
        if event.type not in self.schemas:
            raise unknown_type(self.meant.get(event.type))
        if event.tenant_id is not None and event.tenant_id not in self.tenants:
            raise NotFound("There is no such tenant.")

    def check_quota(self, event: NewEvent) -> None:
        """Raise TooManyRequests if its tenant's quota is used up. This saves the transaction that
        would find out; only that one is exact."""
        if event.tenant_id is not None and event.tenant_id in self.full:
            raise event_quotas.reject(event.tenant_id, self.limits, now=self.now)


@dataclass(frozen=True, slots=True)
class _Repeated:
    """An event whose idempotency key was already used by an earlier request or event."""

    key: ScopedKey
    sha256: str


_Decision: TypeAlias = "Draft | _Repeated | HookfastError"


def _decide_one(
    event: NewEvent,
    request: _Request,
    *,
    at: datetime,
    facts: _Facts,
    fault: Fault,
    subscribers: Sequence[Subscriber],
    used: set[ScopedKey],
    emission: spans.Emission,
) -> _Decision:
    """Decide on an event, whose data is valid unless it has a `fault`. The key of an event that is
    to be committed is added to `used`."""
    key = event.key_in(request.scope)
    if key is not None and key in used:
        return _Repeated(key, event.sha256())
    try:
        facts.check(event)
        if fault is not None:
            raise fault
        facts.check_quota(event)
    except HookfastError as error:
        return error
    if key is not None:
        used.add(key)
    span = emission.begin(event.type, event.traceparent)
    draft = Draft.create(
        event,
        at=at,
        traceparent=span.traceparent,
        subscribers=subscribers,
        scope=request.scope,
        request_id=request.request_id,
    )
    span.committed(draft.committed.id, draft.committed.deliveries)
    return draft


def _result(
    decision: _Decision,
    committed: Mapping[ScopedKey, CommittedEvent],
    rejected: Mapping[str, HookfastError],
) -> EmitResult:
    """Return the result of one event after the commit. `committed` has the events by key, and
    `rejected` the errors of those that were not stored after all, by id."""
    if isinstance(decision, HookfastError):
        return decision
    event = decision.committed if decision.key is None else committed[decision.key]
    if event.id in rejected:
        return rejected[event.id]
    if event.sha256 != decision.sha256:
        return Conflict(
            "This idempotency key was used for a different event; use a new key for a new event.",
            code="idempotency_key_reused",
        )
    is_ours = isinstance(decision, Draft) and decision.committed.id == event.id
    return Accepted(event, replayed=not is_ours)
