"""Deliveries of an event to late subscribers while retention runs."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, func, select

from hookfast.clock import utc_now
from hookfast.errors import NotFound
from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.emitting import late_subscribers
from hookfast.storage.emitting.late_subscribers import LateScope
from hookfast.storage.endpoints import subscriptions
from hookfast.storage.events import events
from hookfast.storage.tables import Delivery, Endpoint, Event, Subscription
from tests.support.seed import seed_delivery, seed_endpoint

pytestmark = pytest.mark.anyio


async def subscribe(database: Database) -> None:
    """Add a subscription to everything for the stored endpoint."""
    now = utc_now()
    async with database.write() as connection:
        endpoint = (await connection.execute(select(Endpoint.id, Endpoint.tenant_id))).one()
        added = Subscription(
            id=new_id("sub"),
            endpoint_id=endpoint.id,
            tenant_id=endpoint.tenant_id,
            events=["**"],
            payload="full",
            created_at=now,
            updated_at=now,
        )
        await subscriptions.add(connection, added)


async def test_an_event_deleted_since_it_was_read_gets_no_deliveries(database: Database) -> None:
    delivery_id = await seed_delivery(database, await seed_endpoint(database, "https://a.example/"))
    async with database.read() as connection:
        rows = await connection.execute(select(Delivery.event_id).where(Delivery.id == delivery_id))
        event = await events.get_summary(connection, rows.scalar_one())
    assert event is not None
    await subscribe(database)
    # retention runs after the request has read the event and before it inserts deliveries
    async with database.write() as connection:
        await connection.execute(delete(Delivery.__table__))
        await connection.execute(delete(Event.__table__))

    with pytest.raises(NotFound):
        async with database.write() as connection:
            await late_subscribers.deliver(connection, event, LateScope(), now=utc_now())
    async with database.read() as connection:
        left = await connection.execute(select(func.count()).select_from(Delivery.__table__))
        assert left.scalar_one() == 0
