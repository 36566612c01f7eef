"""One endpoint: its figures, newest deliveries, subscriptions and settings."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Response

from api.access.audit import Audit
from api.access.authentication import Principal, Reader, Writer
from api.dashboard.pages import endpoint_fields
from api.dashboard.site import live
from api.dashboard.site.form import check_unchanged, seen_version
from api.dashboard.site.page import PageView, View
from api.dashboard.site.page_route import PageRouter
from api.forms.endpoint import EndpointView
from api.http.fields import EndpointPath
from api.http.pagination import Page
from api.process.context import Context
from api.routes.deliveries import list_deliveries
from api.routes.endpoint_checks import TestView, get_endpoint_stats
from api.routes.endpoint_control import get_endpoint_health
from api.routes.endpoints import change_endpoint, get_endpoint
from api.routes.event_types import list_event_types
from api.routes.subscriptions import list_subscriptions
from hookfast.errors import Conflict, HookfastError, InvalidInput, TooManyRequests

routes = PageRouter()

StoredEndpoint = Annotated[EndpointView, Depends(get_endpoint)]

_RECENT = Page(limit=10, after=None)
_ALL = Page(limit=200, after=None)
_EVERY_SECONDS = 3.0


@routes.get("/endpoints/{endpoint_id}")
async def endpoint_page(endpoint_id: EndpointPath, view: PageView, principal: Reader) -> Response:
    """Show an endpoint."""
    return await render_endpoint(endpoint_id, view=view, principal=principal)


# an unknown endpoint answers 404 here: later, the stream would only end
@routes.get("/live/endpoints/{endpoint_id}", dependencies=[Depends(get_endpoint)])
async def endpoint_live(endpoint_id: EndpointPath, view: PageView, principal: Reader) -> Response:
    """Stream the figures and the newest deliveries of an endpoint."""
    read = partial(_figures, endpoint_id, view.context, principal)
    return live.stream(view, "endpoint_figures.html", read, every=_EVERY_SECONDS)


async def render_endpoint(
    endpoint_id: str,
    *,
    view: View,
    principal: Principal,
    test: TestView | None = None,
    tested_type: str | None = None,
    status: int = 200,
) -> Response:
    """Render the endpoint's page, with the result of a test or the errors of one of its forms."""
    figures = await _figures(endpoint_id, view.context, principal)
    types = await list_event_types(_ALL, view.context, principal)
    subscribed = await list_subscriptions(_ALL, view.context, principal, endpoint_id=endpoint_id)
    return view.render(
        "endpoint.html",
        status=status,
        **figures,
        subscriptions=subscribed.data,
        event_types=sorted((each.name for each in types.data), key=_own_first),
        test=test,
        tested_type=tested_type,
    )


def _own_first(name: str) -> tuple[bool, str]:
    """Sort the platform's own event types before Hookfast's."""
    return name.startswith("hookfast."), name


async def _figures(endpoint_id: str, context: Context, principal: Principal) -> dict[str, Any]:
    recent = await list_deliveries(_RECENT, context, principal, endpoint_id=endpoint_id)
    return {
        "endpoint": await get_endpoint(endpoint_id, context, principal),
        "health": await get_endpoint_health(endpoint_id, context, principal),
        "stats": await get_endpoint_stats(endpoint_id, context, principal),
        "recent": recent.data,
    }


@routes.get("/endpoints/{endpoint_id}/settings")
async def settings_page(view: PageView, _: Writer, endpoint: StoredEndpoint) -> Response:
    """Show the form with the settings of an endpoint."""
    return _form(view, endpoint, endpoint_fields.stored_fields(endpoint))


@routes.post("/endpoints/{endpoint_id}/settings")
async def change_settings(
    endpoint: StoredEndpoint, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Save the settings of an endpoint that differ from the stored ones."""
    try:
        check_unchanged(view.form, endpoint.updated_at)
        patch = endpoint_fields.changes(endpoint_fields.api_members(view.form), endpoint)
        if patch:
            await change_endpoint(endpoint.id, patch, view.context, audit, principal)
    except (InvalidInput, Conflict, TooManyRequests) as error:
        return _form(view, endpoint, endpoint_fields.submitted_fields(view.form), error)
    notice = "The settings are saved." if patch else "Nothing changed."
    return view.redirect(f"/dashboard/endpoints/{endpoint.id}", notice)


def _form(
    view: View, endpoint: EndpointView, fields: dict[str, Any], error: HookfastError | None = None
) -> Response:
    return view.render_form(
        "endpoint_settings.html",
        error=error,
        endpoint=endpoint,
        seen=seen_version(endpoint.updated_at),
        fields=fields,
        plans=endpoint_fields.PLANS,
        profiles=endpoint_fields.PROFILES,
    )
