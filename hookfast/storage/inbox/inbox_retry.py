"""Retries an inbox entry that failed, once its schema is fixed, with the subscribers of now."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.errors import Conflict, NotFound
from hookfast.storage.emitting import event_quotas, late_subscribers
from hookfast.storage.emitting.committing import notify_dead, report_committed
from hookfast.storage.emitting.event_quotas import EventQuotas
from hookfast.storage.emitting.late_subscribers import LateScope
from hookfast.storage.events import events
from hookfast.storage.events.fan_out import find_subscribers
from hookfast.storage.events.filtering import Filtering
from hookfast.storage.events.new_events import Draft, NewEvent, insert_drafts
from hookfast.storage.events.schema_checks import SchemaChecks
from hookfast.storage.events.schemas import SchemaCache
from hookfast.storage.inbox import inbox_entries, inbox_keys, source_stats, sources
from hookfast.storage.inbox.inbox_batch import business_claim, storable
from hookfast.storage.tables import InboxEntry
from hookfast.telemetry import spans, traceparent


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryInput:
    """The inbox entry to retry, with its data. `window` is how long its business key counts."""

    entry: InboxEntry
    data: str = field(repr=False)
    value: Any = field(repr=False)
    provider: str
    window: timedelta


async def retry(
    connection: AsyncConnection, input: RetryInput, *, quotas: EventQuotas, now: datetime
) -> None:
    """Emit an entry's event, unless another entry has got its business key since. If subscriptions
    with payload `raw` got it already, the others get it now. The caller rings the doorbell.

    Raises InvalidInput (`schema_…`) when the data still violates the schema, Conflict
    (`not_failed`) when the entry is not failed, or no longer, NotFound when it was deleted, and
    TooManyRequests when the tenant's quota of events is used up. The caller must then roll back.
    """
    entry = input.entry
    schemas = await SchemaCache().load(connection, {entry.event_type})
    if entry.event_type in schemas:
        [fault] = await SchemaChecks().alone([(schemas[entry.event_type], input)])
        if fault is not None:
            raise storable(fault)
    # Keys, quota, event type, event, and the entry last, as in `store_arrivals`: a retry and a
    # batch in which the entry comes again never wait for each other, nor do two retries.
    suppressed_by = await _suppressed_by(connection, input, now=now)
    event_id, draft = entry.event_id, None
    if suppressed_by is None and not await _emit_to_others(connection, entry, now=now):
        draft = await _emit(connection, input, quotas, now=now)
        event_id = draft.committed.id
    await _lock_failed(connection, entry.id)
    await inbox_entries.set_result(
        connection,
        entry.id,
        status="accepted" if suppressed_by is None else "suppressed",
        event_id=event_id,
        suppressed_by=suppressed_by,
    )
    if draft is not None:
        report_committed(connection, [draft], origin="inbox")
    if suppressed_by is None:
        counts = source_stats.ResultCounts(accepted=1, failed=-1)
    else:
        counts = source_stats.ResultCounts(suppressed=1, failed=-1)
    await source_stats.count(connection, {entry.source_id: counts}, at=now)


async def _suppressed_by(
    connection: AsyncConnection, input: RetryInput, *, now: datetime
) -> str | None:
    """Claim the entry's business key, and return the other entry that has it, if any."""
    entry = input.entry
    if entry.business_key is None or not input.window:
        return None
    claim = business_claim(
        source_id=entry.source_id,
        business_key=entry.business_key,
        inbox_id=entry.id,
        window=input.window,
        at=now,
    )
    holder = (await inbox_keys.claim(connection, [claim]))[claim.name]
    return None if holder == entry.id else holder


async def _emit_to_others(connection: AsyncConnection, entry: InboxEntry, *, now: datetime) -> bool:
    """Deliver the event that only subscriptions with payload `raw` got to the others. Return
    whether there is one."""
    if entry.event_id is None:
        return False
    event = await events.clear_raw_only(connection, entry.event_id)
    if event is None:  # no longer kept
        return False
    await late_subscribers.deliver(connection, event, LateScope(), now=now)
    return True


async def _emit(
    connection: AsyncConnection, input: RetryInput, quotas: EventQuotas, *, now: datetime
) -> Draft:
    entry = input.entry
    event = NewEvent(
        type=entry.event_type,
        data=input.data,
        value=input.value,
        tenant_id=entry.tenant_id,
        inbox_id=entry.id,
        hops=entry.hops,
    )
    subscribers = await find_subscribers(connection, [event.audience])
    [filtered] = await Filtering().alone([(subscribers[event.audience], event)])
    draft = Draft.create(
        event,
        at=now,
        traceparent=spans.current() or traceparent.new(),
        subscribers=filtered,
    )
    limits = await quotas.limits(connection, [entry.tenant_id])
    for error in (await event_quotas.admit(connection, [draft], limits)).values():
        raise error
    await sources.register_types(
        connection, [(entry.source_id, input.provider, entry.event_type)], at=now
    )
    await insert_drafts(connection, [draft])
    await notify_dead(connection, [draft], now=now)
    return draft


async def _lock_failed(connection: AsyncConnection, inbox_id: str) -> None:
    status = await inbox_entries.lock_status(connection, inbox_id)
    if status is None:
        raise NotFound("Nothing has this id, or this key may not see it.")
    if status != "failed":
        raise Conflict(
            f"Only a failed entry can be retried; this one is {status}.", code="not_failed"
        )
