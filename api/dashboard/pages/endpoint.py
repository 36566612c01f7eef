"""One endpoint: its figures, newest deliveries, subscriptions and settings."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Response

from api.access.authentication import Principal, Reader
from api.dashboard.pages import endpoint_charts
from api.dashboard.pages.endpoint_charts import Window, WindowQuery
from api.forms.endpoint import EndpointView
from api.forms.unmatched import explain_unmatched
from api.http.fields import EndpointPath
from api.http.pagination import Page
from api.routes.deliveries import list_deliveries
from api.routes.endpoint_checks import TestView, get_endpoint_stats
from api.routes.endpoint_control import get_endpoint_health
from api.routes.endpoints import get_endpoint
from api.routes.event_types import list_event_types
from api.routes.subscriptions import PreviewView, list_subscriptions
from api.site import live
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from hookfast.deliveries.retry_plan import parse_plan

routes = PageRouter()

StoredEndpoint = Annotated[EndpointView, Depends(get_endpoint)]

_RECENT = Page(limit=10, after=None)
_ALL = Page(limit=200, after=None)
_EVERY_SECONDS = 3.0


@routes.get("/endpoints/{endpoint_id}")
async def endpoint_page(
    endpoint_id: EndpointPath,
    view: PageView,
    principal: Reader,
    window: WindowQuery = endpoint_charts.DEFAULT,
) -> Response:
    """Show an endpoint, with its attempts in the window."""
    return await render_endpoint(endpoint_id, view=view, principal=principal, window=window)


# an unknown endpoint answers 404 here: later, the stream would only end
@routes.get("/live/endpoints/{endpoint_id}", dependencies=[Depends(get_endpoint)])
async def endpoint_live(
    endpoint_id: EndpointPath,
    view: PageView,
    principal: Reader,
    window: WindowQuery = endpoint_charts.DEFAULT,
) -> Response:
    """Stream the figures and the newest deliveries of an endpoint."""
    read = partial(_figures, endpoint_id, view, principal, window)
    return live.stream(view, "endpoint_figures.html", read, every=_EVERY_SECONDS)


async def render_endpoint(
    endpoint_id: str,
    *,
    view: View,
    principal: Principal,
    window: Window = endpoint_charts.DEFAULT,
    test: TestView | None = None,
    tested_type: str | None = None,
    preview: PreviewView | None = None,
    status: int = 200,
) -> Response:
    """Render the endpoint's page, with the result of a test, the preview of a subscription, or the
    errors of one of its forms."""
    figures = await _figures(endpoint_id, view, principal, window)
    subscribed = await list_subscriptions(_ALL, view.context, principal, endpoint_id=endpoint_id)
    async with view.context.database.read() as connection:
        unmatched = await explain_unmatched(
            view.context,
            connection,
            [pattern for each in subscribed.data for pattern in each.events],
            tenant_id=figures["endpoint"].tenant_id,
        )
    return view.render(
        "endpoint.html",
        status=status,
        **figures,
        subscriptions=subscribed.data,
        unmatched=unmatched,
        plan=parse_plan(figures["endpoint"].retry_plan),
        policy=view.context.settings.circuit_policy.with_overrides(figures["endpoint"].circuit),
        event_types=await example_types(view, principal),
        test=test,
        tested_type=tested_type,
        preview=preview,
    )


async def example_types(view: View, principal: Principal) -> list[str]:
    """Return the names of the event types of which there are examples to send or preview."""
    types = await list_event_types(_ALL, view.context, principal)
    return sorted((each.name for each in types.data), key=_own_first)


def _own_first(name: str) -> tuple[bool, str]:
    """Sort the platform's own event types before Hookfast's."""
    return name.startswith("hookfast."), name


async def _figures(
    endpoint_id: str, view: View, principal: Principal, window: Window
) -> dict[str, Any]:
    context = view.context
    recent = await list_deliveries(_RECENT, context, principal, endpoint_id=endpoint_id)
    endpoint = await get_endpoint(endpoint_id, context, principal)
    charts = await endpoint_charts.read(view, endpoint_id, window, created_at=endpoint.created_at)
    since = charts.steps[0].start
    return {
        "endpoint": endpoint,
        "health": await get_endpoint_health(endpoint_id, context, principal),
        "stats": await get_endpoint_stats(endpoint_id, context, principal, since=since),
        "charts": charts,
        "windows": endpoint_charts.NAMES,
        "recent": recent.data,
    }
