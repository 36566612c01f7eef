"""The application: routes, problem answers, body limits, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.routing import APIRoute

from api import docs_page, openapi, problems
from api.context import open_context
from api.request_body import RequestBody
from api.routes import (
    api_keys,
    deliveries,
    endpoints,
    event_types,
    events,
    health,
    subscriptions,
    tenants,
)
from hookfast.clock import Clock, utc_now
from hookfast.settings import Settings, load_settings
from hookfast.version import VERSION

_RESOURCES = (
    events,
    deliveries,
    endpoints,
    subscriptions,
    event_types,
    tenants,
    api_keys,
    health,
)


def create_app(settings: Settings | None = None, *, clock: Clock = utc_now) -> FastAPI:
    """The API for these settings (default: those of the environment)."""
    settings = settings or load_settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_context(settings, clock=clock) as context:
            app.state.context = context
            yield

    app = FastAPI(
        title=openapi.TITLE,
        version=VERSION,
        lifespan=lifespan,
        docs_url=None,  # ours, below, needs no internet
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        generate_unique_id_function=_operation_id,
    )
    app.add_middleware(RequestBody, settings=settings)
    problems.install(app)
    openapi.install(app)
    docs_page.install(app)
    for resource in _RESOURCES:
        app.include_router(resource.routes)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name
