"""The tenants, for an operator to look at one of them, and to add one."""

from __future__ import annotations

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import OperatorOnly
from api.dashboard.site.form import filled
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.http.pagination import PageQuery
from api.process.context import AppContext
from api.routes.tenants import TenantForm, create_tenant, list_tenants

routes = page_router()


@routes.get("/tenants")
async def tenants_page(
    view: PageView, page: PageQuery, context: AppContext, principal: OperatorOnly
) -> Response:
    """Every tenant, newest first."""
    return view.render("tenants.html", listing=await list_tenants(page, context, principal))


@routes.post("/tenants")
async def add_tenant(
    view: PageView, context: AppContext, audit: Audit, principal: OperatorOnly
) -> Response:
    """A new one."""
    form = filled(TenantForm, {"name": view.form.get("name", "")})
    tenant = await create_tenant(form, context, audit, principal)
    return view.go("/dashboard/tenants", f"{tenant.name} is a tenant now.")
