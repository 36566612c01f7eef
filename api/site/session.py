"""The sessions of the sites, each identified by a cookie. Those of the dashboard begin with an API
key, those of the portal with a link.

The cookie holds 256 random bits; the database stores their SHA-256. It is for this host only, never
for scripts, and over https it is never sent in clear (the prefix `__Host-`, RFC 6265bis, section
4.1.3.2). A session lasts half a day, two hours if it was begun with a link, and ends when the right
behind it does (`hookfast.storage.accounts.sessions.Grant`), which is looked up for every page.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast

from fastapi import Request, Response

from api.access.authentication import Principal, count_request
from api.access.client_address import client_site
from api.context.context import Context
from api.site.site import Site
from hookfast.errors import Unauthenticated
from hookfast.storage.accounts import sessions
from hookfast.storage.accounts.api_keys import Scope
from hookfast.storage.accounts.sessions import Grant, LiveSession

LIFETIME: Final = timedelta(hours=12)
_SIGN_IN = "hookfast-sign-in"
_FRAMES: Final = ("iframe", "frame")


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The signed-in person. `csrf` is in every form and proves that it came from our page: another
    site can have the cookie sent, but cannot read a page."""

    principal: Principal
    session: LiveSession
    csrf: str


async def current_visitor(request: Request, site: Site[Any]) -> Visitor:
    """Return the request's visitor of the site, and set the request's principal.

    Raises Unauthenticated without a valid session, and TooManyRequests as for any request with its
    key. A portal link's session has the same limit for itself.
    """
    context: Context = request.app.state.context
    token = request.cookies.get(cookie_name(request, site.cookie), "")
    session = await _find_session(request, context, token) if token else None
    if session is None or (session.via is not None) is not site.by_link:
        raise Unauthenticated("Your session has ended. Sign in again.")
    principal = Principal(
        scope=cast(Scope, session.scope),
        tenant_id=session.tenant_id,
        key_id=session.key_id,
        by_link=session.via is not None,
        endpoint_id=session.endpoint_id,
    )
    request.state.principal = principal
    # A person with a link must not use up the rate limit of the key that created it: the platform
    # may emit its events with that key.
    by_link = f"session:{session.token_sha256}"
    count_request(request, session.key_id if session.via is None else by_link)
    context.keys.mark_used(session.key_id)
    return Visitor(principal=principal, session=session, csrf=csrf_of(token))


async def _find_session(request: Request, context: Context, token: str) -> LiveSession | None:
    """Return the session with this token. A flood of invalid tokens occupies one connection of the
    database's pool, like a flood of invalid keys (see `api.limits.failure_limit`)."""
    site = client_site(request)
    async with context.failures.turn(site), context.database.read() as connection:
        session = await sessions.find(connection, _sha256(token), now=context.clock())
    if session is None:
        context.failures.count(site, Unauthenticated("There is no such session."))
    return session


async def begin(
    request: Request,
    response: Response,
    site: Site[Any],
    grant: Grant,
    *,
    lifetime: timedelta,
    replaces: str | None,
) -> None:
    """Begin a session in place of `replaces` (the result of `sent_token`), and set its cookie: a
    token that somebody planted becomes worthless. Raises Unauthenticated if its right has ended."""
    context: Context = request.app.state.context
    token, now = secrets.token_urlsafe(32), context.clock()
    async with context.database.write() as connection:
        is_added = await sessions.add(
            connection,
            grant,
            token_sha256=_sha256(token),
            now=now,
            expires_at=now + lifetime,
            replaces=replaces,
        )
    if not is_added:
        raise Unauthenticated("This key or link is no longer valid.")
    seconds = int(lifetime.total_seconds())
    set_cookie(request, response, site.cookie, token, seconds=seconds)
    set_cookie(request, response, _SIGN_IN, "", seconds=0)


def sent_token(request: Request, site: Site[Any]) -> str | None:
    """Return the SHA-256 of the session's token that the browser sent, whether or not it is one."""
    token = request.cookies.get(cookie_name(request, site.cookie))
    return _sha256(token) if token else None


async def end(request: Request, response: Response, site: Site[Any], visitor: Visitor) -> None:
    """End the session in the database and in the browser."""
    context: Context = request.app.state.context
    async with context.database.write() as connection:
        await sessions.remove(connection, visitor.session.token_sha256)
    set_cookie(request, response, site.cookie, "", seconds=0)


def sign_in_token(request: Request) -> str:
    """Return the token of the sign-in form, which has no session yet: the browser's, or a new one.
    Without it, another site could sign a visitor in as somebody else."""
    return request.cookies.get(cookie_name(request, _SIGN_IN)) or secrets.token_urlsafe(32)


def keep_sign_in_token(request: Request, response: Response, token: str) -> None:
    """Set the cookie with the token, which the browser sends with the form."""
    set_cookie(request, response, _SIGN_IN, token, seconds=3_600)


def csrf_of(token: str) -> str:
    """Return the value for the forms; nobody can compute it without the cookie."""
    return hmac.new(token.encode(), b"hookfast csrf", hashlib.sha256).hexdigest()


def cookie_name(request: Request, name: str) -> str:
    """Return the cookie's name. Over https, its prefix makes browsers reject another host's."""
    return f"__Host-{name}" if request.url.scheme == "https" else name


def set_cookie(
    request: Request, response: Response, name: str, value: str, *, seconds: int
) -> None:
    """Set one of our cookies; 0 seconds removes it.

    Browsers send the cookies of a page in another site's frame only with `SameSite=None`, and keep
    them only with `Partitioned` (CHIPS): a jar per embedding site, which the page in a tab of its
    own does not share.
    """
    secure = request.url.scheme == "https"
    framed = secure and is_framed(request)
    response.set_cookie(
        cookie_name(request, name),
        value,
        max_age=seconds,
        path="/",
        secure=secure,
        httponly=True,
        # not `strict`: people who follow a link in a mail would have to sign in again
        samesite="none" if framed else "lax",
    )
    if framed:  # Starlette knows the attribute on Python 3.14 only
        name_, header = response.raw_headers.pop()
        response.raw_headers.append((name_, header + b"; Partitioned"))


def is_framed(request: Request) -> bool:
    """Return whether the page is loaded into a frame of another page (Fetch Metadata), as the
    settings allow some sites to do. Without them no page of ours is shown in a frame."""
    context: Context = request.app.state.context
    return _destination(request) in _FRAMES and bool(context.settings.portal_frame_origins)


def is_shown(request: Request) -> bool:
    """Return whether the response becomes a page that the visitor sees: in a tab, or in a frame
    where that is allowed. To an image, a script, or a page that is loaded in advance (Prefetch), a
    link must not begin a session unnoticed. Browsers that are older than 2023, and all of them over
    http, do not say what they load."""
    if any("prefetch" in request.headers.get(name, "") for name in ("sec-purpose", "purpose")):
        return False
    return _destination(request) in (None, "document") or is_framed(request)


def _destination(request: Request) -> str | None:
    return request.headers.get("sec-fetch-dest")


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
