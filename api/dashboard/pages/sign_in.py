"""Signing in and out, and the theme."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from api.access.authentication import Reader, check_given_key, count_request
from api.answers.problems import TooManyRequests, problem_of
from api.dashboard.site import session
from api.dashboard.site.page import HOME, THEMES, PageView, View
from api.dashboard.site.page_route import SIGN_IN, PageRouter, next_path, open_page_router
from hookfast.errors import Forbidden, Unauthenticated

open_routes = open_page_router()
routes = PageRouter()

NextPath = Annotated[str | None, Query(alias="next")]


@open_routes.get("/sign-in")
async def sign_in_page(view: PageView, request: Request, after: NextPath = None) -> Response:
    """Show the form for the API key. Pages redirect here without a session."""
    return sign_in_form(view, request, after=after)


@open_routes.post("/sign-in")
async def sign_in(view: PageView, request: Request) -> Response:
    """Begin a session with an API key."""
    after = next_path(view.form.text("next"))
    try:
        key = await check_given_key(request, view.form.get("key", ""))
        if key.scope == "emit":
            raise Forbidden("This key may only emit events. Use another key.")
        count_request(request, key.key_id)
    except (Unauthenticated, TooManyRequests, Forbidden) as error:
        text = "Enter an API key." if error.code == "unauthenticated" else error.message
        return sign_in_form(view, request, after=after, error=text, status=problem_of(error).status)
    response = view.redirect(after)
    await session.begin(request, response, key=key)
    return response


@open_routes.post("/theme")
async def choose_theme_signed_out(view: PageView) -> Response:
    """Choose the theme on a page that needs no session."""
    return _choose_theme(view)


@routes.post("/sign-out")
async def sign_out(view: PageView, request: Request) -> Response:
    """End the session."""
    response = view.redirect(SIGN_IN)
    if view.visitor is not None:
        await session.end(request, response, view.visitor)
    return response


@routes.post("/settings/theme")
async def choose_theme(view: PageView, _: Reader) -> Response:
    """Choose the light theme, the dark theme, or the system's."""
    return _choose_theme(view)


def sign_in_form(
    view: View,
    request: Request,
    *,
    after: str | None,
    error: str | None = None,
    status: int = 200,
) -> Response:
    """Render the page with the form. `error` says why it is shown again."""
    token = session.sign_in_token(request)
    view.csrf = session.csrf_of(token)
    after = next_path(after)
    response = view.render(
        "sign_in.html", status=status, after="" if after == HOME else after, error=error
    )
    session.keep_sign_in_token(request, response, token)
    return response


def _choose_theme(view: View) -> Response:
    response = view.redirect_back()
    theme = view.form.text("theme")
    view.choose_theme(response, theme if theme in THEMES else None)
    return response
