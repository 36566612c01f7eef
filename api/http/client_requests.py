"""The limit of requests that one client behind trusted proxies has in progress.

Where clients connect directly, the server limits their connections (`hookfast.connections`). A
proxy's connections are those of all its clients, so there the requests are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from starlette.types import Scope

from api.access.client_address import Sites
from api.answers.problems import Problem, problem_of
from hookfast.errors import TooManyRequests
from hookfast.settings.settings import Settings
from hookfast.settings.types import Network

_RETRY_SECONDS = 5


class ClientRequests:
    """The requests in progress of each client behind trusted proxies."""

    def __init__(self, proxies: Sequence[Network]) -> None:
        self._sites = Sites(proxies)
        self._in_progress: Counter[str] = Counter()

    @contextmanager
    def counting(self, scope: Scope) -> Iterator[Problem | None]:
        """Count a request while the block runs. Yield a 429 if its client has too many; not a 503:
        proxies take that for a fault of the API, and send nobody's requests to it for a while."""
        client = scope.get("client")
        site = None if client is None else self._sites.of(client[0])
        settings: Settings = scope["app"].state.settings
        limit = settings.max_connections_per_client
        if site is None:
            yield None
        elif self._in_progress[site] >= limit:
            yield problem_of(
                TooManyRequests(
                    f"Your address has {limit} requests in progress, its maximum.",
                    code="too_many_in_progress",
                    retry_after=_RETRY_SECONDS,
                )
            )
        else:
            self._in_progress[site] += 1
            try:
                yield None
            finally:
                self._in_progress[site] -= 1
                if not self._in_progress[site]:
                    del self._in_progress[site]
