"""The access log: one line per answered request, with its route, status, duration and caller. It
measures the request too.

The line has the route's path (`/v1/endpoints/{endpoint_id}`) and the ids that were given for its
parameters, not the path itself: that of a portal link is a secret, and callers put anything there.
"""

from __future__ import annotations

from typing import Any, Final

import structlog
from starlette.types import Scope

from api.access.client_address import client_address
from api.access.request_metrics import measure
from hookfast.ids import Prefix, is_id
from hookfast.logs.kind import Kind

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


def note_request(scope: Scope, status: int | None, seconds: float) -> None:
    """Measure and log a request that has ended. `status` is None if its client went away before the
    answer."""
    if scope["path"] in _UNLOGGED:
        return
    measure(scope, status, seconds)
    route = scope.get("route")
    line: dict[str, Any] = {
        "method": scope["method"],
        "route": getattr(route, "path", "unknown"),
        "duration_ms": round(seconds * 1000, 1),
    }
    if (client := client_address(scope)) is not None:
        line["client"] = client
    principal = scope["state"].get("principal")
    if principal is not None:
        line["key_id"] = principal.key_id
        if principal.tenant_id is not None:
            line["tenant_id"] = principal.tenant_id
    for name, value in scope.get("path_params", {}).items():
        if name in _IDS and is_id(_IDS[name], value):
            line[name] = value
    if status is None:
        log.info("A request got no answer: its client went away.", kind=Kind.REQUEST, **line)
    else:
        log.info("A request was answered.", kind=Kind.REQUEST, status_code=int(status), **line)
