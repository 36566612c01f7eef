"""Who subscribes to an event by now and has no delivery of it: they get one when the event is
replayed to them, through the outbox like every other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Table, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.errors import NotFound
from hookfast.storage.events.events import EventSummary
from hookfast.storage.events.fan_out import Subscriber, find_subscribers
from hookfast.storage.events.new_events import delivery_row
from hookfast.storage.owners.announcements import deliveries_dead
from hookfast.storage.tables import Delivery, Event

_EVENTS: Table = Event.__table__
_DELIVERIES: Table = Delivery.__table__

_ROWS_PER_INSERT = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """Where to look for late subscribers: one tenant's (None: of all who may see the event), one
    endpoint's (None: any)."""

    tenant_id: str | None = None
    endpoint_id: str | None = None


async def find(connection: AsyncConnection, event: EventSummary, late: Late) -> list[Subscriber]:
    """The active subscriptions that match `event` and have no delivery of it."""
    audience = event.type, event.tenant_id or late.tenant_id
    subscribers = (await find_subscribers(connection, [audience]))[audience]
    c = _DELIVERIES.c
    rows = await connection.execute(select(c.subscription_id).where(c.event_id == event.id))
    served = set(rows.scalars())
    return [
        one
        for one in subscribers
        if one.subscription_id not in served
        and late.tenant_id in (None, one.tenant_id)
        and late.endpoint_id in (None, one.endpoint_id)
    ]


async def deliver(
    connection: AsyncConnection, event: EventSummary, late: Late, *, now: datetime
) -> int:
    """Make their deliveries and return how many. Of two that do this at once, one waits for the
    other, and retention passes by: the event's row is locked.

    Raises NotFound for an event that retention has deleted since it was read.
    """
    c = _EVENTS.c
    locked = await connection.execute(select(c.id).where(c.id == event.id).with_for_update())
    if locked.first() is None:
        raise NotFound("Nothing has this id, or this key may not see it.")
    subscribers = await find(connection, event, late)
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
    for start in range(0, len(subscribers), _ROWS_PER_INSERT):
        rows = [
            delivery_row(
                subscriber,
                event_id=event.id,
                event_type=event.type,
                deliver_at=event.deliver_at if later else None,
                now=now,
            )
            for subscriber in subscribers[start : start + _ROWS_PER_INSERT]
        ]
        await connection.execute(insert(_DELIVERIES), rows)
        dead = [row["id"] for row in rows if row["status"] == DeliveryStatus.DEAD.value]
        await deliveries_dead(connection, dead, now=now)
