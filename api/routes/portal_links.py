"""Portal links: temporary access to the portal of a tenant, without an API key."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from api.access.audit import Audit
from api.access.authentication import Writer
from api.access.ownership import found, owned
from api.context.context import AppContext
from api.http.fields import EndpointId, Input, TenantPath, Time, example
from api.http.routing import router
from hookfast.audit import AuditedChange, differences
from hookfast.errors import InvalidInput
from hookfast.signing.portal_link import MAX_LIFETIME, PortalLink
from hookfast.storage.accounts import tenants
from hookfast.storage.endpoints import endpoints

routes = router("Portal links")


class PortalLinkForm(Input):
    """The access that the link grants."""

    model_config = example(scope="tenant:read", expires_in_seconds=900)

    endpoint_id: EndpointId | None = Field(
        None,
        description="Only this endpoint and its deliveries; default: everything of the tenant.",
    )
    scope: Literal["tenant", "tenant:read"] = Field(
        "tenant:read", description="`tenant` can also change things, `tenant:read` only read."
    )
    expires_in_seconds: Annotated[
        int,
        Field(ge=60, le=int(MAX_LIFETIME.total_seconds()), description="How long the link works."),
    ] = 3_600


class PortalLinkView(BaseModel):
    """A new link. It is not stored, and not shown again."""

    url: str = Field(description="Anyone with this URL gets access: send it to one person only.")
    tenant_id: str = Field(description="The tenant whose data the link shows.")
    endpoint_id: str | None = Field(
        description="The only endpoint that it shows; null: all of the tenant."
    )
    scope: Literal["tenant", "tenant:read"] = Field(
        description="Whether it can also change things (`tenant`), or only read."
    )
    expires_at: Time = Field(description="When the link stops working.")


@routes.post("/tenants/{tenant_id}/portal-links", status_code=201, summary="Create a portal link")
async def create_portal_link(
    tenant_id: TenantPath,
    context: AppContext,
    audit: Audit,
    principal: Writer,
    form: PortalLinkForm | None = None,
) -> PortalLinkView:
    """A link to the portal, the pages for customers, for a person without an API key, such as a
    customer who is signed in to your own site. It starts a session of at most two hours that sees
    only this tenant and cannot create API keys. With `&theme=dark&accent=0ea5e9` added, it opens in
    these colours. The link works until it expires. It and its sessions end earlier with the API
    key that created it, and when the tenant or the endpoint is deleted."""
    form = form or PortalLinkForm()
    principal.check_tenant(tenant_id)
    link = PortalLink(
        tenant_id=tenant_id,
        endpoint_id=form.endpoint_id,
        scope=form.scope,
        expires_at=context.clock() + timedelta(seconds=form.expires_in_seconds),
        key_id=principal.key_id,
    )
    members = {
        "endpoint_id": form.endpoint_id,
        "scope": form.scope,
        "expires_at": link.expires_at,
    }
    async with context.database.write() as connection:
        found(await tenants.get(connection, tenant_id))
        if form.endpoint_id is not None:
            endpoint = owned(await endpoints.get(connection, form.endpoint_id), principal)
            if endpoint.tenant_id != tenant_id:
                raise InvalidInput.at("/endpoint_id", "this endpoint belongs to another tenant")
        change = AuditedChange(
            action="portal_link.create",
            resource="tenant",
            resource_id=tenant_id,
            tenant_id=tenant_id,
            changes=differences({}, members),
        )
        await audit.record(connection, change)
    return PortalLinkView(
        url=link.url(context.keyring, public_url=context.settings.resolved_public_url),
        tenant_id=tenant_id,
        endpoint_id=form.endpoint_id,
        scope=form.scope,
        expires_at=link.expires_at,
    )
