"""Stores operational events in the transaction of the change that they report, so that neither is
committed without the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.events.operational import SYSTEM_TENANT, OperationalEvent
from hookfast.storage.events.fan_out import find_subscribers
from hookfast.storage.events.filtering import Filtering
from hookfast.storage.events.new_events import Draft, NewEvent, insert_drafts
from hookfast.strict_json.text import from_text, to_text
from hookfast.telemetry import traceparent


async def emit(
    connection: AsyncConnection, events: Sequence[OperationalEvent], *, now: datetime
) -> int:
    """Store these events with one delivery per subscription, and return the number of deliveries.
    If it is not 0, ring the doorbell after the commit.

    Events about the system tenant's own endpoints and deliveries are left out: a failing endpoint
    would report its own failure, forever.
    """
    reported = [event for event in events if event.tenant_id != SYSTEM_TENANT]
    if not reported:
        return 0
    subscribers = await find_subscribers(
        connection, {(event.kind.value, SYSTEM_TENANT) for event in reported}
    )
    new_events = [_new_event(event) for event in reported]
    filtered = await Filtering().alone(
        [(subscribers[event.audience], event) for event in new_events]
    )
    drafts = [
        Draft.create(
            event,
            # a microsecond apart, so that simultaneous events sort in the given order
            at=now + timedelta(microseconds=position),
            traceparent=traceparent.new(),
            # Never ordered: the transactions of changes have locked what comes after lanes.
            subscribers=[replace(one, ordered=False) for one in filtered[position]],
        )
        for position, event in enumerate(new_events)
    ]
    await insert_drafts(connection, drafts)
    return sum(draft.committed.deliveries for draft in drafts)


def _new_event(event: OperationalEvent) -> NewEvent:
    text = to_text(event.data)
    return NewEvent(
        type=event.kind.value,
        data=text,
        value=from_text(text),
        tenant_id=SYSTEM_TENANT,
        hops=event.hops,
    )
