"""Adds the pages of the portal to the application."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

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
from api.site.every_site import pages_of_every_site, unknown_pages

_PAGES = (
    new_endpoint,
    endpoints,
    endpoint,
    endpoint_actions,
    settings,
    subscriptions,
    samples,
    activity,
    appearance,
    event_types,
)


def routers() -> list[APIRouter]:
    """Return the routers of the pages, those that need no session first."""
    return [
        link_session.open_routes,
        guide.open_routes,
        *pages_of_every_site(PORTAL),
        credential_pages(PORTAL),
        *(page.routes for page in _PAGES),
    ]


def install(app: FastAPI) -> None:
    """Serve the pages."""
    app.include_router(appearance.routes)
    for router in (*routers(), unknown_pages(PORTAL)):
        app.include_router(router)
