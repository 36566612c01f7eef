"""One message from a POST to the page that its redirect leads to: in a cookie, sealed, so that
nobody else can make a page of ours say something. Never a secret: those are in the answer itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal

from fastapi import Request, Response

from api.dashboard.site.session import cookie_name, set_cookie
from api.process.context import Context
from hookfast.errors import Misconfigured

_COOKIE: Final = "hookfast-flash"
_CONTEXT = "dashboard flash"
_SECONDS = 60
_MAX_TEXT = 600

Tone = Literal["good", "bad"]


@dataclass(frozen=True, slots=True)
class Flash:
    """What to tell, and how it went."""

    tone: Tone
    text: str


def put(request: Request, response: Response, flash: Flash, *, owner: str) -> None:
    """Tell `owner` (a session) on its next page."""
    context: Context = request.app.state.context
    # as it is, four bytes a character at most: escaped, it would not fit into a cookie
    text = json.dumps([owner, flash.tone, flash.text[:_MAX_TEXT]], ensure_ascii=False)
    sealed = context.keyring.seal(text, context=_CONTEXT)
    set_cookie(request, response, _COOKIE, sealed, seconds=_SECONDS)


def take(request: Request, *, owner: str) -> Flash | None:
    """What there is to tell `owner`, if anything. `drop` then has to be called on the answer."""
    sealed = request.cookies.get(cookie_name(request, _COOKIE))
    if not sealed:
        return None
    context: Context = request.app.state.context
    try:
        told, tone, text = json.loads(context.keyring.open(sealed, context=_CONTEXT))
    except Misconfigured:  # not by us, or by a key that is no more
        return None
    return Flash(tone, text) if told == owner else None


def drop(request: Request, response: Response) -> None:
    """It was told."""
    if cookie_name(request, _COOKIE) in request.cookies:
        set_cookie(request, response, _COOKIE, "", seconds=0)
