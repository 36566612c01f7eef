"""The limit of requests that one client behind trusted proxies has in progress.

Where clients connect directly, the server limits their connections (`hookfast.connections`). A
proxy's connections are those of all its clients, so there the requests are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.client_address import Sites
from api.answers.problems import problem_of
from api.http.request_body import reject
from hookfast.errors import TooManyRequests
from hookfast.settings.settings import Settings
from hookfast.settings.types import Network

_RETRY_SECONDS = 5


class ClientRequests:
    """ASGI middleware that responds with 429 to a client with too many requests in progress. Not
    503: proxies take that for a fault of the API, and send nobody's requests to it for a while."""

    def __init__(self, app: ASGIApp, *, proxies: Sequence[Network]) -> None:
        self._app = app
        self._sites = Sites(proxies)
        self._in_progress: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        site = None if scope["type"] != "http" or client is None else self._sites.of(client[0])
        if site is None:
            await self._app(scope, receive, send)
            return
        settings: Settings = scope["app"].state.settings
        limit = settings.max_connections_per_client
        if self._in_progress[site] >= limit:
            error = TooManyRequests(
                f"Your address has {limit} requests in progress, its maximum.",
                code="too_many_in_progress",
                retry_after=_RETRY_SECONDS,
            )
            await reject(problem_of(error), scope, receive, send)
            return
        self._in_progress[site] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_progress[site] -= 1
            if not self._in_progress[site]:
                del self._in_progress[site]
