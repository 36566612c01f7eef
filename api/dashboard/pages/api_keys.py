"""The API keys of a tenant, or of the operator: created, shown once, revoked."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Response

from api.access.audit import Audit, RequestAudit
from api.access.authentication import Principal, Writer
from api.access.ownership import found
from api.dashboard.pages import tenant_names
from api.dashboard.site import DASHBOARD
from api.http.fields import ApiKeyPath, TenantId
from api.http.pagination import Page, PageQuery
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
from api.site.form import validated
from api.site.formatting import ago
from api.site.page import InvalidField, PageView, View
from api.site.page_route import PageRouter
from api.site.zone import parse_local
from hookfast.clock import rfc3339
from hookfast.errors import InvalidInput
from hookfast.storage.accounts import api_keys

routes = PageRouter(DASHBOARD)

_TYPED: Final = frozenset({"name", "expires_at"})
_TENANT_SCOPES: Final = {
    "tenant": "tenant: reads and changes",
    "tenant:read": "tenant:read: only reads",
    "emit": "emit: only emits events",
}
_OPERATOR_SCOPES: Final = {
    "emit": "emit: events of any tenant",
    "operator": "operator: everything",
}


@routes.get("/api-keys")
async def api_keys_page(
    view: PageView, page: PageQuery, principal: Writer, tenant_id: TenantId | None = None
) -> Response:
    """List the keys, newest first."""
    return await _list(view, page, principal, tenant_id=tenant_id)


@routes.post("/api-keys")
async def add_key(view: PageView, page: PageQuery, audit: Audit, principal: Writer) -> Response:
    """Create a key. Only this answer shows it."""
    try:
        created = await _create(view, audit, principal)
    except InvalidInput as error:
        details = {each.pointer.strip("/"): each.detail for each in error.errors}
        if not details.keys() <= _TYPED:
            raise
        for name, detail in details.items():
            view.invalid[name] = InvalidField(view.form.get(name, ""), detail)
        tenant = view.form.text("tenant_id")
        return await _list(view, page, principal, tenant_id=tenant, status=422)
    view.result_path = "/dashboard/api-keys"
    return view.render("api_key_created.html", created=created)


async def _list(
    view: View,
    page: Page,
    principal: Principal,
    *,
    tenant_id: str | None,
    status: int = 200,
) -> Response:
    tenant = tenant_id or view.tenant_id
    if tenant is None:
        listing = await list_operator_keys(page, view.context, principal)
    else:
        listing = await list_tenant_keys(tenant, page, view.context, principal)
    await tenant_names.load(view, tenant)
    scopes = _OPERATOR_SCOPES if tenant is None else _TENANT_SCOPES
    return view.render(
        "api_keys.html",
        status=status,
        listing=listing,
        scopes=scopes.items(),
        tenant_id=tenant_id,
        owner=tenant,
    )


async def _create(view: View, audit: RequestAudit, principal: Principal) -> CreatedKey:
    members: dict[str, Any] = {
        "name": view.form.get("name", ""),
        "scope": view.form.get("scope", "emit"),
    }
    if (day := view.form.text("expires_at")) is not None:  # the key works until its end
        end = parse_local(f"{day}T23:59:59", view.zone, pointer="/expires_at", last=True)
        members["expires_at"] = rfc3339(end)
    tenant = view.form.text("tenant_id") or view.tenant_id
    if tenant is None:
        form = validated(NewOperatorKey, members)
        return await create_operator_key(form, view.context, audit, principal)
    tenant_form = validated(NewTenantKey, members)
    return await create_tenant_key(tenant, tenant_form, view.context, audit, principal)


@routes.get("/api-keys/{key_id}/revoke")
async def revoke_page(key_id: ApiKeyPath, view: PageView, principal: Writer) -> Response:
    """Ask before a key is revoked."""
    async with view.context.database.read() as connection:
        key = found(await api_keys.get(connection, key_id))
    principal.check_tenant(key.tenant_id)
    used = "never" if key.last_used_at is None else ago(key.last_used_at, view.now)
    text = f"Requests with it are rejected within two seconds. Last used: {used}."
    if key_id == principal.key_id:
        text += " You are signed in with this key: you will be signed out."
    return view.confirm(
        "Revoke this API key?",
        about=f"{key.name} ({key.hint})",
        text=text,
        button="Revoke",
        back="/dashboard/api-keys",
    )


routes.action("/api-keys/{key_id}/revoke", revoke_key, "The key is revoked.")
