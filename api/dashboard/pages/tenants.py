"""The tenants, for operators: list them, add one, and choose the one whose pages to show."""

from __future__ import annotations

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import OperatorOnly
from api.access.ownership import found
from api.dashboard.site import DASHBOARD
from api.http.pagination import PageQuery
from api.routes.tenant_usage import usage_of
from api.routes.tenants import TenantForm, create_tenant, list_tenants
from api.site.form import validated
from api.site.page import PageView
from api.site.page_route import PageRouter
from hookfast.storage.accounts import sessions, tenants

routes = PageRouter(DASHBOARD)


@routes.get("/tenants")
async def tenants_page(view: PageView, page: PageQuery, principal: OperatorOnly) -> Response:
    """List the tenants, newest first, with what they use of their quotas."""
    listing = await list_tenants(page, view.context, principal)
    async with view.context.database.read() as connection:
        usages = await usage_of(connection, view.context, [each.id for each in listing.data])
    return view.render("tenants.html", listing=listing, usages=usages)


@routes.post("/tenants")
async def add_tenant(view: PageView, audit: Audit, principal: OperatorOnly) -> Response:
    """Create a tenant."""
    form = validated(TenantForm, {"name": view.form.get("name", "")})
    tenant = await create_tenant(form, view.context, audit, principal)
    return view.redirect("/dashboard/tenants", f"Tenant {tenant.name} is created.")


@routes.post("/settings/tenant")
async def choose_tenant(view: PageView, _: OperatorOnly) -> Response:
    """Show the pages of one tenant, or of all tenants."""
    chosen = view.form.text("tenant_id")
    async with view.context.database.write() as connection:
        if chosen is not None:
            found(await tenants.get(connection, chosen))
        if view.visitor is not None:
            await sessions.choose_tenant(connection, view.visitor.session.token_sha256, chosen)
    return view.redirect(view.site.path(view.form.text("next")))
