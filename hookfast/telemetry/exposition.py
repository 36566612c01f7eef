"""Metrics as Prometheus reads them, and the small server that a worker answers with.

Who may read them: docs/telemetry.md.
"""

from __future__ import annotations

import hmac
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, ThreadingWSGIServer

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_FORWARDED = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_REAL_IP", "HTTP_VIA")
_REQUEST_SECONDS = 10.0
"""From the connection to the last byte of the answer; also Prometheus's own patience."""
_MOST_AT_ONCE = 16
"""Each has a thread. A worker is asked by one or two Prometheus, and by whoever finds the port."""

log = structlog.get_logger()

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]


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

    With a `token` it wants that; without, it answers this machine only, by a name or address of
    loopback, wherever it listens.
    """

    def __init__(
        self, render: Callable[[], bytes], *, host: str, port: int, token: str | None
    ) -> None:
        """Listens on `port`, or on a free one when that is taken. `render` gives what to answer,
        and is called in several threads."""
        self._render = render
        self._token = token
        self._server = _listen(host, port, self._answer)
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/metrics" or environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _plain(start, "404 Not Found", b"Only GET /metrics is here.\n")
        if not self._may_read(environ):
            return _plain(start, "401 Unauthorized", b"Send `Authorization: Bearer ...`.\n")
        body = b"" if environ["REQUEST_METHOD"] == "HEAD" else self._render()
        start("200 OK", [("Content-Type", CONTENT_TYPE)])
        return [body]

    def _may_read(self, environ: Environ) -> bool:
        if self._token is not None:
            return bears(environ.get("HTTP_AUTHORIZATION", ""), self._token)
        forwarded = any(name in environ for name in _FORWARDED)
        host = environ.get("HTTP_HOST", "")
        return is_local(environ.get("REMOTE_ADDR"), host=host, forwarded=forwarded)


class _Quiet(WSGIRequestHandler):
    """Logs no request."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingWSGIServer):
    """One thread per request, bounded in number and time; on IPv4."""

    allow_reuse_port = False  # two workers on one port would take turns in answering

    def __init__(self, *args: Any, **options: Any) -> None:
        self._places = threading.BoundedSemaphore(_MOST_AT_ONCE)
        super().__init__(*args, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # not the socket's own time-out, which begins anew with each byte
        too_late = threading.Timer(_REQUEST_SECONDS, _cut, [request])
        too_late.daemon = True
        too_late.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            too_late.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # socketserver's prints a traceback between the lines of the log, also where the caller just
        # went away
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception("A request for metrics failed.")

    def server_bind(self) -> None:
        # HTTPServer's asks the name server who we are, which can take seconds
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "hookfast", self.socket.getsockname()[1]
        self.setup_environ()


class _ServerV6(_Server):
    """The same on IPv6."""

    address_family = socket.AF_INET6


def _listen(host: str, port: int, app: Callable[..., Iterable[bytes]]) -> WSGIServer:
    kind = _ServerV6 if ":" in host else _Server
    with suppress(OSError):
        return make_server(host, port, app, kind, handler_class=_Quiet)
    return make_server(host, 0, app, kind, handler_class=_Quiet)


def _cut(request: socket.socket) -> None:
    with suppress(OSError):  # it has ended meanwhile
        request.shutdown(socket.SHUT_RDWR)


def _plain(start: StartResponse, status: str, body: bytes) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [body]
