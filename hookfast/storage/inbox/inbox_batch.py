"""Taking verified requests in, all in one transaction: who came first, and what follows from it.

Every look-up that can be made before is: SQLite's one writer is held for the inserts and a commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.errors import InvalidInput
from hookfast.ids import new_id
from hookfast.storage.emitting.emit import count_committed, notify_dead
from hookfast.storage.events.fan_out import Audience, Subscriber, find_subscribers
from hookfast.storage.events.new_events import Draft, NewEvent, commit_drafts
from hookfast.storage.events.schema_checks import Check, Fault
from hookfast.storage.events.schemas import Schema, SchemaCache
from hookfast.storage.inbox import inbox_entries, inbox_keys, source_stats, sources
from hookfast.storage.inbox.inbox_entries import EntrySummary, InboxStatus, Repeats
from hookfast.storage.inbox.inbox_keys import BUSINESS, DELIVERY, DELIVERY_KEY_LIFE, Claim, Held

_MAX_ERROR = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A verified request on its way into the inbox. `data` is its payload as JSON text and `value`
    what that means; `business_window` says for how long `business_key` counts."""

    source_id: str
    tenant_id: str
    provider: str
    key: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of an arrival. A `duplicate` tells of the entry that came first: its event id is
    None too when that is no longer kept. `conflict`: it came with other bytes then."""

    id: str
    event_type: str
    status: InboxStatus
    event_id: str | None
    suppressed_by: str | None = None
    duplicate: bool = False
    conflict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the database says about the arrivals, whose event types are the final ones."""

    arrivals: Sequence[Arrival]
    schemas: Mapping[str, Schema]
    subscribers: Mapping[Audience, Sequence[Subscriber]]


async def look_up(
    connection: AsyncConnection, arrivals: Sequence[Arrival], *, schemas: SchemaCache
) -> Facts:
    """What has to be known before anything is written. An event type that is not registered will
    be; for a source that has registered too many it is `<provider>.other.received` instead."""
    known = await schemas.load(connection, {one.event_type for one in arrivals})
    new = {one.source_id for one in arrivals if one.event_type not in known}
    if new and (full := await sources.without_room(connection, new)):
        arrivals = [
            replace(one, event_type=f"{one.provider}.other.received")
            if one.source_id in full and one.event_type not in known
            else one
            for one in arrivals
        ]
        known |= await schemas.load(connection, {one.event_type for one in arrivals})
    audiences = {(one.event_type, one.tenant_id) for one in arrivals}
    return Facts(
        arrivals=arrivals,
        schemas=known,
        subscribers=await find_subscribers(connection, audiences),
    )


def checks_of(facts: Facts, one: Arrival) -> list[Check]:
    """What one of the arrivals has to be checked for."""
    schema = facts.schemas.get(one.event_type)
    return [] if schema is None else [(schema, one)]


def as_text(faults: Iterable[Fault]) -> str | None:
    """Why an arrival's event is not taken: where and which rule, nothing of the value; None where
    nothing is in the way."""
    error = next((fault for fault in faults if fault is not None), None)
    if isinstance(error, InvalidInput) and error.errors:
        where = "; ".join(f"{one.pointer} {one.detail}" for one in error.errors)
        return f"{error.code}: {where}"[:_MAX_ERROR]
    return None if error is None else f"{error.code}: {error.message}"[:_MAX_ERROR]


async def take_in(
    connection: AsyncConnection, facts: Facts, faults: Sequence[str | None], *, now: datetime
) -> list[Taken]:
    """Take the arrivals in; what became of each, in order. The doorbell is the caller's to ring.

    Raises Unavailable when a key ran out in the very moment it was asked for.
    """
    arrivals = facts.arrivals
    ids = [new_id("inb", one.at) for one in arrivals]
    first = await inbox_keys.claim(
        connection,
        [_delivery_claim(one, inbox_id) for one, inbox_id in zip(arrivals, ids, strict=True)],
    )
    holders = [first[one.source_id, f"{DELIVERY}{one.key}"] for one in arrivals]
    new = [place for place, holder in enumerate(holders) if holder.inbox_id == ids[place]]
    # An event that a schema refuses is not emitted now, so it does not stand for its fact either.
    emitting = [place for place in new if faults[place] is None]
    suppressed = await _suppressed(connection, arrivals, ids, emitting)
    entries: dict[int, dict[str, Any]] = {}
    drafts: list[Draft] = []
    for place in new:
        one, inbox_id = arrivals[place], ids[place]
        status: InboxStatus = "accepted"
        draft = None
        if faults[place] is not None:
            status = "failed"
        elif place in suppressed:
            status = "suppressed"
        else:
            draft = _draft(one, inbox_id, facts)
            drafts.append(draft)
        entries[place] = _entry(
            one,
            inbox_id,
            status=status,
            event_id=None if draft is None else draft.committed.id,
            suppressed_by=suppressed.get(place),
            last_error=faults[place],
        )
    await inbox_entries.add(connection, list(entries.values()))
    await sources.register_types(
        connection,
        [
            (arrivals[place].source_id, arrivals[place].provider, arrivals[place].event_type)
            for place in new
            if arrivals[place].event_type not in facts.schemas
        ],
        at=now,
    )
    if drafts:
        await commit_drafts(connection, drafts)
        await notify_dead(connection, drafts, now=now)
        count_committed(drafts, origin="inbox")  # a commit that fails after this is counted too
    earlier = await _repeat(connection, arrivals, holders, skip=entries.keys())
    taken = [
        _first_taken(entries[place])
        if place in entries
        else _again(one, holders[place], earlier.get(holders[place].inbox_id))
        for place, one in enumerate(arrivals)
    ]
    await source_stats.count(connection, _counts(arrivals, taken), at=now)
    return taken


def _draft(one: Arrival, inbox_id: str, facts: Facts) -> Draft:
    event = NewEvent(
        type=one.event_type,
        data=one.data,
        value=one.value,
        tenant_id=one.tenant_id,
        inbox_id=inbox_id,
    )
    return Draft.of(
        event,
        at=one.at,
        traceparent=one.traceparent,
        subscribers=facts.subscribers[event.audience],
    )


def _delivery_claim(one: Arrival, inbox_id: str) -> Claim:
    return Claim(
        source_id=one.source_id,
        key=f"{DELIVERY}{one.key}",
        inbox_id=inbox_id,
        payload_sha256=one.sha256,
        seen_at=one.at,
        expires_at=one.at + DELIVERY_KEY_LIFE,
    )


def business_claim(
    *,
    source_id: str,
    business_key: str,
    inbox_id: str,
    sha256: str,
    window: timedelta,
    at: datetime,
) -> Claim:
    """The claim of an entry to be the one that stands for its business fact."""
    return Claim(
        source_id=source_id,
        key=f"{BUSINESS}{business_key}",
        inbox_id=inbox_id,
        payload_sha256=sha256,
        seen_at=at,
        expires_at=at + window,
    )


async def _suppressed(
    connection: AsyncConnection,
    arrivals: Sequence[Arrival],
    ids: Sequence[str],
    places: Sequence[int],
) -> dict[int, str]:
    """By place, those arrivals whose business fact has an entry already, and which."""
    claims: dict[int, Claim] = {}
    for place in places:
        one = arrivals[place]
        if one.business_key is not None:
            claims[place] = business_claim(
                source_id=one.source_id,
                business_key=one.business_key,
                inbox_id=ids[place],
                sha256=one.sha256,
                window=one.business_window,
                at=one.at,
            )
    held = await inbox_keys.claim(connection, claims.values())
    return {
        place: holder.inbox_id
        for place, one in claims.items()
        if (holder := held[one.name]).inbox_id != ids[place]
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
    """The row of InboxEntry; as one of those it would take five times as long to make."""
    return {
        "id": inbox_id,
        "source_id": one.source_id,
        "tenant_id": one.tenant_id,
        "key": one.key,
        "event_type": one.event_type,
        "business_key": one.business_key,
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


async def _repeat(
    connection: AsyncConnection,
    arrivals: Sequence[Arrival],
    holders: Sequence[Held],
    *,
    skip: Container[int],
) -> dict[str, EntrySummary]:
    """Count what came again; the entries it came for, as far as they are kept."""
    repeats: dict[str, Repeats] = {}
    for place, (one, holder) in enumerate(zip(arrivals, holders, strict=True)):
        if place in skip:
            continue
        counted = repeats.setdefault(holder.inbox_id, Repeats(one.at))
        counted.last_at = max(counted.last_at, one.at)
        counted.duplicates += 1
        if one.sha256 != holder.payload_sha256:
            counted.conflicts += 1
            counted.conflict_sha256 = one.sha256
    if not repeats:
        return {}
    await inbox_entries.repeat(connection, repeats)
    return await inbox_entries.summaries(connection, repeats.keys())


def _first_taken(row: Mapping[str, Any]) -> Taken:
    return Taken(
        id=row["id"],
        event_type=row["event_type"],
        status=row["status"],
        event_id=row["event_id"],
        suppressed_by=row["suppressed_by"],
    )


def _again(one: Arrival, holder: Held, earlier: EntrySummary | None) -> Taken:
    conflict = one.sha256 != holder.payload_sha256
    if earlier is None:
        return Taken(
            id=holder.inbox_id,
            event_type=one.event_type,
            status="accepted",
            event_id=None,
            duplicate=True,
            conflict=conflict,
        )
    return Taken(
        id=earlier.id,
        event_type=earlier.event_type,
        status=earlier.status,
        event_id=earlier.event_id,
        suppressed_by=earlier.suppressed_by,
        duplicate=True,
        conflict=conflict,
    )


def _counts(arrivals: Sequence[Arrival], taken: Sequence[Taken]) -> dict[str, source_stats.Taken]:
    counts: defaultdict[str, source_stats.Taken] = defaultdict(source_stats.Taken)
    for one, what in zip(arrivals, taken, strict=True):
        count = counts[one.source_id]
        if what.duplicate:
            count.duplicates += 1
            count.conflicts += what.conflict
        elif what.status == "suppressed":
            count.suppressed += 1
        elif what.status == "failed":
            count.failed += 1
        else:
            count.accepted += 1
    return dict(counts)
