"""The duration of each answered request, in a number of series that no caller can raise.

Anybody can send unknown methods and paths, and ask every route without a key. So a request without
a valid key, and one that is answered 401, 403, 404 or 405, is measured without its route: each
method has one series for all of them. Pages share one label: they have many routes, and their
figures are those of the API that they read. The access log has the route of every request.
"""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

from hookfast.telemetry import instruments

OTHER: Final = "_OTHER"
"""Of methods, as OpenTelemetry's conventions for `http.request.method` have it, and of routes."""
PAGES: Final = "pages"
METHODS: Final = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}
)
"""Those of RFC 9110, of PATCH (RFC 5789) and of QUERY: the known ones of the conventions."""
_WITHOUT_ROUTE: Final = frozenset({401, 403, 404, 405})
_KEYED: Final = "/v1/"
_INBOUND: Final = "/in/"
STREAMS: Final = ("/v1/stream", "/dashboard/live/", "/portal/live/")
"""Beginnings of the paths of answers that stay open for hours."""
UNMEASURED: Final = ("/healthz", "/readyz", "/metrics", *STREAMS)
"""Beginnings of paths without durations and spans. Monitoring asks the first three all day."""


def measure(scope: Scope, status: int | None, seconds: float) -> None:
    """Record an ended request. `status` is None if its client went away before the answer."""
    if scope["path"].startswith(UNMEASURED):
        return
    labels = {
        "http.request.method": scope["method"] if scope["method"] in METHODS else OTHER,
        "http.route": _route(scope, status),
        "http.response.status_class": instruments.status_class(status),
    }
    instruments.HTTP_REQUESTS.record(seconds, **labels)


def _route(scope: Scope, status: int | None) -> str:
    route: str = getattr(scope.get("route"), "path", "")
    if status in _WITHOUT_ROUTE or (not route and (status is None or status >= 400)):
        return OTHER
    if route.startswith(_KEYED):
        return route if scope["state"].get("principal") is not None else OTHER
    return route if route.startswith(_INBOUND) else PAGES
