"""The application: routes, problem answers, body limits, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.client_address import TrustedProxies
from api.access.request_metrics import STREAMS, UNMEASURED
from api.answers import problems
from api.context.context import open_context
from api.dashboard import application as dashboard
from api.http.client_requests import ClientRequests
from api.http.lean_route import LeanRoute
from api.http.request_body import INBOUND_PREFIX
from api.http.request_head import trimmed
from api.http.request_layer import RequestLayer
from api.openapi import document
from api.portal import application as portal
from api.routes import (
    api_keys,
    attempts,
    audit,
    dead_letters,
    deliveries,
    emit,
    endpoint_checks,
    endpoint_control,
    endpoint_credentials,
    endpoint_secrets,
    endpoint_tests,
    endpoints,
    event_types,
    events,
    figures,
    health,
    inbound,
    inbox,
    jobs,
    metrics,
    poll,
    portal_links,
    recovery,
    retention,
    search,
    signing_keys,
    source_secrets,
    sources,
    stream,
    subscriptions,
    tenant_usage,
    tenants,
)
from api.site import docs_page
from hookfast.clock import Clock, utc_now
from hookfast.settings.settings import Settings, load_settings
from hookfast.version import VERSION

_RESOURCES = (
    inbound,  # routes are matched in this order, and the first two are called most
    emit,
    events,
    deliveries,
    attempts,
    endpoint_control,
    endpoint_checks,
    endpoint_tests,
    poll,
    dead_letters,
    figures,
    recovery,
    jobs,
    stream,
    endpoints,
    endpoint_secrets,
    endpoint_credentials,
    signing_keys,
    subscriptions,
    sources,
    source_secrets,
    inbox,
    event_types,
    tenants,
    tenant_usage,
    api_keys,
    portal_links,
    audit,
    search,
    retention,
    health,
    metrics,
)


_LEAN_ROUTES = {
    (method, route.path): route
    for resource in _RESOURCES
    for route in resource.routes.routes
    if isinstance(route, LeanRoute)
    for method in route.methods or ()
}

_WITHOUT_HEAD = (*STREAMS, "/portal/open")
"""Paths whose GET does more than show something: opening a link begins a session."""

# FastAPI's own telemetry: a span per request. Spans of its inner steps would be most of each trace,
# its log records repeat ours, and its durations have as many series as callers like
# (`api.access.request_metrics` has ours).
_TELEMETRY: TelemetryConfig = {
    "operation_spans": False,
    "logs": False,
    "metrics": False,
    "auto_configure": False,  # `hookfast.telemetry.providers` does that
    "exclude": lambda scope: scope["path"].startswith(UNMEASURED),
}

_TRACE_CONTEXT = (b"traceparent", b"tracestate", b"baggage")


def create_app(
    settings: Settings | None = None, *, clock: Clock = utc_now, watch: bool = False
) -> FastAPI:
    """Build the API application for these settings (default: those of the environment). `watch`
    logs when Temporal or the database goes and comes back."""
    settings = settings or load_settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_context(app.state.settings, clock=clock, watch=watch) as context:
            app.state.context = context
            yield

    app = _Application(
        settings=settings,
        title=document.TITLE,
        version=VERSION,
        lifespan=lifespan,
        openapi_url=None,  # with the page below
        docs_url=None,  # our page, installed below, needs no internet
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        generate_unique_id_function=_operation_id,
        telemetry=_TELEMETRY,
    )
    app.state.settings = settings
    problems.install(app)
    document.install(app)
    docs_page.install(app)
    for resource in _RESOURCES:
        app.include_router(resource.routes)
    dashboard.install(app)
    portal.install(app)
    # FastAPI wraps it once more for each included router, none of which has its own: entering all
    # 800 contexts took a third of a start.
    app.router.lifespan_context = lifespan
    return app


class _Application(FastAPI):
    """FastAPI with our layer around it. `add_middleware` would not do: FastAPI handles unexpected
    errors outside of the middleware that it adds."""

    def __init__(self, *, settings: Settings, **options: Any) -> None:
        super().__init__(**options)
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": _fields(scope)}
            if scope["method"] == "HEAD" and not scope["path"].startswith(_WITHOUT_HEAD):
                # RFC 9110, section 9.1. The server leaves out the body: its own scope says HEAD.
                scope["method"] = "GET"
        await super().__call__(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        proxies = self._settings.trusted_proxies
        app: ASGIApp = RequestLayer(
            super().build_middleware_stack(),
            lean_routes=_LEAN_ROUTES,
            clients=ClientRequests(proxies) if proxies else None,
        )
        return TrustedProxies(app, networks=proxies) if proxies else app


def _fields(scope: Scope) -> list[tuple[bytes, bytes]]:
    """Return the request's header fields, trimmed, without a trace context that must not count."""
    fields = trimmed(scope["headers"])
    traces = [name for name, _ in fields if name == b"traceparent"]
    # Two traces are none. And a caller of a source is unauthenticated until its signature is
    # verified, so it may not choose the trace that its request joins, or whether that is recorded.
    if len(traces) > 1 or scope["path"].startswith(INBOUND_PREFIX):
        return [field for field in fields if field[0] not in _TRACE_CONTEXT]
    return fields


def _operation_id(route: APIRoute) -> str:
    return route.name
