"""Tenants: your customers."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from api.access.audit import Audit
from api.access.authentication import OperatorOnly, Reader
from api.access.ownership import found
from api.context.context import AppContext
from api.forms.tenant import TenantPortal, TenantQuotas
from api.http.fields import Input, Metadata, Name, TenantPath, Time, example
from api.http.merge_patch import MergePatch, patch_of, patched
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from api.openapi.glossary import described_as_in
from hookfast.errors import Conflict
from hookfast.events.operational import SYSTEM_TENANT
from hookfast.ids import new_id
from hookfast.storage.accounts import api_keys, tenants
from hookfast.storage.audit.audited import created, deleted, facts, updated
from hookfast.storage.deliveries import sent_tests
from hookfast.storage.endpoints import endpoint_state, endpoints, subscriptions
from hookfast.storage.inbox import sources
from hookfast.storage.tables import Tenant

routes = router("Tenants")


class TenantForm(Input):
    """The settings of a tenant."""

    model_config = example(name="Acme", metadata={"plan": "gold"})

    name: Annotated[Name, Field(description="Your customer's name, for people.")]
    metadata: Metadata = Field(default_factory=dict)
    quotas: TenantQuotas = Field(
        default_factory=TenantQuotas, description="How much the tenant may have and emit."
    )
    portal: TenantPortal = Field(
        default_factory=TenantPortal, description="How the customer's portal looks for this tenant."
    )

    @classmethod
    def of(cls, tenant: Tenant) -> Self:
        """Return the settings of a stored tenant."""
        return cls(
            name=tenant.name,
            metadata=tenant.meta,
            quotas=TenantQuotas.of(tenant.quotas),
            portal=TenantPortal.of(tenant.portal),
        )

    def columns(self) -> dict[str, Any]:
        """Return the columns of a tenant with these settings."""
        return {
            "name": self.name,
            "meta": self.metadata,
            "quotas": self.quotas.column(),
            "portal": self.portal.column(),
        }


class TenantView(BaseModel):
    """A customer of yours."""

    model_config = ConfigDict(json_schema_extra=described_as_in(TenantForm))

    id: str = Field(description="Id of the tenant, `tnt_…`.")
    name: str
    metadata: dict[str, Any]
    quotas: TenantQuotas
    portal: TenantPortal
    created_at: Time
    updated_at: Time

    @classmethod
    def of(cls, tenant: Tenant) -> Self:
        return cls(
            **tenant.model_dump(exclude={"meta", "quotas", "portal", "deleted_at"}),
            metadata=tenant.meta,
            quotas=TenantQuotas.of(tenant.quotas),
            portal=TenantPortal.of(tenant.portal),
        )


@routes.post("/tenants", status_code=201, summary="Create a tenant")
async def create_tenant(
    form: TenantForm, context: AppContext, audit: Audit, _: OperatorOnly
) -> TenantView:
    now = context.clock()
    tenant = Tenant(id=new_id("tnt", now), created_at=now, updated_at=now, **form.columns())
    async with context.database.write() as connection:
        await tenants.add(connection, tenant)
        await audit.record(connection, created(tenant))
    return TenantView.of(tenant)


@routes.get("/tenants", summary="List tenants")
async def list_tenants(
    page: PageQuery, context: AppContext, _: OperatorOnly
) -> Listing[TenantView]:
    """All tenants except Hookfast's own, `tnt_00000000000070008000000000000000`, which owns
    operational events. To receive those, create an endpoint with that `tenant_id` and `"events":
    ["hookfast.**"]`: it gets an event when a circuit opens or closes, when an endpoint is disabled
    or enabled, and when a delivery ends without success."""
    async with context.database.read() as connection:
        rows = await tenants.list_page(connection, after=page.after, limit=page.rows)
    return page.listing(rows, TenantView.of)


@routes.get("/tenants/{tenant_id}", summary="Get a tenant")
async def get_tenant(tenant_id: TenantPath, context: AppContext, principal: Reader) -> TenantView:
    principal.check_tenant(tenant_id)
    async with context.database.read() as connection:
        return TenantView.of(found(await tenants.get(connection, tenant_id)))


@routes.patch(
    "/tenants/{tenant_id}",
    summary="Change a tenant",
    openapi_extra=patch_of(TenantForm, metadata={"plan": "platinum"}, quotas={"endpoints": 50}),
)
async def change_tenant(
    tenant_id: TenantPath, patch: MergePatch, context: AppContext, audit: Audit, _: OperatorOnly
) -> TenantView:
    """A quota below what the tenant has deletes nothing; it only prevents more. A new quota applies
    to creating at once, and to emitting within two seconds."""
    async with context.database.write() as connection:
        tenant = found(await tenants.get(connection, tenant_id, lock=True))
        before = facts(tenant)
        columns = patched(TenantForm.of(tenant), patch).columns()
        await tenants.change(connection, tenant_id, **columns, updated_at=context.clock())
        tenant = found(await tenants.get(connection, tenant_id))
        await audit.record(connection, updated(tenant, before=before))
    context.event_quotas.forget()
    return TenantView.of(tenant)


@routes.delete("/tenants/{tenant_id}", status_code=204, summary="Delete a tenant")
async def delete_tenant(
    tenant_id: TenantPath, context: AppContext, audit: Audit, _: OperatorOnly
) -> None:
    """Deletes its endpoints, subscriptions, sources and tests and revokes its API keys at once. Its
    events, deliveries and inbox are kept; deliveries in progress end undelivered. Hookfast's own
    tenant cannot be deleted."""
    if tenant_id == SYSTEM_TENANT:
        raise Conflict(
            "Hookfast's own tenant cannot be deleted; delete the endpoints that you created for it "
            "instead.",
            code="system_tenant",
        )
    now = context.clock()
    async with context.database.write() as connection:
        tenant = found(await tenants.get(connection, tenant_id, lock=True))
        await api_keys.revoke_of_tenant(connection, tenant_id, at=now)
        # endpoints first: a request that adds a subscription meanwhile holds its endpoint's lock
        await endpoints.mark_deleted_of_tenant(connection, tenant_id, at=now)
        await subscriptions.remove_of_tenant(connection, tenant_id)
        await sent_tests.remove_of_tenant(connection, tenant_id)
        await sources.mark_deleted_of_tenant(connection, tenant_id, at=now)
        await tenants.mark_deleted(connection, tenant_id, at=now)
        await endpoint_state.release_held_of_tenant(connection, tenant_id, now=now)
        await audit.record(connection, deleted(tenant))
    context.keys.forget()
    context.sources.forget()
    context.workflow_starter.wake()
