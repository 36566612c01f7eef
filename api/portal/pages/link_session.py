"""Opening a portal link: it becomes a session at once and disappears from the address."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import structlog
from fastapi import Query, Response

from api.access.authentication import count_request
from api.access.client_address import client_site
from api.answers.problems import problem_of
from api.portal.site import PORTAL, keep_accent
from api.site import session
from api.site.page import THEMES, PageView, View
from api.site.page_route import PageRouter
from hookfast.brand import parse_accent
from hookfast.errors import (
    Forbidden,
    HookfastError,
    InvalidInput,
    TooManyRequests,
    Unauthenticated,
)
from hookfast.signing.portal_link import PARAMETER, PortalLink, open_link
from hookfast.storage.accounts import sessions
from hookfast.storage.accounts.sessions import Grant, LiveSession

open_routes = PageRouter(PORTAL, opens=True)

LIFETIME: Final = timedelta(hours=2)
_GONE: Final = "This link is no longer valid. Ask its sender for a new one."
Sig = Annotated[str, Query(alias=PARAMETER)]
Look = Annotated[str | None, Query(max_length=20)]

log = structlog.get_logger()


@open_routes.get("/open")
async def open_portal(
    view: PageView, sig: Sig = "", theme: Look = None, accent: Look = None
) -> Response:
    """Begin the link's session, with the theme and the accent colour of the embedding page. If the
    visitor sees another customer's portal, ask first, also in a frame: a link from somebody else
    must not replace it unnoticed. Raises Forbidden if the visitor would not see the portal."""
    try:
        link = await _checked(sig, view)
    except (TooManyRequests, Unauthenticated) as error:
        return _ended(view, error)
    current = await _current(view)
    if current is not None and current.tenant_id != link.tenant_id:
        values = {"parameter": PARAMETER, "sig": sig, "theme": theme, "accent": accent}
        return view.render_open_form("replace.html", values=values)
    if not session.is_shown(view.request):
        raise Forbidden("This link opens in a tab, or in a frame of a site that may embed it.")
    return await _begin_session(view, link, replaces=current, theme=theme, accent=accent)


@open_routes.post("/open")
async def open_portal_instead(view: PageView) -> Response:
    """Replace the visitor's session by the link's."""
    try:
        link = await _checked(view.form.get(PARAMETER, ""), view)
    except (TooManyRequests, Unauthenticated) as error:
        return _ended(view, error)
    theme, accent = view.form.text("theme"), view.form.text("accent")
    current = await _current(view)
    return await _begin_session(view, link, replaces=current, theme=theme, accent=accent)


@open_routes.get("/ended")
async def session_ended(view: PageView) -> Response:
    """Say that the session has ended. Pages redirect here without a session."""
    return _ended(view, Unauthenticated("Your session has ended. Open the link to it again."))


def _ended(view: View, error: HookfastError) -> Response:
    status = problem_of(error).status
    return view.render_open_form("ended.html", status=status, error=error.message)


async def _current(view: View) -> LiveSession | None:
    """Return the visitor's session."""
    try:
        visitor = await session.current_visitor(view.request, PORTAL)
    except Unauthenticated:
        return None
    return visitor.session


async def _begin_session(
    view: View,
    link: PortalLink,
    *,
    replaces: LiveSession | None,
    theme: str | None,
    accent: str | None,
) -> Response:
    """Begin the link's session in place of the visitor's. Raises InvalidInput for an unknown theme
    or an invalid colour, so that the builder of the embedding page sees it."""
    if theme is not None and theme not in THEMES:
        raise InvalidInput("The theme is `light` or `dark`; without one it is the visitor's.")
    try:
        accent = None if accent is None else parse_accent(accent)
    except ValueError as error:
        raise InvalidInput(f"The accent is not a colour: {error}.") from None
    grant, response = grant_of(link), view.redirect(PORTAL.home)
    try:
        # each session has a rate limit of its own, so the number of new sessions needs one too
        count_request(view.request, f"portal:{link.tenant_id}")
        await session.begin(
            view.request,
            response,
            PORTAL,
            grant,
            lifetime=LIFETIME,
            replaces=None if replaces is None else replaces.token_sha256,
        )
    except (TooManyRequests, Unauthenticated) as error:
        return _ended(view, error)
    if theme is not None:
        view.keep_theme(response, theme)
    keep_accent(view, response, accent)
    log.info("A portal link was opened.", tenant_id=link.tenant_id, key_id=grant.key_id)
    return response


async def _checked(sig: str, view: View) -> PortalLink:
    """Return the link if it is still valid. Raises Unauthenticated, or TooManyRequests after too
    many invalid links."""
    context, now = view.context, view.now
    try:
        link = open_link(sig, context.keyring, now=now)
    except Unauthenticated as error:
        raise context.failures.count(client_site(view.request), error) from None
    async with context.database.read() as connection:
        if not await sessions.holds(connection, grant_of(link), now=now):
            raise Unauthenticated(_GONE, code="invalid_link")
    return link


def grant_of(link: PortalLink) -> Grant:
    """Return the right that a link gives."""
    return Grant(
        key_id=link.key_id or sessions.key_id_of_owner(link.owner_hash or ""),
        scope=link.scope,
        tenant_id=link.tenant_id,
        begun_with=link.digest(),
        via=sessions.LINK if link.key_id else sessions.MAIL,
        endpoint_id=link.endpoint_id,
    )
