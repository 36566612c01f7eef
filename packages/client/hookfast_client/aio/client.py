"""The client for asyncio: connections, attempts and the resources."""

from __future__ import annotations

import copy
import sys
import time
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

import httpx2

from hookfast_client.aio.api_keys import AsyncApiKeys
from hookfast_client.aio.dead_letters import AsyncDeadLetters
from hookfast_client.aio.deliveries import AsyncDeliveries
from hookfast_client.aio.endpoints import AsyncEndpoints
from hookfast_client.aio.event_types import AsyncEventTypes
from hookfast_client.aio.events import AsyncEvents
from hookfast_client.aio.figures import AsyncFigures
from hookfast_client.aio.jobs import AsyncJobs
from hookfast_client.aio.sources import AsyncSources
from hookfast_client.aio.subscriptions import AsyncSubscriptions
from hookfast_client.aio.tenants import AsyncTenants
from hookfast_client.aio.tests import AsyncTests
from hookfast_client.answer import Response, connection_error, parse_answer
from hookfast_client.call import Call
from hookfast_client.errors import HookfastError, NotFound, TimedOut, UnexpectedAnswer
from hookfast_client.retry import DEFAULT_LIMITS, Attempts, Limits
from hookfast_client.traceparent import current_traceparent
from hookfast_client.url import checked_api_key, checked_url, is_local, trusted
from hookfast_client.version import VERSION
from hookfast_client.waiting import async_connection_owner, async_sleep, async_time_limit

_CONNECT_SECONDS = 10.0
# A connection that was idle for longer may have been closed on the way: proxies keep them for a
# minute, Hookfast for 75 s.
_LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=100, keepalive_expiry=30.0)
_USER_AGENT = f"hookfast-client/{VERSION} python/{sys.version_info[0]}.{sys.version_info[1]}"


class AsyncHookfast:
    """A client for the Hookfast at `url`, with or without `/v1`. Use one for the whole program: it
    keeps its connections. Close it with `aclose()` or `async with`.

    A call takes at most `timeout` seconds with all its retries, each request at most
    `attempt_timeout`, and is sent again at most `max_retries` times; see `hookfast_client.retry`.
    `http_client` replaces the HTTP client, for a proxy or certificates of your own; it is yours to
    close. Raises ValueError for a URL or key that cannot be one.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float = DEFAULT_LIMITS.timeout,
        attempt_timeout: float = DEFAULT_LIMITS.attempt_timeout,
        max_retries: int = DEFAULT_LIMITS.max_retries,
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        self._url = checked_url(url)
        self._limits = Limits(
            timeout=timeout, attempt_timeout=attempt_timeout, max_retries=max_retries
        )
        self._connections = _Connections(self._url, checked_api_key(api_key), http_client)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    @property
    def url(self) -> str:
        """The base URL, without `/v1`."""
        return self._url

    @property
    def limits(self) -> Limits:
        """The limits of a call."""
        return self._limits

    @property
    def api_keys(self) -> AsyncApiKeys:
        """The operator's API keys."""
        return AsyncApiKeys(self)

    @property
    def dead_letters(self) -> AsyncDeadLetters:
        """Dead letters: list, redrive."""
        return AsyncDeadLetters(self)

    @property
    def deliveries(self) -> AsyncDeliveries:
        """Deliveries: list, pause, resume, resend, cancel, one or many at a time."""
        return AsyncDeliveries(self)

    @property
    def endpoints(self) -> AsyncEndpoints:
        """Endpoints: create, change, pause, test, recover."""
        return AsyncEndpoints(self)

    @property
    def event_types(self) -> AsyncEventTypes:
        """Event types: register, list."""
        return AsyncEventTypes(self)

    @property
    def events(self) -> AsyncEvents:
        """Events: emit, list, replay."""
        return AsyncEvents(self)

    @property
    def figures(self) -> AsyncFigures:
        """Figures: deliveries and attempts over time."""
        return AsyncFigures(self)

    @property
    def jobs(self) -> AsyncJobs:
        """Jobs: list, wait, cancel."""
        return AsyncJobs(self)

    @property
    def sources(self) -> AsyncSources:
        """Sources: create, change, rotate their secrets."""
        return AsyncSources(self)

    @property
    def subscriptions(self) -> AsyncSubscriptions:
        """Subscriptions: create, change, list."""
        return AsyncSubscriptions(self)

    @property
    def tenants(self) -> AsyncTenants:
        """Tenants, their API keys and portal links."""
        return AsyncTenants(self)

    @property
    def tests(self) -> AsyncTests:
        """Tests that were sent to endpoints: list."""
        return AsyncTests(self)

    def with_options(
        self,
        *,
        timeout: float | None = None,
        attempt_timeout: float | None = None,
        max_retries: int | None = None,
    ) -> Self:
        """Return this client with other limits. Both use the same connections."""
        mine = self._limits
        other = copy.copy(self)
        other._limits = Limits(
            timeout=mine.timeout if timeout is None else timeout,
            attempt_timeout=mine.attempt_timeout if attempt_timeout is None else attempt_timeout,
            max_retries=mine.max_retries if max_retries is None else max_retries,
        )
        return other

    async def send(self, call: Call) -> Response:
        """Send a call until it has an answer, or its limits are reached; for routes that have no
        method here. Raises HookfastError."""
        attempts = Attempts(call, self._limits)
        headers = call.headers
        if (traceparent := current_traceparent()) is not None:
            headers["traceparent"] = traceparent
        while True:
            try:
                return await self._attempt(call, headers, seconds=attempts.seconds())
            except HookfastError as error:
                if call.method == "DELETE" and attempts.may_be_done and isinstance(error, NotFound):
                    # an earlier attempt, whose answer was lost, has deleted it
                    return Response(204, {}, b"", None)
                pause = attempts.pause_after(error)
                if pause is None:
                    error.outcome_unknown = attempts.may_be_done
                    raise
            await async_sleep(pause)

    async def fetch(self, call: Call) -> Any:
        """Send a call, and return the JSON of the answer."""
        response = await self.send(call)
        return response.value

    async def _attempt(self, call: Call, headers: dict[str, str], *, seconds: float) -> Response:
        ends = time.monotonic() + seconds
        content = bytearray()
        request = self._connections.request(call, headers, seconds=seconds)
        try:
            async with async_time_limit(seconds), request as answer:
                async for part in answer.aiter_bytes():
                    content += part
                    if time.monotonic() > ends:  # each part has come in time, but there are many
                        raise TimeoutError
        # without their causes, in which tools that show variables would find the key
        except TimeoutError:
            raise TimedOut(
                f"{self._url} did not answer in {seconds:.3g} s.", outcome_unknown=True
            ) from None
        except httpx2.TransportError as error:
            raise connection_error(error, url=self._url) from None
        except httpx2.InvalidURL as error:
            raise ValueError(f"this cannot be sent: {error}") from None
        except httpx2.DecodingError as error:
            raise UnexpectedAnswer(
                f"{self._url} answered what cannot be decoded: {error}", status=answer.status_code
            ) from None
        return parse_answer(answer.status_code, answer.headers, bytes(content), url=self._url)


class _Connections:
    """The HTTP client, and the headers of all requests. After a fork, and in another event loop,
    there is a new HTTP client: two owners cannot use the same connections."""

    def __init__(self, url: str, api_key: str, given: httpx2.AsyncClient | None) -> None:
        self._url = url
        self._given = given
        self._own = self._new() if given is None else None
        self._owner: object = None
        # its repr hides the key
        self._headers = httpx2.Headers(
            {"Authorization": f"Bearer {api_key}", "User-Agent": _USER_AGENT}
        )

    def request(
        self, call: Call, headers: dict[str, str], *, seconds: float
    ) -> AbstractAsyncContextManager[httpx2.Response]:
        """Return the request, which is sent when it is entered."""
        all_headers = self._headers.copy()
        all_headers.update(headers)
        return self._http().stream(
            call.method,
            f"{self._url}/v1{call.path}",
            params=call.parameters or None,
            content=call.body,
            headers=all_headers,
            timeout=httpx2.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS)),
            follow_redirects=False,
        )

    async def aclose(self) -> None:
        # connections of another owner cannot be closed from here, and go with their owner
        if self._own is not None and self._owner in (None, async_connection_owner()):
            await self._own.aclose()

    def _http(self) -> httpx2.AsyncClient:
        if self._given is not None:
            return self._given
        owner = async_connection_owner()
        if self._own is None or self._owner not in (None, owner):
            self._own = self._new()
        self._owner = owner
        return self._own

    def _new(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            verify=trusted(self._url),
            trust_env=not is_local(self._url),  # a proxy does not know this machine
            limits=_LIMITS,
        )
