"""The pages that every site has: the theme, signing out, and the answer to an unknown path."""

from __future__ import annotations

from fastapi import Response

from api.access.authentication import Reader
from api.answers.problems import Problem
from api.site import session
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.site import Site


def pages_of_every_site(site: Site[View]) -> list[PageRouter]:
    """Return the routers of the theme and of signing out."""
    open_routes, routes = PageRouter(site, opens=True), PageRouter(site)
    open_routes.post("/theme")(choose_theme)
    routes.post("/settings/theme")(choose_theme)
    routes.post("/sign-out")(sign_out)
    return [open_routes, routes]


def unknown_pages(site: Site[View]) -> PageRouter:
    """Return the router of every other path of the site, to be added last."""
    routes = PageRouter(site)
    routes.get("/{path:path}")(unknown_page)
    return routes


async def choose_theme(view: PageView) -> Response:
    """Choose the light theme, the dark theme, or the system's."""
    return view.choose_theme()


async def sign_out(view: PageView) -> Response:
    """End the session."""
    response = view.redirect(view.site.without_session)
    if view.visitor is not None:
        await session.end(view.request, response, view.site, view.visitor)
    return response


async def unknown_page(view: PageView, _: Reader) -> Response:
    """Answer 404 for a path without a page."""
    return view.problem(Problem(status=404, code="not_found", detail="There is no such page."))
