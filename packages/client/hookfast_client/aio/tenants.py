"""Creates tenants, their API keys and portal links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from hookfast_client import call
from hookfast_client.aio.pages import AsyncPages
from hookfast_client.call import path

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import (
        ChangeTenant,
        CreatedKey,
        Key,
        ListTenantKeysQuery,
        ListTenantsQuery,
        NewTenantKey,
        PortalLink,
        PortalLinkForm,
        Tenant,
        TenantForm,
        Usage,
    )


class AsyncTenants:
    """The tenants: the platform's customers."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    async def create(self, **form: Unpack[TenantForm]) -> Tenant:
        """Create a tenant. Not repeated when its answer is lost."""
        return cast("Tenant", await self._client.fetch(call.post("/tenants", form)))

    def list(self, **query: Unpack[ListTenantsQuery]) -> AsyncPages[Tenant]:
        """List tenants, newest first."""
        return AsyncPages(self._client, "/tenants", query)

    async def get(self, tenant_id: str) -> Tenant:
        """Return a tenant. Raises NotFound."""
        return cast("Tenant", await self._client.fetch(call.get(path("tenants", tenant_id))))

    async def update(self, tenant_id: str, **changes: Unpack[ChangeTenant]) -> Tenant:
        """Change the given settings; None sets one to its default."""
        request = call.patch(path("tenants", tenant_id), changes)
        return cast("Tenant", await self._client.fetch(request))

    async def delete(self, tenant_id: str) -> None:
        """Delete a tenant with its endpoints and API keys."""
        await self._client.send(call.delete(path("tenants", tenant_id)))

    async def usage(self, tenant_id: str) -> Usage:
        """Return what the tenant uses of its quotas."""
        request = call.get(path("tenants", tenant_id, "usage"))
        return cast("Usage", await self._client.fetch(request))

    async def create_api_key(self, tenant_id: str, **form: Unpack[NewTenantKey]) -> CreatedKey:
        """Create an API key. The answer has the `key`, which is not shown again. Not repeated when
        its answer is lost."""
        request = call.post(path("tenants", tenant_id, "api-keys"), form)
        return cast("CreatedKey", await self._client.fetch(request))

    def list_api_keys(
        self, tenant_id: str, **query: Unpack[ListTenantKeysQuery]
    ) -> AsyncPages[Key]:
        """List a tenant's API keys, newest first."""
        return AsyncPages(self._client, path("tenants", tenant_id, "api-keys"), query)

    async def create_portal_link(
        self, tenant_id: str, **form: Unpack[PortalLinkForm]
    ) -> PortalLink:
        """Create a link with which the tenant opens its pages without a key."""
        request = call.post(path("tenants", tenant_id, "portal-links"), form)
        return cast("PortalLink", await self._client.fetch(request))
