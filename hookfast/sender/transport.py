"""The httpx2 transport: one httpcore2 connection pool per origin.

A pool looks at each of its connections for each request, so one pool over all origins costs more
the more there are: 1.5–17 ms CPU a request, against 0.3 ms with a pool for each.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import cast

import httpcore2
import httpx2

from hookfast.sender.address_guard import Network
from hookfast.sender.backend import OriginBackend
from hookfast.sender.connection import Connection
from hookfast.sender.dial import Dialer
from hookfast.sender.failure import answer_refused
from hookfast.sender.progress import current_progress
from hookfast.sender.stream import Stream
from hookfast.sender.url import peer_name

IDLE_SECONDS = 10.0
"""How long an idle connection is kept. Short: common servers close theirs after 15–75 s, and a
request that meets such a close is a failed attempt, because a POST is never repeated unasked."""
MAX_IDLE_PER_ORIGIN = 32
MAX_PER_ORIGIN = 256
"""Most connections to one origin; further requests wait for one, within their deadlines."""
MAX_OPEN = 512
"""Open connections beyond which the origins without a request lose theirs, least recent first."""

NETWORKS = "hookfast_networks"
"""The request extension with the networks (a tuple) that the host has to lie in."""

_PORTS = {"https": 443, "http": 80}

_Key = tuple[str, bytes, int, tuple[Network, ...]]
"""All that a connection was judged by: scheme, host, port and the endpoint's networks."""


@dataclass(slots=True)
class _Origin:
    key: _Key
    pool: httpcore2.AsyncConnectionPool
    backend: OriginBackend
    in_flight: int = 0


class OriginTransport(httpx2.AsyncBaseTransport):
    """Sends httpx2 requests, each once, keeping connections open between them. For one event loop.

    httpcore2 goes on to another connection only where it has sent nothing on the first: a request
    that meets a closed connection fails.

    Failures raise RequestFailed, not httpx2's errors: the code that dials and reads knows more.
    Redirects, cookies, proxies and the environment belong to httpx2's client, which nothing here
    needs: it would parse every answer's cookies and redirects, for 0.04 ms CPU a request.
    """

    def __init__(
        self,
        dialer: Dialer,
        ssl_context: ssl.SSLContext,
        *,
        idle_seconds: float = IDLE_SECONDS,
        max_idle_per_origin: int = MAX_IDLE_PER_ORIGIN,
        max_per_origin: int = MAX_PER_ORIGIN,
        max_open: int = MAX_OPEN,
    ) -> None:
        self._dialer = dialer
        self._ssl_context = ssl_context
        self._idle_seconds = idle_seconds
        self._max_idle_per_origin = max_idle_per_origin
        self._max_per_origin = max_per_origin
        self._max_open = max_open
        self._streams: set[Stream] = set()
        self._origins: dict[_Key, _Origin] = {}
        self._resting: OrderedDict[_Key, asyncio.TimerHandle] = OrderedDict()
        self._closed = False

    @property
    def open_connections(self) -> int:
        """How many connections are open, in use or idle."""
        return len(self._streams)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, its body unread; the caller has to close it. Raises RequestFailed."""
        url = request.url
        port = url.port or _PORTS[url.scheme]
        origin = self._enter((url.scheme, url.raw_host, port, request.extensions.get(NETWORKS, ())))
        try:
            answer = await origin.pool.handle_async_request(
                httpcore2.Request(
                    request.method,
                    httpcore2.URL(
                        scheme=url.raw_scheme, host=url.raw_host, port=port, target=url.raw_path
                    ),
                    headers=request.headers.raw,
                    content=cast(httpx2.AsyncByteStream, request.stream),
                    extensions=request.extensions,
                )
            )
        except httpcore2.RemoteProtocolError as error:
            self._leave(origin)
            raise answer_refused(origin.backend.peer, current_progress()) from error
        except BaseException:
            self._leave(origin)
            raise
        response = httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(answer, peer=origin.backend.peer, leave=lambda: self._leave(origin)),
            extensions=answer.extensions,
        )
        connection = cast(Connection, answer.extensions["network_stream"])
        connection.begin_body(response.headers)
        return response

    async def aclose(self) -> None:
        """Close the idle connections; one in use closes when its request ends."""
        self._closed = True
        idle = [stream for key in self._resting for stream in self._origins[key].backend.streams]
        for key in list(self._resting):
            self._close(key)
        for stream in idle:
            await stream.wait_closed()

    def _enter(self, key: _Key) -> _Origin:
        """The origin of a request that begins."""
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = self._new_origin(key)
        elif (expiry := self._resting.pop(key, None)) is not None:
            expiry.cancel()
        origin.in_flight += 1
        return origin

    def _leave(self, origin: _Origin) -> None:
        """A request has ended. An origin without one rests, keeping its connections a while."""
        origin.in_flight -= 1
        if origin.in_flight == 0:
            self._resting[origin.key] = asyncio.get_running_loop().call_later(
                self._idle_seconds, self._close, origin.key
            )
            if self._closed or not origin.backend.streams:
                self._close(origin.key)
        while len(self._streams) > self._max_open and self._resting:
            self._close(next(iter(self._resting)))

    def _close(self, key: _Key) -> None:
        """Forget a resting origin and close its connections."""
        self._resting.pop(key).cancel()
        for stream in tuple(self._origins.pop(key).backend.streams):
            stream.close()

    def _new_origin(self, key: _Key) -> _Origin:
        scheme, host, port, networks = key
        backend = OriginBackend(
            self._dialer,
            peer_name(host.decode("ascii"), port),
            secure=scheme == "https",
            networks=networks,
            all_streams=self._streams,
        )
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._ssl_context,
            max_connections=self._max_per_origin,
            max_keepalive_connections=self._max_idle_per_origin,
            keepalive_expiry=self._idle_seconds,
            retries=0,
            network_backend=backend,
        )
        return _Origin(key, pool, backend)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response, *, peer: str, leave: Callable[[], None]) -> None:
        self._answer = answer
        self._peer = peer
        self._leave = leave

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._answer.aiter_stream():
                yield part
        except httpcore2.RemoteProtocolError as error:
            raise answer_refused(self._peer, current_progress()) from error

    async def aclose(self) -> None:
        try:
            await self._answer.aclose()
        finally:
            self._leave()
