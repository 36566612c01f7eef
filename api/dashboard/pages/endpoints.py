"""The endpoints: how each one fares, and a form for a new one."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.dashboard.pages import endpoint_fields
from api.dashboard.site.form import faults, filled
from api.dashboard.site.page import PageView, View
from api.dashboard.site.page_route import page_router
from api.forms.endpoint import NewEndpoint, State
from api.http.fields import TenantId
from api.http.pagination import PageQuery
from api.process.context import AppContext
from api.routes.endpoints import create_endpoint, list_endpoints
from hookfast.errors import FieldError, InvalidInput, NotFound
from hookfast.storage.figures import endpoint_summaries

routes = page_router()


@routes.get("/endpoints")
async def endpoints_page(
    view: PageView,
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    state: State | None = None,
    tenant_id: TenantId | None = None,
) -> Response:
    """Endpoints, the newest first."""
    listing = await list_endpoints(
        page, context, principal, tenant_id=tenant_id or view.tenant_id, state=state
    )
    async with context.database.read() as connection:
        glances = await endpoint_summaries.read(connection, [each.id for each in listing.data])
    return view.render(
        "endpoints.html", listing=listing, glances=glances, state=state, tenant_id=tenant_id
    )


@routes.get("/endpoints/new")
async def new_endpoint_page(view: PageView, _: Writer) -> Response:
    """The form for a new one."""
    return _form(view, endpoint_fields.blank())


@routes.post("/endpoints/new")
async def add_endpoint(
    view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """A new one. Its secret is in the answer, and nowhere else."""
    try:
        members = endpoint_fields.members_of(view.form)
        given = {name: value for name, value in members.items() if value is not None}
        given["tenant_id"] = view.form.text("tenant_id") or view.tenant_id
        given["events"] = view.form.lines("events")
        made = await create_endpoint(filled(NewEndpoint, given), context, audit, principal)
    except NotFound:
        return _refused(view, InvalidInput.at("/tenant_id", "there is no such tenant"))
    except InvalidInput as error:
        return _refused(view, error)
    view.result_at = f"/dashboard/endpoints/{made.id}"
    return view.render("endpoint_secret.html", endpoint=made, secret=made.secret, rotated=False)


def _refused(view: View, error: InvalidInput) -> Response:
    sent = endpoint_fields.fields_sent(view.form) | {"tenant_id": view.form.text("tenant_id")}
    return _form(view, sent, errors=faults(error), status=422)


def _form(
    view: View, fields: dict[str, Any], *, errors: tuple[FieldError, ...] = (), status: int = 200
) -> Response:
    return view.render(
        "endpoint_new.html",
        status=status,
        fields={"tenant_id": None} | fields,
        errors=errors,
        plans=endpoint_fields.PLANS,
        profiles=endpoint_fields.PROFILES,
    )
