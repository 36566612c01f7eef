"""Signing in and out, the theme, and the tenant an operator looks at."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from api.access.authentication import OperatorOnly, Reader, check_given_key, count_request
from api.access.ownership import found
from api.answers.problems import TooManyRequests, problem_of
from api.dashboard.site import session
from api.dashboard.site.page import HOME, THEMES, PageView, View, own_path
from api.dashboard.site.page_route import SIGN_IN, next_path, open_page_router, page_router
from api.process.context import AppContext
from hookfast.errors import Forbidden, Unauthenticated
from hookfast.storage.accounts import sessions, tenants

open_routes = open_page_router()
routes = page_router()

NextPath = Annotated[str | None, Query(alias="next")]


@open_routes.get("/sign-in")
async def sign_in_page(view: PageView, request: Request, after: NextPath = None) -> Response:
    """Where everybody comes who has no session."""
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
        refused = "Enter an API key." if error.code == "unauthenticated" else error.message
        return sign_in_form(
            view, request, after=after, refused=refused, status=problem_of(error).status
        )
    response = view.go(after)
    await session.begin(request, response, key=key)
    return response


@open_routes.post("/theme")
async def choose_theme_signed_out(view: PageView) -> Response:
    """Light, dark, or as the system is."""
    return _themed(view)


@routes.post("/sign-out")
async def sign_out(view: PageView, request: Request) -> Response:
    """End the session."""
    response = view.go(SIGN_IN)
    if view.visitor is not None:
        await session.end(request, response, view.visitor)
    return response


@routes.post("/settings/theme")
async def choose_theme(view: PageView, _: Reader) -> Response:
    """Light, dark, or as the system is."""
    return _themed(view)


@routes.post("/settings/tenant")
async def choose_tenant(view: PageView, context: AppContext, _: OperatorOnly) -> Response:
    """Show one tenant, or all of them."""
    chosen = view.form.text("tenant_id")
    async with context.database.write() as connection:
        if chosen is not None:
            found(await tenants.get(connection, chosen))
        if view.visitor is not None:
            await sessions.choose_tenant(connection, view.visitor.session.token_sha256, chosen)
    return view.go(own_path(view.form.text("next")))


def sign_in_form(
    view: View,
    request: Request,
    *,
    after: str | None,
    refused: str | None = None,
    status: int = 200,
) -> Response:
    """The page with the form; `refused` says why it is shown again."""
    token = session.sign_in_token(request)
    view.csrf = session.csrf_of(token)
    after = next_path(after)
    response = view.render(
        "sign_in.html", status=status, after="" if after == HOME else after, refused=refused
    )
    session.keep_sign_in_token(request, response, token)
    return response


def _themed(view: View) -> Response:
    response = view.go_back()
    theme = view.form.text("theme")
    view.choose_theme(response, theme if theme in THEMES else None)
    return response
