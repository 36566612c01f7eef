"""Adds the pages of the portal to the application."""

from __future__ import annotations

from fastapi import FastAPI, Response

from api.access.authentication import Reader
from api.answers.problems import Problem
from api.portal.pages import (
    activity,
    endpoint,
    endpoint_actions,
    endpoints,
    event_types,
    look,
    new_endpoint,
    opening,
    settings,
    subscriptions,
    test_messages,
)
from api.portal.site import PORTAL
from api.site.page import PageView
from api.site.page_route import PageRouter

_PAGES = (
    opening,
    new_endpoint,
    endpoints,
    endpoint,
    endpoint_actions,
    settings,
    subscriptions,
    test_messages,
    activity,
    event_types,
)

_unknown = PageRouter(PORTAL)


@_unknown.get("/{path:path}")
async def unknown_page(view: PageView, path: str, _: Reader) -> Response:
    """Answer 404 for a path without a page."""
    return view.problem(Problem(status=404, code="not_found", detail="There is no such page."))


def install(app: FastAPI) -> None:
    """Serve the pages."""
    app.include_router(look.routes)
    app.include_router(opening.open_routes)
    for page in _PAGES:
        app.include_router(page.routes)
    app.include_router(_unknown)
