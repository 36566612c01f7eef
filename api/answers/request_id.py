"""The id of a request: on the answer (`X-Request-Id`), in problem documents and in every log line.

A caller's own `X-Request-Id` is kept, so that its log and ours can be laid side by side. It names a
request and proves nothing: two requests may carry the same one.
"""

from __future__ import annotations

import re
import secrets

import structlog
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from api.answers.headers import add_header

HEADER = b"x-request-id"
# no space, quote or bracket: the id can stand in any log format without being taken apart by it
_SANE = re.compile(rb"[A-Za-z0-9._~+/=:@-]{1,128}")


class RequestId:
    """ASGI middleware: names each request, in `scope["state"]["request_id"]` and on the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = _given(scope) or f"req_{secrets.token_hex(16)}"
        scope["state"]["request_id"] = name
        add_header(scope, "X-Request-Id", name)
        tokens = structlog.contextvars.bind_contextvars(request_id=name)
        try:
            await self._app(scope, receive, send)
        finally:
            structlog.contextvars.reset_contextvars(**tokens)


def request_id(at: Scope | HTTPConnection) -> str | None:
    """The request's id: at most 128 ASCII characters. None outside the application's middleware."""
    scope: Scope = at.scope if isinstance(at, HTTPConnection) else at
    state: dict[str, str] = scope.get("state", {})
    return state.get("request_id")


def _given(scope: Scope) -> str | None:
    """The caller's id, if it sent exactly one that is sane."""
    found: list[bytes] = [value for name, value in scope["headers"] if name == HEADER]
    if len(found) == 1 and _SANE.fullmatch(found[0]):
        return found[0].decode()
    return None
