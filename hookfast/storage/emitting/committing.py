"""Commits drafts of events, for emitted and received ones alike: inserts those that are new and
within their tenant's quota, notifies operators of dead letters, counts and logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.errors import TooManyRequests
from hookfast.logs.kind import Kind
from hookfast.storage.database.after_commit import after_commit
from hookfast.storage.emitting import event_quotas
from hookfast.storage.emitting.event_quotas import Limits
from hookfast.storage.events import idempotency_keys
from hookfast.storage.events.new_events import (
    CommittedEvent,
    Draft,
    ScopedKey,
    claim_keys,
    dead_on_arrival,
    dead_subscribers,
    insert_drafts,
)
from hookfast.storage.owners.notifications import deliveries_dead
from hookfast.telemetry import instruments
from hookfast.telemetry.traceparent import trace_id

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Stored:
    """The result of storing drafts: those that are stored, the event of each idempotency key, and
    the errors of the others by event id."""

    drafts: Sequence[Draft]
    by_key: Mapping[ScopedKey, CommittedEvent]
    rejected: Mapping[str, TooManyRequests]


async def store(connection: AsyncConnection, drafts: Sequence[Draft], limits: Limits) -> Stored:
    """Insert these events with their keys, without those whose key another request used first, and
    those that are beyond their tenant's quota."""
    by_key = await claim_keys(connection, drafts)
    ours = [
        draft for draft in drafts if draft.key is None or by_key[draft.key].id == draft.committed.id
    ]
    rejected = await event_quotas.admit(connection, ours, limits)
    if rejected:
        await idempotency_keys.release(connection, rejected)
        ours = [draft for draft in ours if draft.committed.id not in rejected]
    await insert_drafts(connection, ours)
    return Stored(ours, by_key, rejected)


def is_one_statement(drafts: Iterable[Draft], limits: Limits) -> bool:
    """Whether storing these few drafts takes one statement on PostgreSQL. It needs no transaction
    around it: a crash leaves either the events with all of their deliveries, or nothing."""
    return all(draft.is_plain and draft.event.tenant_id not in limits for draft in drafts)


def report_committed(connection: AsyncConnection, drafts: Sequence[Draft], *, origin: str) -> None:
    """Count these events in the metrics and log them, once they are committed, and count their
    deliveries that are dead on arrival."""
    after_commit(connection, partial(_report, drafts, origin))


def _report(drafts: Sequence[Draft], origin: str) -> None:
    instruments.EVENTS.add(len(drafts), origin=origin)
    for draft in drafts:
        line: dict[str, Any] = {
            "event_id": draft.committed.id,
            "event_type": draft.committed.type,
            "deliveries": draft.committed.deliveries,
            "origin": origin,
            "trace_id": trace_id(draft.traceparent),
        }
        if draft.event.tenant_id is not None:
            line["tenant_id"] = draft.event.tenant_id
        if draft.event.inbox_id is not None:
            line["inbox_id"] = draft.event.inbox_id
        if draft.request_id is not None:
            line["request_id"] = draft.request_id
        log.info("An event was accepted.", kind=Kind.EVENT_ACCEPTED, **line)
    for subscriber in dead_subscribers(drafts):
        # not counted as "dead": an endpoint that stays disabled is not a new failure
        instruments.DELIVERIES.add(outcome="dead_on_arrival", tenant=subscriber.tenant_id)


async def notify_dead(
    connection: AsyncConnection, drafts: Sequence[Draft], *, now: datetime
) -> None:
    """Notify operators of dead letters in the transaction that creates these. The look-ups happen
    while SQLite's writer is held, which is acceptable because dead letters on arrival are rare."""
    await deliveries_dead(connection, await dead_on_arrival(connection, drafts), now=now)
