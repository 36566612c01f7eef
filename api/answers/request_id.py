"""Request ids: in the response header `X-Request-Id`, in problem documents and in every log line.

A caller's own `X-Request-Id` is kept, so that its log and ours can be compared. It is not unique:
two requests may have the same id.
"""

from __future__ import annotations

import re
import secrets

from starlette.requests import HTTPConnection
from starlette.types import Scope

from api.answers.headers import add_header

HEADER = b"x-request-id"
# no space, quote or bracket, so that the id needs no escaping in any log format
_ALLOWED = re.compile(rb"[A-Za-z0-9._~+/=:@-]{1,128}")


def assign_id(scope: Scope) -> str:
    """Give a new request its id, in `scope["state"]["request_id"]` and in the response. Needs
    `begin_headers`."""
    name = _given(scope) or f"req_{secrets.token_hex(16)}"
    scope["state"]["request_id"] = name
    add_header(scope, "X-Request-Id", name)
    return name


def request_id(at: Scope | HTTPConnection) -> str | None:
    """Return the request's id, at most 128 ASCII characters. None outside of `RequestLayer`."""
    scope: Scope = at.scope if isinstance(at, HTTPConnection) else at
    state: dict[str, str] = scope.get("state", {})
    return state.get("request_id")


def _given(scope: Scope) -> str | None:
    """Return the caller's id, if it sent exactly one, of allowed characters."""
    found: list[bytes] = [value for name, value in scope["headers"] if name == HEADER]
    if len(found) == 1 and _ALLOWED.fullmatch(found[0]):
        return found[0].decode()
    return None
