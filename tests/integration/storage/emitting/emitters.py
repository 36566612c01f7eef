"""Emitters as of several processes, and the rows that they need."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import insert, select

from hookfast.clock import Clock, utc_now
from hookfast.ids import new_id
from hookfast.quotas import Quotas
from hookfast.storage.accounts import tenants
from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.emitting.emit import EmitResult, Emitter
from hookfast.storage.emitting.event_quotas import EventQuotas
from hookfast.storage.events.catalogue import EventCatalogue
from hookfast.storage.events.new_events import NewEvent
from hookfast.storage.tables import EventType, Tenant
from hookfast.telemetry.traceparent import new as new_traceparent

TYPE = "order.invoice.paid"
UNLIMITED = Quotas()


@asynccontextmanager
async def process(
    url: str, *, quotas: Quotas = UNLIMITED, clock: Clock = utc_now
) -> AsyncIterator[Emitter]:
    """Yield an emitter with its own database pool, like another process."""
    async with Database(url) as database:
        doorbell = doorbell_for(database)
        emitter = Emitter(
            database,
            doorbell,
            quotas=EventQuotas(quotas),
            catalogue=EventCatalogue(),
            clock=clock,
        )
        try:
            yield emitter
        finally:
            await emitter.close()
            await doorbell.close()


async def seed_type(database: Database) -> str:
    """Register an event type. Returns its name."""
    now = utc_now()
    row = {"name": TYPE, "description": "", "created_at": now, "updated_at": now}
    async with database.write() as connection:
        await connection.execute(insert(EventType.__table__), row)
    return TYPE


async def emit(
    emitter: Emitter, event_type: str, *, scope: str = "a", **members: Any
) -> EmitResult:
    new = NewEvent(**{"type": event_type, "data": "{}", "value": {}, **members})
    [result] = await emitter.emit([new], scope=scope, traceparent=new_traceparent())
    return result


async def count(database: Database, model: Any) -> int:
    async with database.read() as connection:
        return len((await connection.execute(select(model.__table__.c.id))).all())


async def seed_tenant(database: Database, *, quotas: dict[str, int] | None = None) -> str:
    """Store a tenant, with these quotas of its own, and return its id."""
    now = utc_now()
    tenant = Tenant(
        id=new_id("tnt", now), name="Acme", quotas=quotas, created_at=now, updated_at=now
    )
    async with database.write() as connection:
        await tenants.add(connection, tenant)
    return tenant.id
