"""Adds the pages of the dashboard to the application."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import RedirectResponse

from api.dashboard.pages import (
    api_keys,
    audit_log,
    bulk,
    dead_letters,
    delivery,
    delivery_list,
    endpoint,
    endpoint_actions,
    endpoint_recovery,
    endpoint_settings,
    endpoint_tests,
    endpoints,
    event_types,
    events,
    inbox,
    jobs,
    overview,
    portal_links,
    retention,
    search,
    sign_in,
    source_actions,
    sources,
    subscriptions,
    tenant,
    tenants,
)
from api.dashboard.site import DASHBOARD
from api.site import live, static_files
from api.site.endpoint_credentials import credential_pages
from api.site.every_site import pages_of_every_site, unknown_pages
from api.stream.slots import StreamSlots

_PAGES = (
    search,
    overview,
    endpoints,
    endpoint,
    endpoint_actions,
    endpoint_settings,
    endpoint_recovery,
    endpoint_tests,
    subscriptions,
    delivery_list,
    bulk,
    delivery,
    events,
    dead_letters,
    jobs,
    sources,
    source_actions,
    inbox,
    event_types,
    audit_log,
    api_keys,
    portal_links,
    retention,
    tenants,
    tenant,
)


def routers() -> list[APIRouter]:
    """Return the routers of the pages, those that need no session first."""
    return [
        sign_in.open_routes,
        *pages_of_every_site(DASHBOARD),
        credential_pages(DASHBOARD),
        *(page.routes for page in _PAGES),
    ]


def install(app: FastAPI) -> None:
    """Serve the pages, and redirect `/` and `/dashboard/` to the first one."""

    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return RedirectResponse(DASHBOARD.home)

    @app.get(f"{DASHBOARD.home}/", include_in_schema=False)
    async def home() -> Response:
        return RedirectResponse(DASHBOARD.home)

    app.state.live_slots = StreamSlots(live.SLOTS)
    app.include_router(static_files.routes)
    for router in (*routers(), unknown_pages(DASHBOARD)):
        app.include_router(router)
