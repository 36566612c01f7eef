"""The endpoints: their list with a summary of each, and the form for a new one."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.dashboard.pages import tenant_names
from api.dashboard.site import DASHBOARD
from api.forms.endpoint import NewEndpoint
from api.http.fields import TenantId
from api.http.pagination import PageQuery
from api.routes.endpoints import create_endpoint, list_endpoints
from api.site import choices
from api.site.endpoint_fields import settings_form
from api.site.form import validated
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.settings_form import members
from hookfast.endpoints.health import Health
from hookfast.errors import Conflict, HookfastError, InvalidInput, NotFound, TooManyRequests
from hookfast.resources.setting import Dashboard
from hookfast.storage.figures import endpoint_summaries

routes = PageRouter(DASHBOARD)

_SHOWN = settings_form(Dashboard)


@routes.get("/endpoints")
async def endpoints_page(
    view: PageView,
    page: PageQuery,
    principal: Reader,
    health: Health | None = None,
    tenant_id: TenantId | None = None,
) -> Response:
    """List the endpoints, newest first."""
    listing = await list_endpoints(
        page, view.context, principal, tenant_id=tenant_id or view.tenant_id, health=health
    )
    async with view.context.database.read() as connection:
        summaries = await endpoint_summaries.read(connection, [each.id for each in listing.data])
    await tenant_names.load_owners(view, listing.data)
    return view.render(
        "endpoints.html",
        listing=listing,
        summaries=summaries,
        limits=_SHOWN.groups["limits"],
        health=health,
        tenant_id=tenant_id,
    )


@routes.get("/endpoints/new")
async def new_endpoint_page(view: PageView, _: Writer) -> Response:
    """Show the form for a new endpoint."""
    return await _form(view, _SHOWN.new_fields() | {"events": ""})


@routes.post("/endpoints/new")
async def add_endpoint(view: PageView, audit: Audit, principal: Writer) -> Response:
    """Create an endpoint. Only this answer shows its secret."""
    try:
        given = members(view.form, _SHOWN.new().values())
        given = {name: value for name, value in given.items() if value is not None}
        tenant = await choices.picked_in_form(view, "tenant_id", "tenant")
        given["tenant_id"] = tenant or view.tenant_id
        given["events"] = view.form.lines("events")
        created = await create_endpoint(
            validated(NewEndpoint, given), view.context, audit, principal
        )
    except (NotFound, InvalidInput, Conflict, TooManyRequests) as error:
        if isinstance(error, NotFound):
            error = InvalidInput.at("/tenant_id", "there is no such tenant")
        typed = {"tenant_id": view.form.text("tenant_id"), "events": view.form.get("events", "")}
        return await _form(view, _SHOWN.submitted_fields(view.form) | typed, error)
    view.result_path = f"/dashboard/endpoints/{created.id}"
    return view.render(
        "endpoint_secret.html",
        endpoint=created,
        secret=created.secret,
        rotated=False,
        warnings=created.warnings,
    )


async def _form(view: View, fields: dict[str, Any], error: HookfastError | None = None) -> Response:
    await choices.offer(view, tenant_id="tenant")
    return view.render_form(
        "endpoint_new.html",
        error=error,
        label=_SHOWN.label,
        fields={"tenant_id": None} | fields,
        settings=_SHOWN.new(),
    )
