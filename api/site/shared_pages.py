"""The pages that every site has: the theme, the end of the session, and paths without a page."""

from __future__ import annotations

from fastapi import APIRouter, Response

from api.access.authentication import Reader
from api.answers.problems import Problem
from api.site import session
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.site import Site


def session_pages(site: Site[View]) -> list[APIRouter]:
    """Return the routers of the forms for the theme, with and without a session, and of the one
    that ends the session."""
    open_routes, routes = PageRouter(site, opens=True), PageRouter(site)

    @open_routes.post("/theme")
    @routes.post("/settings/theme")
    async def choose_theme(view: PageView) -> Response:
        """Choose the light theme, the dark theme, or the system's."""
        return view.choose_theme()

    @routes.post("/sign-out")
    async def sign_out(view: PageView) -> Response:
        """End the session."""
        response = view.redirect(site.without_session)
        if view.visitor is not None:
            await session.end(view.request, response, site, view.visitor)
        return response

    return [open_routes, routes]


def unknown_pages(site: Site[View]) -> APIRouter:
    """Return the router that answers 404 for a path without a page. It comes after all others."""
    routes = PageRouter(site)

    @routes.get("/{path:path}")
    async def unknown_page(view: PageView, path: str, _: Reader) -> Response:
        return view.problem(Problem(status=404, code="not_found", detail="There is no such page."))

    return routes
