"""Deliveries in lanes: emitted as the API does, and ended as workers and people do."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock, utc_now
from hookfast.deliveries.facts import Action, AttemptPlan, Fact
from hookfast.deliveries.lane import DeadLetterPolicy
from hookfast.deliveries.life import next_step
from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import life_rows, lives
from hookfast.storage.deliveries.life_rows import LifeChange, life_of
from hookfast.storage.emitting.emit import Accepted, Emitter
from hookfast.storage.events.new_events import NewEvent
from hookfast.storage.tables import (
    Delivery,
    Endpoint,
    EventType,
    Lane,
    Subscription,
    SubscriptionPattern,
)
from hookfast.telemetry.traceparent import new as new_traceparent
from tests.integration.storage.emitting.emitters import process
from tests.integration.storage.retention.ended import NO_RETRIES, ended
from tests.support.seed import EVENT_TYPE, seed_endpoint

_D = Delivery.__table__.c


async def seed_ordered(database: Database, **columns: Any) -> str:
    """Store an endpoint with ordered deliveries, and an event type. Returns the endpoint's id."""
    endpoint = await seed_endpoint(database, "https://example.com/hook", ordered=True, **columns)
    now = utc_now()
    row = {"name": EVENT_TYPE, "description": "", "created_at": now, "updated_at": now}
    async with database.write() as connection:
        await connection.execute(insert(EventType.__table__), row)
        subscription = (await connection.execute(select(Subscription.__table__))).one()
        await _add_pattern(connection, subscription.id, subscription.tenant_id)
    return endpoint


async def _add_pattern(connection: AsyncConnection, subscription: str, tenant: str) -> None:
    row = {"pattern": "**", "tenant_id": tenant, "subscription_id": subscription}
    await connection.execute(insert(SubscriptionPattern.__table__), row)


def api(database: Database, *, clock: Clock = utc_now) -> AbstractAsyncContextManager[Emitter]:
    """Return an emitter with its own database pool, like another API process."""
    return process(database.url, clock=clock)


async def emit_with(emitter: Emitter, keys: Sequence[str | None], **members: Any) -> list[str]:
    """Emit one event per ordering key, in one request. Returns the events' ids."""
    events = [
        NewEvent(type=EVENT_TYPE, data="{}", value={}, ordering_key=key, **members) for key in keys
    ]
    results = await emitter.emit(events, scope="a", traceparent=new_traceparent())
    accepted = [one.event.id for one in results if isinstance(one, Accepted)]
    assert len(accepted) == len(keys), results
    return accepted


async def emit(database: Database, *keys: str | None, **members: Any) -> list[str]:
    """Emit one event per ordering key, in one request. Returns their deliveries, in order."""
    async with api(database) as emitter:
        events = await emit_with(emitter, keys, **members)
    async with database.read() as connection:
        found = await connection.execute(select(_D.event_id, _D.id).where(_D.event_id.in_(events)))
    by_event = {row.event_id: row.id for row in found}
    return [by_event[event] for event in events]


async def rows(database: Database) -> list[Any]:
    """Return the rows of all deliveries, by lane and in the order of its line."""
    async with database.read() as connection:
        found = await connection.execute(
            select(Delivery.__table__).order_by(_D.lane, _D.lane_position)
        )
        return list(found)


async def places(database: Database) -> list[str | None]:
    """Return the places of all deliveries, by lane and in the order of its line."""
    return [row.place for row in await rows(database)]


async def lane_rows(database: Database) -> list[Any]:
    async with database.read() as connection:
        return list(await connection.execute(select(Lane.__table__).order_by(Lane.id)))


async def heads(database: Database) -> list[str]:
    """Return the deliveries that a worker may attempt now."""
    async with database.read() as connection:
        found = await connection.execute(
            select(_D.id, *life_rows.COLUMNS)
            .where(_D.finished_at.is_(None))
            .order_by(_D.lane, _D.lane_position)
        )
        later = utc_now() + timedelta(days=9)
        return [row.id for row in found if isinstance(next_step(life_of(row), later), AttemptPlan)]


async def apply(connection: AsyncConnection, delivery: str, fact: Fact, **more: Any) -> LifeChange:
    changes = await lives.apply(connection, [(delivery, fact)], now=utc_now(), **more)
    return changes[delivery]


async def end(
    database: Database,
    delivery: str,
    status_code: int = 200,
    *,
    policy: DeadLetterPolicy = DeadLetterPolicy.CONTINUE,
) -> LifeChange:
    """Make the attempt that is due, with this answer; a failure is final."""
    async with database.write() as connection:
        return await attempt(connection, delivery, status_code, policy=policy)


async def attempt(
    connection: AsyncConnection,
    delivery: str,
    status_code: int = 200,
    *,
    policy: DeadLetterPolicy = DeadLetterPolicy.CONTINUE,
) -> LifeChange:
    life = (await life_rows.lock(connection, [delivery]))[delivery].life
    step = next_step(life, utc_now() + timedelta(seconds=1))
    assert isinstance(step, AttemptPlan), (delivery, life)
    fact = ended(step, status_code, utc_now(), plan=NO_RETRIES)
    return await apply(connection, delivery, fact, dead_letters=policy)


async def act(database: Database, delivery: str, action: Action) -> LifeChange:
    """Request an action, as a job does."""
    async with database.write() as connection:
        return await apply(connection, delivery, action, wake=2)


async def deliver_all(database: Database, *, most: int = 1_000) -> list[str]:
    """Deliver whatever is due until nothing is. Returns the deliveries in their order."""
    delivered: list[str] = []
    while due := await heads(database):
        for one in due:
            await end(database, one)
            delivered.append(one)
        assert len(delivered) <= most
    return delivered


async def set_endpoint(database: Database, endpoint: str, **columns: Any) -> None:
    table = Endpoint.__table__
    async with database.write() as connection:
        await connection.execute(update(table).where(table.c.id == endpoint).values(**columns))


async def second_subscription(database: Database, endpoint: str, *, ordered: bool) -> str:
    """Add another subscription to everything. Returns its id."""
    now, table = utc_now(), Subscription.__table__
    async with database.write() as connection:
        first = (
            await connection.execute(select(table).where(table.c.endpoint_id == endpoint))
        ).one()
        values = dict(first._mapping) | {"id": new_id("sub", now), "ordered": ordered}
        await connection.execute(insert(table), values)
        await _add_pattern(connection, values["id"], first.tenant_id)
    return str(values["id"])
