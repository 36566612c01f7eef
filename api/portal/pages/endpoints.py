"""The customer's endpoints, and the first page."""

from __future__ import annotations

from fastapi import Response

from api.access.authentication import Reader
from api.http.pagination import PageQuery
from api.portal import figures
from api.portal.site import PORTAL
from api.portal.words import endpoint_state
from api.routes.endpoints import list_endpoints
from api.site.page import PageView
from api.site.page_route import PageRouter
from hookfast.storage.figures import endpoint_summaries

routes = PageRouter(PORTAL)


@routes.get("")
async def first_page(view: PageView, _: Reader) -> Response:
    """Redirect to the endpoints."""
    return view.redirect(f"{PORTAL.home}/endpoints")


@routes.get("/endpoints")
async def endpoints_page(view: PageView, page: PageQuery, principal: Reader) -> Response:
    """List the endpoints, newest first."""
    listing = await list_endpoints(page, view.context, principal, tenant_id=view.tenant_id)
    async with view.context.database.read() as connection:
        summaries = await endpoint_summaries.read(connection, [each.id for each in listing.data])
    states = {each.id: endpoint_state(each) for each in listing.data}
    return view.render(
        "endpoints.html",
        listing=listing,
        summaries=summaries,
        states=states,
        figures=await figures.read(view, principal) if listing.data else None,
    )
