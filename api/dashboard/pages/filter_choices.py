"""The choices that several filters offer: endpoints and sources."""

from __future__ import annotations

from typing import Final

from api.access.authentication import Principal
from api.context.context import Context
from api.forms.endpoint import EndpointView
from api.forms.source import SourceView
from api.http.pagination import Page
from api.routes.endpoints import list_endpoints
from api.routes.sources import list_sources
from api.site.formatting import endpoint_name
from api.site.page import View

NEWEST: Final = Page(limit=200, after=None)
"""As many endpoints or sources as a filter offers, and as a list shows by name."""


async def endpoints_to_choose(
    view: View, context: Context, principal: Principal
) -> list[EndpointView]:
    """Return the endpoints that a filter offers; only its own in a session about one endpoint."""
    listing = await list_endpoints(NEWEST, context, principal, tenant_id=view.tenant_id)
    return [each for each in listing.data if view.endpoint_id in (None, each.id)]


def names_of(endpoints: list[EndpointView]) -> dict[str, str]:
    """Return the endpoints' names by id."""
    return {each.id: endpoint_name(each) for each in endpoints}


async def sources_to_choose(view: View, context: Context, principal: Principal) -> list[SourceView]:
    """Return the sources that a filter offers."""
    listing = await list_sources(NEWEST, context, principal, tenant_id=view.tenant_id)
    return listing.data
