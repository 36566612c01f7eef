"""Signing in and out, and the theme."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response

from api.access.authentication import Reader, check_given_key, count_request
from api.answers.problems import problem_of
from api.site import session
from api.site.page import HOME, THEMES, PageView, View
from api.site.page_route import SIGN_IN, PageRouter, next_path, open_page_router
from hookfast.errors import Forbidden, HookfastError, TooManyRequests, Unauthenticated

open_routes = open_page_router()
routes = PageRouter()

NextPath = Annotated[str | None, Query(alias="next")]


@open_routes.get("/sign-in")
async def sign_in_page(view: PageView, after: NextPath = None) -> Response:
    """Show the form for the API key. Pages redirect here without a session."""
    return sign_in_form(view, after=after)


@open_routes.post("/sign-in")
async def sign_in(view: PageView) -> Response:
    """Begin a session with an API key."""
    after = next_path(view.form.text("next"))
    try:
        key = await check_given_key(view.request, view.form.get("key", ""))
        if key.scope == "emit":
            raise Forbidden("This key may only emit events. Use another key.")
        count_request(view.request, key.key_id)
    except (Unauthenticated, TooManyRequests, Forbidden) as error:
        text = "Enter an API key." if error.code == "unauthenticated" else None
        return sign_in_form(view, after=after, error=error, text=text)
    response = view.redirect(after)
    await session.begin(view.request, response, key=key)
    return response


@open_routes.post("/theme")
async def choose_theme_signed_out(view: PageView) -> Response:
    """Choose the theme on a page that needs no session."""
    return _choose_theme(view)


@routes.post("/sign-out")
async def sign_out(view: PageView) -> Response:
    """End the session."""
    response = view.redirect(SIGN_IN)
    if view.visitor is not None:
        await session.end(view.request, response, view.visitor)
    return response


@routes.post("/settings/theme")
async def choose_theme(view: PageView, _: Reader) -> Response:
    """Choose the light theme, the dark theme, or the system's."""
    return _choose_theme(view)


def sign_in_form(
    view: View, *, after: str | None, error: HookfastError | None = None, text: str | None = None
) -> Response:
    """Render the page with the form. `error`, or `text` instead of its message, says why it is
    shown again."""
    after = next_path(after)
    return render_open_form(
        view,
        "sign_in.html",
        status=200 if error is None else problem_of(error).status,
        after="" if after == HOME else after,
        error=text or (error and error.message),
    )


def render_open_form(view: View, template: str, **values: Any) -> Response:
    """Render a page with a form that needs no session, but the token in a cookie."""
    token = session.sign_in_token(view.request)
    view.csrf = session.csrf_of(token)
    response = view.render(template, **values)
    session.keep_sign_in_token(view.request, response, token)
    return response


def _choose_theme(view: View) -> Response:
    response = view.redirect_back()
    theme = view.form.text("theme")
    view.choose_theme(response, theme if theme in THEMES else None)
    return response
