"""How much of its quotas a tenant uses."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Self

from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Reader
from api.access.ownership import found
from api.context.context import AppContext, Context
from api.http.fields import Day, TenantPath, Time
from api.http.routing import router
from hookfast.quotas import Quotas, day_of, next_day
from hookfast.storage.accounts import tenants
from hookfast.storage.figures import tenant_usage
from hookfast.storage.figures.tenant_usage import TenantUsage

routes = router("Tenants")


class ResourceUsage(BaseModel):
    """How many of a resource a tenant has."""

    used: int = Field(description="How many the tenant has now.")
    limit: int | None = Field(description="The quota; null: no limit.")


class EventUsage(BaseModel):
    """The events that were emitted for a tenant today (UTC), and those received by its sources."""

    used: int | None = Field(
        description="Counted while there is a quota; null: there is none, so they are not counted."
    )
    limit: int | None = Field(description="The quota; null: no limit.")
    day: Day = Field(description="The day that is counted, in UTC.")
    resets_at: Time = Field(description="When the next day begins.")


class UsageView(BaseModel):
    """A tenant's quotas, and how much of each it uses."""

    tenant_id: str
    endpoints: ResourceUsage = Field(description="The tenant's endpoints, deleted ones excluded.")
    subscriptions: ResourceUsage = Field(description="The subscriptions of all its endpoints.")
    sources: ResourceUsage = Field(description="The sources that receive webhooks for it.")
    events_per_day: EventUsage = Field(description="The events of the present day.")

    @classmethod
    def of(cls, tenant_id: str, usage: TenantUsage, quotas: Quotas, *, now: datetime) -> Self:
        return cls(
            tenant_id=tenant_id,
            endpoints=ResourceUsage(used=usage.endpoints, limit=quotas.endpoints or None),
            subscriptions=ResourceUsage(
                used=usage.subscriptions, limit=quotas.subscriptions or None
            ),
            sources=ResourceUsage(used=usage.sources, limit=quotas.sources or None),
            events_per_day=EventUsage(
                used=usage.events if quotas.events_per_day else None,
                limit=quotas.events_per_day or None,
                day=day_of(now),
                resets_at=next_day(now),
            ),
        )


@routes.get("/tenants/{tenant_id}/usage", summary="Get a tenant's quotas and usage")
async def get_tenant_usage(
    tenant_id: TenantPath, context: AppContext, principal: Reader
) -> UsageView:
    """What the tenant has of everything that can have a quota. A tenant's own keys may read it."""
    principal.check_tenant(tenant_id)
    async with context.database.read() as connection:
        return found((await usage_of(connection, context, [tenant_id])).get(tenant_id))


async def usage_of(
    connection: AsyncConnection, context: Context, tenant_ids: Collection[str]
) -> dict[str, UsageView]:
    """Return the usage of each of these tenants that exists."""
    now = context.clock()
    own = await tenants.quotas_of(connection, tenant_ids)
    usages = await tenant_usage.read(connection, own.keys(), day_of(now))
    return {
        tenant_id: UsageView.of(
            tenant_id,
            usages[tenant_id],
            context.settings.quotas.of_tenant(tenant_id, own[tenant_id]),
            now=now,
        )
        for tenant_id in own
    }
