"""Storing operational events with their deliveries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import insert, select

from hookfast.clock import utc_now
from hookfast.events.operational import SYSTEM_TENANT, Kind, OperationalEvent
from hookfast.storage.database.engine import Database
from hookfast.storage.events import operational
from hookfast.storage.tables import (
    Delivery,
    Endpoint,
    Event,
    Subscription,
    SubscriptionPattern,
)
from tests.support.query_plan import sent_by
from tests.support.seed import seed_endpoint
from tests.support.undoing import undoing

pytestmark = pytest.mark.anyio

TENANT = "tnt_1"


def dead(number: int, *, tenant_id: str = TENANT) -> OperationalEvent:
    return OperationalEvent(
        kind=Kind.DELIVERY_DEAD,
        tenant_id=tenant_id,
        data={"number": number, "reason": "„aus“ \x00"},
    )


async def emit(database: Database, events: Sequence[OperationalEvent]) -> int:
    async with database.write() as connection:
        return await operational.emit(connection, events, now=utc_now())


async def rows(database: Database, table: Any) -> list[Any]:
    async with database.read() as connection:
        return list(await connection.execute(select(table).order_by(table.c.id)))


@pytest.fixture
async def monitor(database: Database) -> str:
    """The id of an endpoint of the system tenant that is subscribed to dead deliveries."""
    endpoint_id = await seed_endpoint(database, "https://example.com/monitor")
    async with database.write() as connection:
        for table in (Endpoint.__table__, Subscription.__table__):
            await connection.execute(table.update().values(tenant_id=SYSTEM_TENANT))
        [subscription] = await connection.execute(select(Subscription.__table__.c.id))
        await connection.execute(
            insert(SubscriptionPattern.__table__),
            {
                "pattern": "hookfast.delivery.*",
                "tenant_id": SYSTEM_TENANT,
                "subscription_id": subscription.id,
            },
        )
    return endpoint_id


async def test_an_operational_event_is_stored_with_a_pending_delivery(
    database: Database, monitor: str
) -> None:
    assert await emit(database, [dead(1)]) == 1
    [event] = await rows(database, Event.__table__)
    body = json.loads(event.body)
    assert body["id"] == event.id
    assert body["type"] == event.type == Kind.DELIVERY_DEAD
    assert body["tenant_id"] == event.tenant_id == SYSTEM_TENANT
    assert body["data"] == dead(1).data
    assert event.deliveries == 1
    [delivery] = await rows(database, Delivery.__table__)
    assert (delivery.event_id, delivery.endpoint_id) == (event.id, monitor)
    # in the outbox: the relay has not started it yet
    assert (delivery.status, delivery.started_at) == ("pending", None)


async def test_events_without_a_subscriber_are_stored_too(database: Database, monitor: str) -> None:
    opened = OperationalEvent(kind=Kind.CIRCUIT_OPENED, tenant_id=TENANT, data={})
    assert await emit(database, [opened]) == 0
    [event] = await rows(database, Event.__table__)
    assert (event.type, event.deliveries) == (Kind.CIRCUIT_OPENED, 0)


async def test_events_about_the_system_tenant_are_not_stored(
    database: Database, monitor: str
) -> None:
    assert await emit(database, [dead(1, tenant_id=SYSTEM_TENANT), dead(2)]) == 1
    assert await emit(database, [dead(3, tenant_id=SYSTEM_TENANT)]) == 0
    [event] = await rows(database, Event.__table__)
    assert json.loads(event.body)["data"]["number"] == 2


async def test_a_rolled_back_transaction_stores_no_operational_event(
    database: Database, monitor: str
) -> None:
    async with undoing(database) as connection:
        assert await operational.emit(connection, [dead(1)], now=utc_now()) == 1
    assert await rows(database, Event.__table__) == []
    assert await rows(database, Delivery.__table__) == []


async def test_hundreds_of_events_keep_their_order_and_need_few_statements(
    database: Database, monitor: str
) -> None:
    events = [dead(number) for number in range(400)]
    async with database.write() as connection:
        statements = await sent_by(connection, operational.emit(connection, events, now=utc_now()))
    # the subscribers; the events, their deliveries and the figures, which PostgreSQL gets as one
    together = database._writer.dialect.name == "postgresql"
    assert len(statements) == (2 if together else 4), statements
    stored = await rows(database, Event.__table__)
    assert [json.loads(event.body)["data"]["number"] for event in stored] == list(range(400))
    assert len({event.traceparent for event in stored}) == 400


async def test_without_events_to_store_no_statement_is_executed(database: Database) -> None:
    async with database.write() as connection:
        for events in ([], [dead(1, tenant_id=SYSTEM_TENANT)]):
            emitting = operational.emit(connection, events, now=utc_now())
            assert await sent_by(connection, emitting) == []


async def test_operational_event_passes_the_filters_of_its_subscriptions(
    database: Database, monitor: str
) -> None:
    async with database.write() as connection:
        await connection.execute(Subscription.__table__.update().values(filter={"number": 2}))
    assert await emit(database, [dead(1), dead(2), dead(3)]) == 1
    [delivery] = await rows(database, Delivery.__table__)
    events = await rows(database, Event.__table__)
    assert [event.deliveries for event in events] == [0, 1, 0]
    assert delivery.event_id == events[1].id
