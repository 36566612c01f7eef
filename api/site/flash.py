"""A message from a POST to the page after its redirect, in a sealed cookie, so that nobody else can
put words on a page. Never a secret: secrets are shown in the answer itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal

from fastapi import Request, Response

from api.context.context import Context
from api.site.session import cookie_name, set_cookie
from hookfast.errors import Misconfigured

_COOKIE: Final = "hookfast-flash"
_CONTEXT = "dashboard flash"
_SECONDS = 60
_MAX_TEXT = 600

Tone = Literal["good", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Flash:
    """A message, and whether it reports success, or success with something to look at."""

    tone: Tone
    text: str


def put(request: Request, response: Response, flash: Flash, *, owner: str) -> None:
    """Show the message on the next page of `owner`, a session."""
    context: Context = request.app.state.context
    # unescaped, a character takes four bytes at most: escaped, the text would not fit into a cookie
    text = json.dumps([owner, flash.tone, flash.text[:_MAX_TEXT]], ensure_ascii=False)
    sealed = context.keyring.seal(text, context=_CONTEXT)
    set_cookie(request, response, _COOKIE, sealed, seconds=_SECONDS)


def take(request: Request, *, owner: str) -> Flash | None:
    """Return the message for `owner`, if any. Then call `drop` on the response."""
    sealed = request.cookies.get(cookie_name(request, _COOKIE))
    if not sealed:
        return None
    context: Context = request.app.state.context
    try:
        sealed_for, tone, text = json.loads(context.keyring.open(sealed, context=_CONTEXT))
    except Misconfigured:  # not sealed by us, or with a key that was removed
        return None
    return Flash(tone, text) if sealed_for == owner else None


def drop(request: Request, response: Response) -> None:
    """Remove the message, which the page shows."""
    if cookie_name(request, _COOKIE) in request.cookies:
        set_cookie(request, response, _COOKIE, "", seconds=0)
