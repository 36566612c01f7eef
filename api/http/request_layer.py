"""The one layer around FastAPI, in which every request is identified, limited, measured and logged.

A request to a lean route goes from here to the route. All others go through FastAPI, whose dozen
layers would take a fifth of the API's CPU time for an event. A lean route is declared like any
other one, and answers the same either way.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, reset_contextvars

from api.access.access_log import note_request
from api.answers.headers import begin_headers
from api.answers.problems import EXPECTED, BodyTimeout, problem_of_any
from api.answers.request_id import assign_id
from api.http.client_requests import ClientRequests
from api.http.exchange import Exchange
from api.http.lean_route import LeanRoute
from api.http.request_body import INBOUND_PREFIX, StreamedBody, read_body, reject
from api.http.request_head import head_problem

LeanRoutes = Mapping[tuple[str, str], LeanRoute]
"""Routes by method and path."""


class RequestLayer:
    """ASGI middleware that gives each request its id and its `Exchange`, counts it for its client,
    checks its head, reads its body, passes it on, and logs it once it has ended."""

    def __init__(
        self, app: ASGIApp, *, lean_routes: LeanRoutes, clients: ClientRequests | None = None
    ) -> None:
        self._app = app
        self._lean_routes = lean_routes
        self._clients = clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        exchange = Exchange(scope, receive, send, begin_headers(scope))
        tokens = bind_contextvars(request_id=assign_id(scope))
        try:
            with exchange.memory:
                if self._clients is None:
                    await self._admit(exchange)
                else:
                    await self._count(exchange, self._clients)
        except Exception as error:
            if not exchange.has_begun:  # FastAPI has answered its own errors
                problem = problem_of_any(Request(scope), error)
                await problem.response(scope)(scope, exchange.receive, exchange.send)
            raise
        finally:
            note_request(scope, exchange.status, time.perf_counter() - began)
            reset_contextvars(**tokens)
            exchange.end()

    async def _count(self, exchange: Exchange, clients: ClientRequests) -> None:
        with clients.counting(exchange.scope) as too_many:
            if too_many is None:
                await self._admit(exchange)
            else:
                await reject(too_many, exchange)

    async def _admit(self, exchange: Exchange) -> None:
        """Pass the request on, with its body, if its head and body are admissible."""
        scope = exchange.scope
        if (problem := head_problem(scope)) is not None:
            await reject(problem, exchange)
            return
        if scope["method"] == "POST" and scope["path"].startswith(INBOUND_PREFIX):
            body = StreamedBody(exchange)  # its route reads it
            await self._app(scope, body.receive, body.send)
            return
        try:
            if not await read_body(exchange):
                return
        except Exception as error:  # also the database's: the key could not be looked up
            problem = problem_of_any(Request(scope), error)
            await reject(problem, exchange, lingers=not isinstance(error, BodyTimeout))
            return
        await self._route(exchange)

    async def _route(self, exchange: Exchange) -> None:
        scope = exchange.scope
        route = self._lean_routes.get((scope["method"], scope["path"]))
        # a span has to be FastAPI's, and the path may have a prefix that is not the route's
        if route is not None and "fastapi.telemetry" not in scope and not scope["root_path"]:
            request = Request(scope, exchange.receive)
            scope["route"] = route
            try:
                response = await route.answer(request)
            except EXPECTED as error:
                response = problem_of_any(request, error).response(scope)
            if response is not None:
                await response(scope, exchange.receive, exchange.send)
                return
        await self._app(scope, exchange.receive, exchange.send)
