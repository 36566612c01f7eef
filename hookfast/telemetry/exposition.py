"""Metrics as Prometheus reads them, and the small server that a worker answers with.

Who may read them: docs/telemetry.md.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers by which a proxy says that it passes a request on."""
_REQUEST_SECONDS = 10.0
"""From the connection to the last byte of the answer; also Prometheus's own patience."""
_MOST_AT_ONCE = 16
"""Connections; more are answered 503. A worker is asked by one or two Prometheus, and by whoever
finds the port."""


def text(registry: CollectorRegistry) -> bytes:
    """Everything in the registry, as text. Takes milliseconds: call it in a thread."""
    rendered: bytes = generate_latest(registry)
    return rendered


def bears(authorization: str, token: str) -> bool:
    """Whether an `Authorization` header carries this token. Takes as long for a wrong one."""
    scheme, _, given = authorization.partition(" ")
    same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return scheme.lower() == "bearer" and same


def is_local(address: str | None, *, host: str, forwarded: bool) -> bool:
    """Whether a request comes from this machine itself, and means it.

    A reverse proxy beside us, which passes on what comes from elsewhere, says so in a header
    (`forwarded`). A page from elsewhere that a browser here shows can have its own name resolve to
    us (DNS rebinding): that name is then in `host`, the header `Host` (RFC 9110, section 7.2).
    """
    near = address is not None and (address == "::1" or address[:4] == "127.")
    return near and not forwarded and _is_loopback(host)


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):  # no host, or no address
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    return False


class MetricsServer:
    """Answers `GET /metrics` from a thread, so that it does even while the event loop is busy.

    With a `token` it requires that; without, it answers this machine only, by a name or address of
    loopback, wherever it listens.
    """

    def __init__(
        self, render: Callable[[], bytes], *, host: str, port: int, token: str | None
    ) -> None:
        """Listens on `port`, or on a free one when that is taken. `render` returns the metrics; it
        is called in the server's thread."""
        self._render = render
        self._token = token
        listener = _listen(host, port)
        self.port: int = listener.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._answer,
                loop="asyncio",
                http=_BriefHttp,
                interface="asgi3",
                lifespan="off",
                log_config=None,  # ours is set up
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_MOST_AT_ONCE + 1,  # it counts the one that it refuses
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if scope["path"] != "/metrics" or scope["method"] not in ("GET", "HEAD"):
            await _send(send, 404, b"Only GET /metrics is here.\n")
        elif not self._may_read(headers, scope["client"]):
            await _send(send, 401, b"Send `Authorization: Bearer ...`.\n")
        else:
            await _send(send, 200, self._render(), CONTENT_TYPE)

    def _may_read(self, headers: Mapping[str, str], client: tuple[str, int] | None) -> bool:
        if self._token is not None:
            return bears(headers.get("authorization", ""), self._token)
        forwarded = any(name in headers for name in FORWARDED)
        address = client[0] if client else None
        return is_local(address, host=headers.get("host", ""), forwarded=forwarded)


class _BriefHttp(HttpToolsProtocol):
    """A connection that ends after _REQUEST_SECONDS, whatever it is doing."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._too_late = self.loop.call_later(_REQUEST_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._too_late.cancel()
        super().connection_lost(exc)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with suppress(OSError):
        return socket.create_server((host, port), family=family)
    return socket.create_server((host, 0), family=family)


async def _send(
    send: Any, status: int, body: bytes, content_type: str = "text/plain; charset=utf-8"
) -> None:
    headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
