"""One endpoint: how it fares, what it gets, and its settings."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Principal, Reader, Writer
from api.answers.problems import problem_of
from api.dashboard.pages import endpoint_fields
from api.dashboard.site import live
from api.dashboard.site.form import check_unchanged, faults, seen
from api.dashboard.site.page import PageView, View
from api.dashboard.site.page_route import page_router
from api.forms.endpoint import EndpointView
from api.http.fields import EndpointPath
from api.http.pagination import Page
from api.process.context import AppContext, Context
from api.routes.deliveries import list_deliveries
from api.routes.endpoint_checks import TestView, get_endpoint_stats
from api.routes.endpoint_control import get_endpoint_health
from api.routes.endpoints import change_endpoint, get_endpoint
from api.routes.event_types import list_event_types
from api.routes.subscriptions import list_subscriptions
from hookfast.errors import Conflict, HookfastError, InvalidInput

routes = page_router()

_RECENT = Page(limit=10, after=None)
_ALL = Page(limit=200, after=None)
_EVERY_SECONDS = 3.0


@routes.get("/endpoints/{endpoint_id}")
async def endpoint_page(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, principal: Reader
) -> Response:
    """How it fares."""
    return await show(endpoint_id, view=view, context=context, principal=principal)


@routes.get("/live/endpoints/{endpoint_id}")
async def endpoint_live(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, principal: Reader
) -> Response:
    """What moves of it."""
    await get_endpoint(endpoint_id, context, principal)

    async def render() -> str:
        view.now = context.clock()
        figures = await _figures(endpoint_id, context, principal)
        return view.text("endpoint_figures.html", **figures)

    return live.stream(view, render, every=_EVERY_SECONDS)


async def show(
    endpoint_id: str,
    *,
    view: View,
    context: Context,
    principal: Principal,
    test: TestView | None = None,
    tested_type: str | None = None,
    status: int = 200,
) -> Response:
    """The page, with what came of a test, or with what is wrong in a form of it."""
    figures = await _figures(endpoint_id, context, principal)
    types = await list_event_types(_ALL, context, principal)
    subscribed = await list_subscriptions(_ALL, context, principal, endpoint_id=endpoint_id)
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
    """The platform's own event types before ours."""
    return name.startswith("hookfast."), name


async def _figures(endpoint_id: str, context: Context, principal: Principal) -> dict[str, Any]:
    return {
        "endpoint": await get_endpoint(endpoint_id, context, principal),
        "health": await get_endpoint_health(endpoint_id, context, principal),
        "stats": await get_endpoint_stats(endpoint_id, context, principal),
        "recent": (
            await list_deliveries(_RECENT, context, principal, endpoint_id=endpoint_id)
        ).data,
    }


@routes.get("/endpoints/{endpoint_id}/settings")
async def settings_page(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, principal: Writer
) -> Response:
    """Its settings."""
    endpoint = await get_endpoint(endpoint_id, context, principal)
    return _form(view, endpoint, endpoint_fields.fields_of(endpoint))


@routes.post("/endpoints/{endpoint_id}/settings")
async def change_settings(
    endpoint_id: EndpointPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
) -> Response:
    """Change them."""
    endpoint = await get_endpoint(endpoint_id, context, principal)
    try:
        check_unchanged(view.form, endpoint.updated_at)
        patch = endpoint_fields.changed(endpoint_fields.members_of(view.form), endpoint)
        if patch:
            await change_endpoint(endpoint_id, patch, context, audit, principal)
    except (InvalidInput, Conflict) as error:
        sent = endpoint_fields.fields_sent(view.form)
        return _form(view, endpoint, sent, refused=error)
    told = "The settings are saved." if patch else "Nothing changed."
    return view.go(f"/dashboard/endpoints/{endpoint_id}", told)


def _form(
    view: View,
    endpoint: EndpointView,
    fields: dict[str, Any],
    *,
    refused: HookfastError | None = None,
) -> Response:
    return view.render(
        "endpoint_settings.html",
        status=200 if refused is None else problem_of(refused).status,
        endpoint=endpoint,
        seen=seen(endpoint.updated_at),
        fields=fields,
        errors=() if refused is None else faults(refused),
        plans=endpoint_fields.PLANS,
        profiles=endpoint_fields.PROFILES,
    )
