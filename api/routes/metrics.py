"""`GET /metrics`: the process's metrics and the database gauges, in Prometheus format."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from api.access.authentication import check_key
from api.access.client_address import client_address
from api.answers.problem_responses import problem_responses
from api.context.context import AppContext, Context
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
    """Allowed with an operator key or with `HOOKFAST_METRICS_TOKEN` as a bearer token. If that is
    not set, also for requests from this machine to a loopback name or address."""
    await _check_reader(request, context)
    await context.gauges.refresh()
    body = await asyncio.to_thread(exposition.text, context.telemetry.registry)
    return Response(body, media_type=exposition.CONTENT_TYPE)


async def _check_reader(request: Request, context: Context) -> None:
    """Check that the caller may read metrics. Raises Unauthenticated, TooManyRequests or
    Forbidden."""
    token = context.settings.metrics_token
    if token is None:
        forwarded = any(name in request.headers for name in exposition.FORWARDED)
        host = request.headers.get("host", "")
        if exposition.is_local(client_address(request), host=host, forwarded=forwarded):
            return
    elif exposition.has_token(request.headers.get("authorization", ""), token.get_secret_value()):
        return
    if (await check_key(request)).scope != "operator":
        raise Forbidden("This needs an operator key, or HOOKFAST_METRICS_TOKEN.")
