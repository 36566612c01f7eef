"""The headers that every answer has, errors included: what a browser may do with it, and nothing of
it in any cache.

An answer's own header of the same name wins: a page sets its own `Content-Security-Policy`
(see `api.answers.page_policy`), a public document its own `Cache-Control`.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.answers.page_policy import NOTHING

Header = tuple[bytes, bytes]

_FOR_ALL: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"permissions-policy",
        b"accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), "
        b"magnetometer=(), microphone=(), midi=(), payment=(), usb=()",
    ),
    # answers are about one caller, and some carry a secret that is shown once
    (b"cache-control", b"no-store"),
    (b"content-security-policy", NOTHING.encode()),
)
# RFC 6797. Without includeSubDomains: of the domain's other hosts we know nothing.
_OVER_HTTPS: Header = (b"strict-transport-security", b"max-age=31536000")


class AnswerHeaders:
    """ASGI middleware. Has to be around all the others, and inside of what corrects the scheme:
    RFC 6797, section 7.2 has Strict-Transport-Security on answers over https only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        added: list[Header] = []
        scope.setdefault("state", {})["answer_headers"] = added
        if scope["scheme"] == "https":
            added.append(_OVER_HTTPS)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), *added]
                own = {name for name, _ in headers}
                headers += [header for header in _FOR_ALL if header[0] not in own]
                message["headers"] = headers
            await send(message)

        await self._app(scope, receive, send_with_headers)


def add_header(scope: Scope, name: str, value: str) -> None:
    """Add a header to whatever this request is answered with, an error included."""
    added: list[Header] = scope["state"]["answer_headers"]
    added.append((name.lower().encode("ascii"), value.encode("ascii")))
