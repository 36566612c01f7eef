"""Checks a tenant's quotas where a request creates something."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.ownership import found
from api.context.context import Context
from hookfast.quotas import Resource, quota_exceeded
from hookfast.storage.accounts import tenants
from hookfast.storage.figures import tenant_usage
from hookfast.telemetry import instruments


async def lock_tenant(
    connection: AsyncConnection, context: Context, tenant_id: str, *adding: Resource
) -> None:
    """Lock the tenant until the transaction ends, which adds one of each of these resources. The
    lock makes the quotas exact: requests that create something for a tenant wait for each other.

    Raises NotFound, and Conflict (`quota_exceeded`) if the tenant may not have one more.
    """
    tenant = found(await tenants.get(connection, tenant_id, lock=True))
    quotas = context.settings.quotas.of_tenant(tenant_id, tenant.quotas)
    for resource in adding:
        limit = getattr(quotas, resource)
        if not limit:
            continue
        used = await tenant_usage.count(connection, resource, tenant_id)
        if used >= limit:
            instruments.QUOTA_REJECTIONS.add(quota=resource, tenant=tenant_id)
            raise quota_exceeded(resource, used=used, limit=limit)
