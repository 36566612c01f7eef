"""Operational events on their way into the database: in the transaction of what they tell of, so
that one is there exactly when the other is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.operational import SYSTEM_TENANT, OperationalEvent
from hookfast.storage.events.fan_out import find_subscribers
from hookfast.storage.events.new_events import Draft, NewEvent, commit_drafts
from hookfast.telemetry import traceparent


async def emit(
    connection: AsyncConnection, events: Sequence[OperationalEvent], *, now: datetime
) -> int:
    """Store these events, and one delivery for each of their subscriptions; returns how many
    deliveries there are. When there are some, ring the doorbell after the commit.

    Events about the system tenant's own endpoints and deliveries are left out: a failing endpoint
    would report its own failure, for ever.
    """
    told = [event for event in events if event.tenant_id != SYSTEM_TENANT]
    if not told:
        return 0
    subscribers = await find_subscribers(
        connection, {(event.kind.value, SYSTEM_TENANT) for event in told}
    )
    drafts = [
        Draft.of(
            _new_event(event),
            # a microsecond apart: events that happen together sort as they are told
            at=now + timedelta(microseconds=position),
            traceparent=traceparent.new(),
            subscribers=subscribers[event.kind.value, SYSTEM_TENANT],
        )
        for position, event in enumerate(told)
    ]
    await commit_drafts(connection, drafts)
    return sum(draft.committed.deliveries for draft in drafts)


def _new_event(event: OperationalEvent) -> NewEvent:
    text = json.dumps(event.data, separators=(",", ":"), allow_nan=False)
    return NewEvent(type=event.kind.value, data=text, value=event.data, tenant_id=SYSTEM_TENANT)
