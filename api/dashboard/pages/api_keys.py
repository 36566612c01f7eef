"""The API keys of a tenant, or of the operator: made, shown once, revoked."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Response

from api.access.audit import Audit, RequestAudit
from api.access.authentication import Principal, Writer
from api.access.ownership import found
from api.dashboard.site.form import filled
from api.dashboard.site.formatting import utc
from api.dashboard.site.page import PageView, View, WrongField
from api.dashboard.site.page_route import page_router
from api.http.fields import ApiKeyPath
from api.http.pagination import Page, PageQuery
from api.process.context import AppContext, Context
from api.routes.api_keys import (
    CreatedKey,
    NewOperatorKey,
    NewTenantKey,
    create_operator_key,
    create_tenant_key,
    list_operator_keys,
    list_tenant_keys,
    revoke_key,
)
from hookfast.errors import InvalidInput
from hookfast.storage.accounts import api_keys

routes = page_router()

_TYPED: Final = frozenset({"name", "expires_at"})
_OF_TENANTS: Final = {
    "tenant": "tenant: reads and changes what is the tenant's",
    "tenant:read": "tenant:read: only looks",
    "emit": "emit: emits events, and nothing else",
}
_OF_OPERATORS: Final = {
    "emit": "emit: emits events for any tenant, and nothing else",
    "operator": "operator: everything",
}


@routes.get("/api-keys")
async def api_keys_page(
    view: PageView, page: PageQuery, context: AppContext, principal: Writer
) -> Response:
    """The keys, the newest first."""
    return await _show(view, page, context, principal)


@routes.post("/api-keys")
async def add_key(
    view: PageView, page: PageQuery, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """A new key, which is in the answer and nowhere else."""
    try:
        made = await _made(view, context, audit, principal)
    except InvalidInput as error:
        typed = {each.pointer.strip("/"): each.detail for each in error.errors}
        if not typed.keys() <= _TYPED:
            raise
        for name, why in typed.items():
            view.wrong[name] = WrongField(view.form.get(name, ""), why)
        return await _show(view, page, context, principal, status=422)
    view.result_at = "/dashboard/api-keys"
    return view.render("api_key_created.html", made=made)


async def _show(
    view: View, page: Page, context: Context, principal: Principal, *, status: int = 200
) -> Response:
    if view.tenant_id is None:
        listing = await list_operator_keys(page, context, principal)
    else:
        listing = await list_tenant_keys(view.tenant_id, page, context, principal)
    scopes = _OF_OPERATORS if view.tenant_id is None else _OF_TENANTS
    return view.render("api_keys.html", status=status, listing=listing, scopes=scopes.items())


async def _made(
    view: View, context: Context, audit: RequestAudit, principal: Principal
) -> CreatedKey:
    members: dict[str, Any] = {
        "name": view.form.get("name", ""),
        "scope": view.form.get("scope", "emit"),
        "expires_at": view.form.text("expires_at"),
    }
    if members["expires_at"] is not None:  # a date, at whose end it stops working
        members["expires_at"] += "T23:59:59Z"
    if view.tenant_id is None:
        operators = filled(NewOperatorKey, members)
        return await create_operator_key(operators, context, audit, principal)
    tenants = filled(NewTenantKey, members)
    return await create_tenant_key(view.tenant_id, tenants, context, audit, principal)


@routes.get("/api-keys/{key_id}/revoke")
async def revoke_page(
    key_id: ApiKeyPath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Ask first."""
    async with context.database.read() as connection:
        key = found(await api_keys.get(connection, key_id))
    principal.check_tenant(key.tenant_id)
    own = " It is the key you are signed in with: you will be signed out."
    used = "never" if key.last_used_at is None else utc(key.last_used_at)
    return view.render(
        "confirm.html",
        section="api-keys",
        title="Revoke this API key?",
        about=f"{key.name} ({key.hint})",
        text=f"Requests with it are rejected within two seconds. Last used: {used}."
        + (own if key_id == principal.key_id else ""),
        action=f"/dashboard/api-keys/{key_id}/revoke",
        button="Revoke",
        back="/dashboard/api-keys",
    )


@routes.post("/api-keys/{key_id}/revoke")
async def revoke(
    key_id: ApiKeyPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """It stops working."""
    await revoke_key(key_id, context, audit, principal)
    return view.go("/dashboard/api-keys", "The key is revoked.")
