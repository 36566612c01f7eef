"""A form for portal links, each of which is shown once."""

from __future__ import annotations

from typing import Final

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Principal, Writer
from api.dashboard.site.form import filled
from api.dashboard.site.page import PageView, View
from api.dashboard.site.page_route import page_router
from api.forms.endpoint import EndpointView
from api.http.fields import EndpointId
from api.http.pagination import Page
from api.process.context import AppContext, Context
from api.routes.endpoints import get_endpoint, list_endpoints
from api.routes.portal_links import PortalLinkForm, create_portal_link
from hookfast.errors import InvalidInput

routes = page_router()

_NAMED = Page(limit=200, after=None)
SPANS: Final = {
    "3600": "1 hour",
    "900": "15 minutes",
    "86400": "1 day",
    "604800": "7 days",
}


@routes.get("/portal-links")
async def portal_links_page(
    view: PageView,
    context: AppContext,
    principal: Writer,
    endpoint_id: EndpointId | None = None,
) -> Response:
    """The form. `endpoint_id` is chosen in it."""
    endpoints = []
    if view.tenant_id is not None:
        named = await list_endpoints(_NAMED, context, principal, tenant_id=view.tenant_id)
        endpoints = named.data
        if endpoint_id is not None and endpoint_id not in {each.id for each in endpoints}:
            endpoints.append(await _of_tenant(endpoint_id, view, context, principal))
    return view.render(
        "portal_links.html",
        endpoints=endpoints,
        endpoint_id=endpoint_id,
        spans=SPANS.items(),
    )


@routes.post("/portal-links")
async def make_link(
    view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """A new link, which is in the answer and nowhere else."""
    span = view.form.get("span", "3600")
    if span not in SPANS:
        raise InvalidInput.at("/span", "choose one of those in the list")
    members = {
        "endpoint_id": view.form.text("endpoint_id"),
        "scope": view.form.get("scope", "tenant:read"),
        "expires_in_seconds": int(span),
    }
    form = filled(PortalLinkForm, members)
    made = await create_portal_link(_tenant(view), context, audit, principal, form)
    view.result_at = "/dashboard/portal-links"
    return view.render("portal_link_created.html", made=made)


async def _of_tenant(
    endpoint_id: str, view: View, context: Context, principal: Principal
) -> EndpointView:
    """The endpoint. Raises InvalidInput for another tenant's: with nothing chosen in the form the
    link would be to all that is this tenant's."""
    endpoint = await get_endpoint(endpoint_id, context, principal)
    if endpoint.tenant_id != view.tenant_id:
        raise InvalidInput("This endpoint is another tenant's: choose that tenant first.")
    return endpoint


def _tenant(view: View) -> str:
    if view.tenant_id is None:
        raise InvalidInput("Choose a tenant first: a link is for one.")
    return view.tenant_id
