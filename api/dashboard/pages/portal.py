"""Opening a portal link: it becomes a session at once and disappears from the address."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import structlog
from fastapi import Query, Request, Response

from api.access.authentication import count_request
from api.access.client_address import client_site
from api.dashboard.pages.sign_in import render_open_form, sign_in_form
from api.process.key_cache import KnownKey
from api.site import session
from api.site.page import HOME, PageView, View
from api.site.page_route import open_page_router
from hookfast.errors import TooManyRequests, Unauthenticated
from hookfast.owners.notice import owner_hash
from hookfast.signing.portal_link import PARAMETER, PortalLink, open_link
from hookfast.storage.accounts import api_keys
from hookfast.storage.endpoints import endpoints
from hookfast.storage.tables import Endpoint

open_routes = open_page_router()

LIFETIME: Final = timedelta(hours=2)
_GONE: Final = "This link is no longer valid. Ask its sender for a new one."
Sig = Annotated[str, Query(alias=PARAMETER)]

log = structlog.get_logger()


@open_routes.get("/portal")
async def open_portal(view: PageView, sig: Sig = "") -> Response:
    """Begin the link's session. If the visitor is signed in, ask first: a link from somebody else
    must not end a session."""
    if not await _is_signed_in(view.request):
        return await _begin_session(view, sig)
    try:
        await _checked(sig, view)
    except (TooManyRequests, Unauthenticated) as error:
        return sign_in_form(view, after=None, error=error)
    return render_open_form(view, "portal.html", parameter=PARAMETER, sig=sig)


@open_routes.post("/portal")
async def open_portal_instead(view: PageView) -> Response:
    """Replace the visitor's session by the link's."""
    return await _begin_session(view, view.form.get(PARAMETER, ""))


async def _is_signed_in(request: Request) -> bool:
    try:
        await session.current_visitor(request)
    except Unauthenticated:
        return False
    return True


async def _begin_session(view: View, sig: str) -> Response:
    try:
        link = await _checked(sig, view)
        # each session has a rate limit of its own, so the number of new sessions needs one too
        count_request(view.request, f"portal:{link.tenant_id}")
    except (TooManyRequests, Unauthenticated) as error:
        return sign_in_form(view, after=None, error=error)
    key = KnownKey(
        key_id=link.key_id or f"{session.MAIL}:{link.owner_hash}",
        scope=link.scope,
        tenant_id=link.tenant_id,
        expires_at=None,
    )
    response = view.redirect(HOME)
    await session.begin(
        view.request,
        response,
        key=key,
        lifetime=LIFETIME,
        via="link" if link.key_id else session.MAIL,
        endpoint_id=link.endpoint_id,
    )
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
