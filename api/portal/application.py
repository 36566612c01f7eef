"""Adds the pages of the portal to the application."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Response

from api.access.authentication import Reader
from api.answers.problems import Problem
from api.portal.pages import (
    activity,
    appearance,
    endpoint,
    endpoint_actions,
    endpoints,
    event_types,
    guide,
    link_session,
    new_endpoint,
    samples,
    settings,
    subscriptions,
)
from api.portal.site import PORTAL
from api.site.endpoint_credentials import credential_pages
from api.site.page import PageView
from api.site.page_route import PageRouter

_PAGES = (
    link_session,
    new_endpoint,
    endpoints,
    endpoint,
    endpoint_actions,
    settings,
    subscriptions,
    samples,
    activity,
    event_types,
)

_unknown = PageRouter(PORTAL)


@_unknown.get("/{path:path}")
async def unknown_page(view: PageView, path: str, _: Reader) -> Response:
    """Answer 404 for a path without a page."""
    return view.problem(Problem(status=404, code="not_found", detail="There is no such page."))


def routers() -> list[APIRouter]:
    """Return the routers of the pages, those that need no session first."""
    return [
        link_session.open_routes,
        guide.open_routes,
        credential_pages(PORTAL),
        *(page.routes for page in _PAGES),
    ]


def install(app: FastAPI) -> None:
    """Serve the pages."""
    app.include_router(appearance.routes)
    for router in (*routers(), _unknown):
        app.include_router(router)
