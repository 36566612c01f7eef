"""Opening a portal link: it becomes a session at once and disappears from the address."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import structlog
from fastapi import Query, Response

from api.access.authentication import count_request
from api.access.client_address import client_site
from api.answers.problems import problem_of
from api.context.key_cache import KnownKey
from api.portal.site import PORTAL, keep_accent
from api.site import session
from api.site.page import THEMES, PageView, View
from api.site.page_route import PageRouter
from hookfast.brand import parse_accent
from hookfast.errors import HookfastError, InvalidInput, TooManyRequests, Unauthenticated
from hookfast.owners.notice import owner_hash
from hookfast.signing.portal_link import PARAMETER, PortalLink, open_link
from hookfast.storage.accounts import api_keys
from hookfast.storage.endpoints import endpoints
from hookfast.storage.tables import Endpoint

open_routes = PageRouter(PORTAL, opens=True)

LIFETIME: Final = timedelta(hours=2)
MAIL: Final = "mail"
"""How the `key_id` begins of a session begun with a link in an owner's mail: it has no key."""
_GONE: Final = "This link is no longer valid. Ask its sender for a new one."
Sig = Annotated[str, Query(alias=PARAMETER)]
Look = Annotated[str | None, Query(max_length=20)]

log = structlog.get_logger()


@open_routes.get("/open")
async def open_portal(
    view: PageView, sig: Sig = "", theme: Look = None, accent: Look = None
) -> Response:
    """Begin the link's session, with the theme and the accent colour of the embedding page. If the
    visitor sees another customer's portal, ask first: a link from somebody else must not replace
    it unnoticed."""
    try:
        link = await _checked(sig, view)
    except (TooManyRequests, Unauthenticated) as error:
        return _ended(view, error)
    if await _sees_another(view, link):
        values = {"parameter": PARAMETER, "sig": sig, "theme": theme, "accent": accent}
        return view.render_open_form("replace.html", values=values)
    return await _begin_session(view, link, theme=theme, accent=accent)


@open_routes.post("/open")
async def open_portal_instead(view: PageView) -> Response:
    """Replace the visitor's session by the link's."""
    try:
        link = await _checked(view.form.get(PARAMETER, ""), view)
    except (TooManyRequests, Unauthenticated) as error:
        return _ended(view, error)
    theme, accent = view.form.text("theme"), view.form.text("accent")
    return await _begin_session(view, link, theme=theme, accent=accent)


@open_routes.get("/ended")
async def session_ended(view: PageView) -> Response:
    """Say that the session has ended. Pages redirect here without a session."""
    return _ended(view, Unauthenticated("Your session has ended. Open the link to it again."))


def _ended(view: View, error: HookfastError) -> Response:
    status = problem_of(error).status
    return view.render_open_form("ended.html", status=status, error=error.message)


async def _sees_another(view: View, link: PortalLink) -> bool:
    """Return whether the visitor has a session for another tenant. In a frame it is replaced
    without a question: the embedding site, which is one of those allowed, opened the link."""
    if session.is_framed(view.request):
        return False
    try:
        visitor = await session.current_visitor(view.request, PORTAL)
    except Unauthenticated:
        return False
    return visitor.session.tenant_id != link.tenant_id


async def _begin_session(
    view: View, link: PortalLink, *, theme: str | None, accent: str | None
) -> Response:
    """Begin the session. Raises InvalidInput for an unknown theme or an invalid colour, so that the
    builder of the embedding page sees it."""
    if theme is not None and theme not in THEMES:
        raise InvalidInput("The theme is `light` or `dark`; without one it is the visitor's.")
    try:
        accent = None if accent is None else parse_accent(accent)
    except ValueError as error:
        raise InvalidInput(f"The accent is not a colour: {error}.") from None
    try:
        # each session has a rate limit of its own, so the number of new sessions needs one too
        count_request(view.request, f"portal:{link.tenant_id}")
    except TooManyRequests as error:
        return _ended(view, error)
    key = KnownKey(
        key_id=link.key_id or f"{MAIL}:{link.owner_hash}",
        scope=link.scope,
        tenant_id=link.tenant_id,
        expires_at=None,
    )
    response = view.redirect(PORTAL.home)
    await session.begin(
        view.request,
        response,
        PORTAL,
        key=key,
        lifetime=LIFETIME,
        via="link" if link.key_id else MAIL,
        endpoint_id=link.endpoint_id,
    )
    if theme is not None:
        view.keep_theme(response, theme)
    keep_accent(view, response, accent)
    log.info("A portal link was opened.", tenant_id=link.tenant_id, key_id=key.key_id)
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
        if link.key_id is not None:
            key = await api_keys.get(connection, link.key_id)
            is_expired = key is not None and key.expires_at is not None and key.expires_at <= now
            if key is None or is_expired or key.revoked_at is not None:
                raise Unauthenticated(_GONE, code="invalid_link")
        if link.endpoint_id is not None:
            endpoint = await endpoints.get(connection, link.endpoint_id)
            if endpoint is None or (link.key_id is None and not _is_owner(link, endpoint)):
                raise Unauthenticated(_GONE, code="invalid_link")
    return link


def _is_owner(link: PortalLink, endpoint: Endpoint) -> bool:
    return link.owner_hash in {owner_hash(address) for address in endpoint.owner_emails}
