"""Stores a group of verified requests in one transaction: finds the duplicates, emits the others.

Every look-up that can be made before the transaction is made before, so that SQLite's one writer is
locked only for the inserts and the commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.errors import FieldError, HookfastError, InvalidInput, TooManyRequests
from hookfast.ids import new_id
from hookfast.storage.emitting import event_quotas
from hookfast.storage.emitting.committing import notify_dead, report_committed
from hookfast.storage.emitting.event_quotas import EventQuotas, Limits
from hookfast.storage.events.fan_out import (
    Audience,
    Subscriber,
    find_subscribers,
    is_polled_raw,
)
from hookfast.storage.events.filtering import Candidate
from hookfast.storage.events.new_events import Draft, NewEvent, insert_drafts
from hookfast.storage.events.schema_checks import Check, Fault
from hookfast.storage.events.schemas import Schema, SchemaCache
from hookfast.storage.inbox import inbox_entries, inbox_keys, source_stats, sources
from hookfast.storage.inbox.inbox_entries import EntrySummary, InboxStatus, Repeats
from hookfast.storage.inbox.inbox_keys import (
    BUSINESS,
    DELIVERY,
    DELIVERY_KEY_LIFE,
    Claim,
)
from hookfast.strict_json.tolerant import NOT_STORABLE

_MAX_ERROR = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A verified request to be stored in the inbox. `data` is its payload as JSON text and `value`
    the same, parsed. `hops` are those of its event. A repeated `key` makes it a duplicate, with
    `any_body` even if its body is another one; a repeated `business_key` does so for
    `business_window`. `subscribers` get its event: they are looked up, and their filters applied,
    before it is stored."""

    source_id: str
    tenant_id: str
    provider: str
    key: str
    any_body: bool = False
    business_key: str | None
    business_window: timedelta
    event_type: str
    sha256: str
    content_type: str
    headers: Sequence[tuple[str, str]]
    body: bytes = field(repr=False)
    data: str = field(repr=False)
    value: Any = field(repr=False)
    at: datetime
    traceparent: str
    hops: int = 1
    request_id: str | None = None
    subscribers: Sequence[Subscriber] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxResult:
    """The result of an arrival. With `duplicate` it describes the entry that came first, whose
    event id is also None if it is no longer kept. `conflict`: the first one, as far as it is kept,
    had another body."""

    id: str
    event_type: str
    status: InboxStatus
    event_id: str | None
    suppressed_by: str | None = None
    duplicate: bool = False
    conflict: bool = False


class BeyondQuota(Exception):
    """Some arrivals are beyond their tenant's quota of events per day. `errors` has their errors by
    index. Roll back, and store the others again: one of them may be a duplicate of these."""

    def __init__(self, errors: Mapping[int, TooManyRequests]) -> None:
        super().__init__(f"{len(errors)} arrivals are beyond their tenant's quota")
        self.errors = errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """The arrivals, with their final event types, and what was looked up for them."""

    arrivals: Sequence[Arrival]
    schemas: Mapping[str, Schema]
    subscribers: Mapping[Audience, Sequence[Subscriber]]
    limits: Limits


async def look_up(
    connection: AsyncConnection,
    arrivals: Sequence[Arrival],
    *,
    schemas: SchemaCache,
    quotas: EventQuotas,
) -> Lookups:
    """Look up what is needed to store these arrivals. An unknown event type will be registered; for
    a source that has registered too many it becomes `<provider>.other.received` instead."""
    known = await schemas.load(connection, {one.event_type for one in arrivals})
    new = {one.source_id for one in arrivals if one.event_type not in known}
    if new and (full := await sources.at_event_type_limit(connection, new)):
        arrivals = [
            replace(one, event_type=f"{one.provider}.other.received")
            if one.source_id in full and one.event_type not in known
            else one
            for one in arrivals
        ]
        known |= await schemas.load(connection, {one.event_type for one in arrivals})
    audiences = {(one.event_type, one.tenant_id) for one in arrivals}
    return Lookups(
        arrivals=arrivals,
        schemas=known,
        subscribers=await find_subscribers(connection, audiences),
        limits=await quotas.limits(connection, {one.tenant_id for one in arrivals}),
    )


def candidates(lookups: Lookups, one: Arrival) -> list[Candidate]:
    """Return the event of an arrival with the subscribers to its type."""
    return [(lookups.subscribers[one.event_type, one.tenant_id], one)]


def schema_checks(lookups: Lookups, one: Arrival) -> list[Check]:
    """Return the schema checks that an arrival needs."""
    schema = lookups.schemas.get(one.event_type)
    return [] if schema is None else [(schema, one)]


def describe_faults(faults: Iterable[Fault]) -> str | None:
    """Return why an arrival violates its schema: where, and which rule, but not the value. None if
    it is valid."""
    error = next((storable(fault) for fault in faults if fault is not None), None)
    if isinstance(error, InvalidInput) and error.errors:
        where = "; ".join(f"{one.pointer} {one.detail}" for one in error.errors)
        return f"{error.code}: {where}"[:_MAX_ERROR]
    return None if error is None else f"{error.code}: {error.message}"[:_MAX_ERROR]


def storable(fault: HookfastError) -> HookfastError:
    """Return a fault that databases store and responses contain: in the names of members, NUL and
    lone surrogates, which only JSON can escape, become U+FFFD."""
    if not isinstance(fault, InvalidInput):
        return fault
    errors = (
        FieldError(*(NOT_STORABLE.sub("\ufffd", text) for text in (one.pointer, one.detail)))
        for one in fault.errors
    )
    return InvalidInput(fault.message, code=fault.code, errors=tuple(errors))


async def store_arrivals(
    connection: AsyncConnection, lookups: Lookups, errors: Sequence[str | None], *, now: datetime
) -> list[InboxResult]:
    """Store the arrivals, with the error of each or None, and return one result for each, in order.
    The caller rings the doorbell.

    Raises BeyondQuota if a tenant's quota does not allow all events, and Unavailable when a key
    expired and was deleted at the moment of its claim. The caller must then roll back.
    """
    arrivals = lookups.arrivals
    ids = [new_id("inb", one.at) for one in arrivals]
    claims = [_delivery_claim(one, inbox_id) for one, inbox_id in zip(arrivals, ids, strict=True)]
    first = await inbox_keys.claim(connection, claims)
    holders = [first[one.name] for one in claims]
    new = [index for index, holder in enumerate(holders) if holder == ids[index]]
    # What violates its schema is not emitted to all now, so it must not claim its business key.
    emitting = [index for index in new if errors[index] is None]
    suppressed = await _suppressed(connection, arrivals, ids, emitting)
    entries: dict[int, dict[str, Any]] = {}
    drafts: dict[int, Draft] = {}
    for index in new:
        one, inbox_id = arrivals[index], ids[index]
        status: InboxStatus = "accepted"
        draft = None
        if errors[index] is not None:
            status = "failed"
            draft = await _raw_draft(connection, one, inbox_id)
        elif index in suppressed:
            status = "suppressed"
        else:
            draft = _draft(one, inbox_id)
        if draft is not None:
            drafts[index] = draft
        entries[index] = _entry(
            one,
            inbox_id,
            status=status,
            event_id=None if draft is None else draft.committed.id,
            suppressed_by=suppressed.get(index),
            last_error=errors[index],
        )
    await _check_quotas(connection, drafts, lookups.limits)
    await inbox_entries.add(connection, list(entries.values()))
    await sources.register_types(
        connection,
        [
            (arrivals[index].source_id, arrivals[index].provider, arrivals[index].event_type)
            for index in emitting
            if arrivals[index].event_type not in lookups.schemas
        ],
        at=now,
    )
    if emitted := list(drafts.values()):
        await insert_drafts(connection, emitted)
        await notify_dead(connection, emitted, now=now)
        report_committed(connection, emitted, origin="inbox")
    earlier = await _count_repeats(connection, arrivals, holders, skip=entries.keys())
    results = [
        _new_result(entries[index])
        if index in entries
        else _duplicate_result(one, holders[index], earlier.get(holders[index]))
        for index, one in enumerate(arrivals)
    ]
    await source_stats.count(connection, _counts(arrivals, results), at=now)
    return results


async def _check_quotas(
    connection: AsyncConnection, drafts: Mapping[int, Draft], limits: Limits
) -> None:
    """Count these events, by the indexes of their arrivals. Raises BeyondQuota."""
    rejected = await event_quotas.admit(connection, list(drafts.values()), limits)
    if rejected:
        raise BeyondQuota(
            {
                index: rejected[draft.committed.id]
                for index, draft in drafts.items()
                if draft.committed.id in rejected
            }
        )


async def _raw_draft(connection: AsyncConnection, one: Arrival, inbox_id: str) -> Draft | None:
    """Return the event of a request whose data violate the schema, for the subscriptions that
    forward its bytes and read no data. None if there are none."""
    raw = [subscriber for subscriber in one.subscribers if subscriber.payload == "raw"]
    if not raw and not await is_polled_raw(connection, one.event_type, one.tenant_id):
        return None
    return _draft(replace(one, subscribers=raw), inbox_id, raw_only=True)


def _draft(one: Arrival, inbox_id: str, *, raw_only: bool = False) -> Draft:
    event = NewEvent(
        type=one.event_type,
        data=one.data,
        value=one.value,
        tenant_id=one.tenant_id,
        inbox_id=inbox_id,
        hops=one.hops,
        raw_only=raw_only,
    )
    return Draft.create(
        event,
        at=one.at,
        traceparent=one.traceparent,
        subscribers=one.subscribers,
        request_id=one.request_id,
    )


def _delivery_claim(one: Arrival, inbox_id: str) -> Claim:
    return Claim(
        source_id=one.source_id,
        key=f"{DELIVERY}{one.key}",
        payload_sha256="" if one.any_body else one.sha256,
        inbox_id=inbox_id,
        seen_at=one.at,
        expires_at=one.at + DELIVERY_KEY_LIFE,
    )


def business_claim(
    *,
    source_id: str,
    business_key: str,
    inbox_id: str,
    window: timedelta,
    at: datetime,
) -> Claim:
    """Return the claim of an inbox entry to its business key."""
    return Claim(
        source_id=source_id,
        key=f"{BUSINESS}{business_key}",
        inbox_id=inbox_id,
        seen_at=at,
        expires_at=at + window,
    )


async def _suppressed(
    connection: AsyncConnection,
    arrivals: Sequence[Arrival],
    ids: Sequence[str],
    indexes: Sequence[int],
) -> dict[int, str]:
    """Return the inbox entries that already have an arrival's business key, by its index."""
    claims: dict[int, Claim] = {}
    for index in indexes:
        one = arrivals[index]
        if one.business_key is not None:
            claims[index] = business_claim(
                source_id=one.source_id,
                business_key=one.business_key,
                inbox_id=ids[index],
                window=one.business_window,
                at=one.at,
            )
    holders = await inbox_keys.claim(connection, claims.values())
    return {
        index: holder
        for index, one in claims.items()
        if (holder := holders[one.name]) != ids[index]
    }


def _entry(
    one: Arrival,
    inbox_id: str,
    *,
    status: InboxStatus,
    event_id: str | None,
    suppressed_by: str | None,
    last_error: str | None,
) -> dict[str, Any]:
    """Return an InboxEntry's row. Creating the InboxEntry would take five times as long."""
    return {
        "id": inbox_id,
        "source_id": one.source_id,
        "tenant_id": one.tenant_id,
        "key": one.key,
        "event_type": one.event_type,
        "business_key": one.business_key,
        "hops": one.hops,
        "payload_sha256": one.sha256,
        "content_type": one.content_type,
        "headers": [list(pair) for pair in one.headers],
        "body": one.body,
        "status": status,
        "event_id": event_id,
        "suppressed_by": suppressed_by,
        "last_error": last_error,
        "duplicates": 0,
        "conflicts": 0,
        "conflict_sha256": None,
        "received_at": one.at,
        "last_seen_at": one.at,
    }


async def _count_repeats(
    connection: AsyncConnection,
    arrivals: Sequence[Arrival],
    holders: Sequence[str],
    *,
    skip: Container[int],
) -> dict[str, EntrySummary]:
    """Count the repeated arrivals, and return the entries that came first, if they are kept."""
    repeated = [index for index in range(len(arrivals)) if index not in skip]
    if not repeated:
        return {}
    earlier = await inbox_entries.summaries(connection, {holders[index] for index in repeated})
    repeats: dict[str, Repeats] = {}
    for index in repeated:
        one, holder = arrivals[index], holders[index]
        counted = repeats.setdefault(holder, Repeats(one.at))
        counted.last_at = max(counted.last_at, one.at)
        counted.duplicates += 1
        if _conflicts(one, earlier.get(holder)):
            counted.conflicts += 1
            counted.conflict_sha256 = one.sha256
    await inbox_entries.count_repeats(connection, repeats)
    return earlier


def _conflicts(one: Arrival, earlier: EntrySummary | None) -> bool:
    return earlier is not None and one.sha256 != earlier.payload_sha256


def _new_result(row: Mapping[str, Any]) -> InboxResult:
    return InboxResult(
        id=row["id"],
        event_type=row["event_type"],
        status=row["status"],
        event_id=row["event_id"],
        suppressed_by=row["suppressed_by"],
    )


def _duplicate_result(one: Arrival, holder: str, earlier: EntrySummary | None) -> InboxResult:
    return InboxResult(
        id=holder,
        event_type=one.event_type if earlier is None else earlier.event_type,
        status="accepted" if earlier is None else earlier.status,
        event_id=None if earlier is None else earlier.event_id,
        suppressed_by=None if earlier is None else earlier.suppressed_by,
        duplicate=True,
        conflict=_conflicts(one, earlier),
    )


def _counts(
    arrivals: Sequence[Arrival], results: Sequence[InboxResult]
) -> dict[str, source_stats.ResultCounts]:
    counts: defaultdict[str, source_stats.ResultCounts] = defaultdict(source_stats.ResultCounts)
    for one, result in zip(arrivals, results, strict=True):
        count = counts[one.source_id]
        if result.duplicate:
            count.duplicates += 1
            count.conflicts += result.conflict
        elif result.status == "suppressed":
            count.suppressed += 1
        elif result.status == "failed":
            count.failed += 1
        else:
            count.accepted += 1
    return dict(counts)
