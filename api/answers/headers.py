"""The headers of every response, errors included: browser security headers and `no-store`.

A response's own header of the same name wins: a page sets its own `Content-Security-Policy`
(see `api.answers.page_policy`), a public document its own `Cache-Control`.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Scope

from api.answers.page_policy import DENY_ALL

Header = tuple[bytes, bytes]

_DEFAULTS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"permissions-policy",
        b"accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), "
        b"magnetometer=(), microphone=(), midi=(), payment=(), usb=()",
    ),
    # responses are for one caller only, and some contain a secret that is shown once
    (b"cache-control", b"no-store"),
    (b"content-security-policy", DENY_ALL.encode()),
)
_DEFAULT_NAMES = frozenset(name for name, _ in _DEFAULTS)
# RFC 6797. Without includeSubDomains: we know nothing about the domain's other hosts.
_HSTS: Header = (b"strict-transport-security", b"max-age=31536000")


def begin_headers(scope: Scope) -> list[Header]:
    """Return the list that `add_header` adds to, for a new request. Strict-Transport-Security is
    sent over https only (RFC 6797, section 7.2)."""
    added = [_HSTS] if scope["scheme"] == "https" else []
    scope.setdefault("state", {})["answer_headers"] = added
    return added


def complete_headers(own: Iterable[Header], added: Iterable[Header]) -> list[Header]:
    """Return a response's own headers, those that were added, and the defaults of all others."""
    headers = [*own, *added]
    names = {name for name, _ in headers}
    if names.isdisjoint(_DEFAULT_NAMES):
        headers += _DEFAULTS
    else:
        headers += [header for header in _DEFAULTS if header[0] not in names]
    return headers


def add_header(scope: Scope, name: str, value: str) -> None:
    """Add a header to the response to this request, even if that is an error."""
    added: list[Header] = scope["state"]["answer_headers"]
    added.append((name.lower().encode("ascii"), value.encode("ascii")))
