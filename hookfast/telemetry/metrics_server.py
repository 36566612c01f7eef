"""The server of a worker's `/metrics`."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import structlog
import uvicorn

from hookfast.connections.connections import ConnectionLimits, Connections
from hookfast.connections.listening import limit_unsent
from hookfast.connections.protocol import BoundedHttp
from hookfast.telemetry import exposition, providers
from hookfast.telemetry.providers import Telemetry
from hookfast.telemetry.temporal_metrics import TemporalMetrics

_REQUEST_SECONDS = 10.0
"""Longest time for a request to arrive, and for an answer that is not read; Prometheus waits as
long."""
_IDLE_SECONDS = 5.0
_MOST_AT_ONCE = 16
"""Most connections. One or two Prometheus read them, and anybody may find the port."""

log = structlog.get_logger()


@asynccontextmanager
async def serving_metrics(
    telemetry: Telemetry, temporal: TemporalMetrics, *, host: str, port: int, token: str | None
) -> AsyncIterator[None]:
    """Serve this process's metrics and those of Temporal's SDK while the block runs. Afterwards,
    send the remaining spans and metrics."""
    server = MetricsServer(
        lambda: exposition.text(telemetry.registry) + temporal.text(),
        host=host,
        port=port,
        token=token,
    )
    log.info("The worker's metrics are at /metrics.", host=host, port=server.port)
    try:
        yield
    finally:
        await asyncio.to_thread(server.close)
        await asyncio.to_thread(providers.finish)


class MetricsServer:
    """Answers `GET /metrics` from a thread, so that a busy event loop does not delay it.

    With a `token`, requests must have it. Without, only requests from this machine by a name or
    address of loopback are answered, wherever the server listens.
    """

    def __init__(
        self, render: Callable[[], bytes], *, host: str, port: int, token: str | None
    ) -> None:
        """Listen on `port`, or on a free port if that is taken. `render` returns the metrics and is
        called in the server's thread."""
        self._render = render
        self._token = token
        listener = _listen(host, port)
        limit_unsent(listener)
        self.port: int = listener.getsockname()[1]
        connections = Connections(
            ConnectionLimits(
                total=_MOST_AT_ONCE,
                per_client=_MOST_AT_ONCE,
                head_seconds=_REQUEST_SECONDS,
                idle_seconds=_IDLE_SECONDS,
                unread_seconds=_REQUEST_SECONDS,
            )
        )
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._answer,
                loop="asyncio",
                http=partial(BoundedHttp, connections=connections),  # type: ignore[arg-type]
                interface="asgi3",
                lifespan="off",
                log_config=None,  # the process has set up its own
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
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
            name.decode("latin-1"): value.strip(b" \t").decode("latin-1")
            for name, value in scope["headers"]
        }
        names = [name for name, _ in scope["headers"]]
        if names.count(b"authorization") > 1 or names.count(b"host") > 1:
            # a proxy in front of it may have checked the other one
            await _send(send, 400, b"Bad request: send `Authorization` and `Host` once.\n")
        elif scope["path"] != "/metrics" or scope["method"] not in ("GET", "HEAD"):
            await _send(send, 404, b"Not found: only GET /metrics is served.\n")
        elif not self._may_read(headers, scope["client"]):
            await _send(send, 401, b"Unauthorized: send `Authorization: Bearer ...`.\n")
        else:
            await _send(send, 200, self._render(), exposition.CONTENT_TYPE)

    def _may_read(self, headers: Mapping[str, str], client: tuple[str, int] | None) -> bool:
        if self._token is not None:
            return exposition.has_token(headers.get("authorization", ""), self._token)
        forwarded = any(name in headers for name in exposition.FORWARDED)
        address = client[0] if client else None
        return exposition.is_local(address, host=headers.get("host", ""), forwarded=forwarded)


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
