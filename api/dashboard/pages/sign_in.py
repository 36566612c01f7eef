"""Signing in with an API key."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from api.access.authentication import check_given_key, count_request
from api.answers.problems import problem_of
from api.dashboard.site import DASHBOARD
from api.site import session
from api.site.page import PageView, View
from api.site.page_route import PageRouter, next_path
from hookfast.errors import Forbidden, HookfastError, TooManyRequests, Unauthenticated
from hookfast.storage.accounts.sessions import Grant

open_routes = PageRouter(DASHBOARD, opens=True)

NextPath = Annotated[str | None, Query(alias="next")]


@open_routes.get("/sign-in")
async def sign_in_page(view: PageView, after: NextPath = None) -> Response:
    """Show the form for the API key. Pages redirect here without a session."""
    return sign_in_form(view, after=after)


@open_routes.post("/sign-in")
async def sign_in(view: PageView) -> Response:
    """Begin a session with an API key."""
    after = next_path(DASHBOARD, view.form.text("next"))
    try:
        key = await check_given_key(view.request, view.form.get("key", ""))
        if key.scope == "emit":
            raise Forbidden("This key may only emit events. Use another key.")
        count_request(view.request, key.key_id)
    except (Unauthenticated, TooManyRequests, Forbidden) as error:
        text = "Enter an API key." if error.code == "unauthenticated" else None
        return sign_in_form(view, after=after, error=error, text=text)
    response = view.redirect(after)
    lifetime = session.LIFETIME
    if key.expires_at is not None:
        lifetime = min(lifetime, key.expires_at - view.now)
    grant = Grant(
        key_id=key.key_id, scope=key.scope, tenant_id=key.tenant_id, begun_with=key.key_id
    )
    earlier = session.sent_token(view.request, DASHBOARD)
    await session.begin(
        view.request, response, DASHBOARD, grant, lifetime=lifetime, replaces=earlier
    )
    return response


def sign_in_form(
    view: View, *, after: str | None, error: HookfastError | None = None, text: str | None = None
) -> Response:
    """Render the page with the form. `error`, or `text` instead of its message, says why it is
    shown again."""
    after = next_path(DASHBOARD, after)
    return view.render_open_form(
        "sign_in.html",
        status=200 if error is None else problem_of(error).status,
        after="" if after == DASHBOARD.home else after,
        error=text or (error and error.message),
    )
