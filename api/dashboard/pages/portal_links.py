"""The form for portal links, each of which is shown once."""

from __future__ import annotations

from typing import Final

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.dashboard.pages import tenant_names
from api.dashboard.pages.filter_choices import endpoints_to_choose
from api.dashboard.site import DASHBOARD
from api.http.fields import EndpointId
from api.routes.endpoints import get_endpoint
from api.routes.portal_links import PortalLinkForm, create_portal_link
from api.site.form import validated
from api.site.page import PageView
from api.site.page_route import PageRouter
from hookfast.errors import InvalidInput

routes = PageRouter(DASHBOARD)

SPANS: Final = {
    "3600": "1 hour",
    "900": "15 minutes",
    "86400": "1 day",
    "604800": "7 days",
}


@routes.get("/portal-links")
async def portal_links_page(
    view: PageView, principal: Writer, endpoint_id: EndpointId | None = None
) -> Response:
    """Show the form, with the endpoint selected. Raises InvalidInput for another tenant's endpoint:
    with nothing selected, the link would show everything of this tenant."""
    endpoints = []
    await tenant_names.load(view, view.tenant_id)
    if view.tenant_id is not None:
        endpoints = await endpoints_to_choose(view, view.context, principal)
        if endpoint_id is not None and endpoint_id not in {each.id for each in endpoints}:
            endpoint = await get_endpoint(endpoint_id, view.context, principal)
            if endpoint.tenant_id != view.tenant_id:
                raise InvalidInput("This endpoint is another tenant's: choose that tenant first.")
            endpoints.append(endpoint)
    return view.render(
        "portal_links.html",
        endpoints=endpoints,
        endpoint_id=endpoint_id,
        spans=SPANS.items(),
    )


@routes.post("/portal-links")
async def add_link(view: PageView, audit: Audit, principal: Writer) -> Response:
    """Create a link. Only this answer shows it."""
    if view.tenant_id is None:
        raise InvalidInput("Choose a tenant first: a link belongs to one tenant.")
    members = {
        "endpoint_id": view.form.text("endpoint_id"),
        "scope": view.form.get("scope", "tenant:read"),
        "expires_in_seconds": int(view.form.chosen("span", SPANS, default="3600")),
    }
    form = validated(PortalLinkForm, members)
    created = await create_portal_link(view.tenant_id, view.context, audit, principal, form)
    view.result_path = "/dashboard/portal-links"
    return view.render("portal_link_created.html", created=created)
