"""Late subscribers: subscriptions that match an event now but have no delivery of it. Replaying the
event creates their deliveries, through the outbox like all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.errors import NotFound
from hookfast.storage.events import events
from hookfast.storage.events.events import EventSummary
from hookfast.storage.events.fan_out import Subscriber, find_subscribers
from hookfast.storage.events.filtering import Filtering, StoredData
from hookfast.storage.events.new_events import NewDeliveries, enter_lanes, insert_deliveries
from hookfast.storage.owners.notifications import deliveries_dead
from hookfast.storage.tables import Delivery, Event

_EVENTS: Table = Event.__table__
_DELIVERIES: Table = Delivery.__table__


@dataclass(frozen=True, slots=True, kw_only=True)
class LateScope:
    """Restricts late subscribers to one tenant (None: all that may see the event) and to one
    endpoint (None: any)."""

    tenant_id: str | None = None
    endpoint_id: str | None = None


async def find(
    connection: AsyncConnection, event: EventSummary, scope: LateScope
) -> Sequence[Subscriber]:
    """Return the active subscriptions in `scope` that match `event`, may have it, pass it through
    their filters and have no delivery of it."""
    audience = event.type, event.tenant_id or scope.tenant_id
    subscribers = (await find_subscribers(connection, [audience]))[audience]
    c = _DELIVERIES.c
    rows = await connection.execute(select(c.subscription_id).where(c.event_id == event.id))
    served = set(rows.scalars())
    late = [
        one
        for one in subscribers
        if one.subscription_id not in served
        and scope.tenant_id in (None, one.tenant_id)
        and scope.endpoint_id in (None, one.endpoint_id)
        and (one.payload == "raw" or not event.raw_only)
    ]
    if all(one.filter is None for one in late):
        return late
    stored = await events.get(connection, event.id)
    if stored is None:
        return []
    [filtered] = await Filtering().alone([(late, StoredData(stored.body))])
    return filtered


async def deliver(
    connection: AsyncConnection, event: EventSummary, scope: LateScope, *, now: datetime
) -> int:
    """Create deliveries for late subscribers, and return how many. The event's row is locked, so
    that concurrent calls wait for each other and retention skips the event.

    Raises NotFound if retention has deleted the event since it was read.
    """
    c = _EVENTS.c
    locked = await connection.execute(select(c.id).where(c.id == event.id).with_for_update())
    if locked.first() is None:
        raise NotFound("Nothing has this id, or this key may not see it.")
    subscribers = await find(connection, event, scope)
    await _insert(connection, event, subscribers, now=now)
    if subscribers:
        await connection.execute(
            update(_EVENTS)
            .where(c.id == event.id)
            .values(deliveries=c.deliveries + len(subscribers))
        )
    return len(subscribers)


async def _insert(
    connection: AsyncConnection,
    event: EventSummary,
    subscribers: Sequence[Subscriber],
    *,
    now: datetime,
) -> None:
    later = event.deliver_at is not None and event.deliver_at > now
    new = NewDeliveries(
        event_id=event.id,
        event_type=event.type,
        ordering_key=event.ordering_key,
        deliver_at=event.deliver_at if later else None,
        created_at=now,
        subscribers=subscribers,
    )
    [entries] = await enter_lanes(connection, [new])
    dead = await insert_deliveries(connection, new.rows(entries))
    await deliveries_dead(connection, dead, now=now)
