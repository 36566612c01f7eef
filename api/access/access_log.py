"""The access log: one line per answered request, with its route, status, duration and caller. It
measures the request too.

The line has the route's path (`/v1/endpoints/{endpoint_id}`) and the ids that were given for its
parameters, not the path itself: that of a portal link is a secret, and callers put anything there.
"""

from __future__ import annotations

import time
from typing import Any, Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.client_address import client_address
from api.access.request_metrics import measure
from hookfast.ids import Prefix, is_id
from hookfast.logs.catalogue import Kind

log = structlog.get_logger()

_UNLOGGED: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Monitoring asks these all day."""
_IDS: Final[dict[str, Prefix]] = {
    "delivery_id": "dlv",
    "endpoint_id": "ep",
    "event_id": "evt",
    "inbox_id": "inb",
    "job_id": "job",
    "source_id": "src",
    "subscription_id": "sub",
    "tenant_id": "tnt",
}


class AccessLog:
    """ASGI middleware that logs each request once it has ended. It belongs inside of `RequestId`,
    whose id is in the line."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNLOGGED:
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status: int | None = None

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            seconds = time.perf_counter() - began
            measure(scope, status, seconds)
            _log(scope, status, seconds * 1000)


def _log(scope: Scope, status: int | None, milliseconds: float) -> None:
    route = scope.get("route")
    line: dict[str, Any] = {
        "method": scope["method"],
        "route": getattr(route, "path", "unknown"),
        "duration_ms": round(milliseconds, 1),
    }
    if (client := client_address(scope)) is not None:
        line["client"] = client
    principal = scope["state"].get("principal")
    if principal is not None:
        line["key_id"] = principal.key_id
        line["tenant_id"] = principal.tenant_id
    for name, value in scope.get("path_params", {}).items():
        if name in _IDS and is_id(_IDS[name], value):
            line[name] = value
    line = {name: value for name, value in line.items() if value is not None}
    if status is None:
        log.info("A request got no answer: its client went away.", kind=Kind.REQUEST, **line)
    else:
        log.info("A request was answered.", kind=Kind.REQUEST, status_code=int(status), **line)
