"""One endpoint: whether it works, its events, its newest activity and its settings."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, Response

from api.access.authentication import Reader
from api.http.fields import EndpointPath
from api.http.pagination import MAX_LIMIT, Page
from api.portal import figures
from api.portal.pages.activity import entries
from api.portal.site import PORTAL
from api.portal.words import endpoint_state
from api.routes.endpoint_control import get_endpoint_health
from api.routes.endpoints import get_endpoint
from api.routes.subscriptions import SubscriptionView, list_subscriptions
from api.site import live
from api.site.endpoint_fields import settings_form
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from hookfast.deliveries.retry_plan import parse_plan
from hookfast.events.catalogue import did_you_mean
from hookfast.resources.setting import Portal

routes = PageRouter(PORTAL)


_RECENT = Page(limit=10, after=None)
_ALL = Page(limit=MAX_LIMIT, after=None)
_EVERY_SECONDS = 3.0


@routes.get("/endpoints/{endpoint_id}")
async def endpoint_page(endpoint_id: EndpointPath, view: PageView, principal: Reader) -> Response:
    """Show an endpoint."""
    values = await _values(endpoint_id, view, principal)
    subscribed = await list_subscriptions(_ALL, view.context, principal, endpoint_id=endpoint_id)
    return view.render(
        "endpoint.html",
        **values,
        subscriptions=subscribed.data,
        unmatched=await _unmatched(subscribed.data, view, values["endpoint"].tenant_id),
        groups=settings_form(Portal, values["endpoint"].mode).groups,
        plan=parse_plan(values["endpoint"].retry_plan),
    )


# an unknown endpoint answers 404 here: later, the stream would only end
@routes.get("/live/endpoints/{endpoint_id}", dependencies=[Depends(get_endpoint)])
async def endpoint_live(endpoint_id: EndpointPath, view: PageView, principal: Reader) -> Response:
    """Stream the state and the newest activity of an endpoint."""

    async def read() -> dict[str, Any]:
        return await _values(endpoint_id, view, principal)

    return live.stream(view, "endpoint_state.html", read, every=_EVERY_SECONDS)


async def _values(endpoint_id: str, view: PageView, principal: Reader) -> dict[str, Any]:
    endpoint = await get_endpoint(endpoint_id, view.context, principal)
    return {
        "endpoint": endpoint,
        "state": endpoint_state(endpoint),
        "health": await get_endpoint_health(endpoint_id, view.context, principal),
        "figures": await figures.read(view, principal, endpoint_id=endpoint_id),
        "recent": await entries(_RECENT, view, principal, endpoint),
    }


async def _unmatched(
    subscriptions: list[SubscriptionView], view: View, tenant_id: str
) -> dict[str, str]:
    """Return the patterns that match no event of the catalogue, each with a sentence about it."""
    catalogue = view.context.catalogue
    patterns = [pattern for each in subscriptions for pattern in each.events]
    async with view.context.database.read() as connection:
        unmatched = await catalogue.unmatched(connection, patterns, tenant_id=tenant_id)
    return {
        pattern: "No event matches this yet."
        + did_you_mean(catalogue.suggest_pattern(pattern, tenant_id=tenant_id))
        for pattern in unmatched
    }
