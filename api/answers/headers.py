"""The headers of every response, errors included: browser security headers and `no-store`.

A response's own header of the same name wins: a page sets its own `Content-Security-Policy`
(see `api.answers.page_policy`), a public document its own `Cache-Control`.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
# RFC 6797. Without includeSubDomains: we know nothing about the domain's other hosts.
_HSTS: Header = (b"strict-transport-security", b"max-age=31536000")


class AnswerHeaders:
    """ASGI middleware that adds the headers of every response. It must be outside of all other
    middleware except `TrustedProxies`, which corrects the scheme: Strict-Transport-Security is sent
    over https only (RFC 6797, section 7.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        added: list[Header] = []
        scope.setdefault("state", {})["answer_headers"] = added
        if scope["scheme"] == "https":
            added.append(_HSTS)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), *added]
                own = {name for name, _ in headers}
                headers += [header for header in _DEFAULTS if header[0] not in own]
                message["headers"] = headers
            await send(message)

        await self._app(scope, receive, send_with_headers)


def add_header(scope: Scope, name: str, value: str) -> None:
    """Add a header to the response to this request, even if that is an error."""
    added: list[Header] = scope["state"]["answer_headers"]
    added.append((name.lower().encode("ascii"), value.encode("ascii")))
