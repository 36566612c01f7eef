"""`GET /metrics`: what this process measures and how things stand, as Prometheus reads it."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from api.access.authentication import check_key
from api.access.client_address import client_address
from api.http.openapi import problem_responses
from api.process.context import AppContext, Context
from hookfast.errors import Forbidden
from hookfast.telemetry import exposition

routes = APIRouter(tags=["Health"])


@routes.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=PlainTextResponse,
    responses=problem_responses(401, 403, 429),
)
async def metrics(request: Request, context: AppContext) -> Response:
    """Open to the operator's key, to `HOOKFAST_METRICS_TOKEN` as a bearer and, where no such token
    is set, to this machine by a name or address of loopback."""
    await _check_reader(request, context)
    await context.standing.refresh()
    body = await asyncio.to_thread(exposition.text, context.telemetry.registry)
    return Response(body, media_type=exposition.CONTENT_TYPE)


async def _check_reader(request: Request, context: Context) -> None:
    """Raises Unauthenticated, TooManyRequests or Forbidden."""
    token = context.settings.metrics_token
    if token is None:
        forwarded = any(name in request.headers for name in exposition.FORWARDED)
        host = request.headers.get("host", "")
        if exposition.is_local(client_address(request), host=host, forwarded=forwarded):
            return
    elif exposition.bears(request.headers.get("authorization", ""), token.get_secret_value()):
        return
    if (await check_key(request)).scope != "operator":
        raise Forbidden("This needs the operator's key, or HOOKFAST_METRICS_TOKEN.")
