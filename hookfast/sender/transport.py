"""The httpx2 transport, which sends requests over kept connections to their origins."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict

import h11
import httpx2

from hookfast.sender.addresses import Network
from hookfast.sender.dial import Dialer
from hookfast.sender.origin import Origin
from hookfast.sender.stream import Stream

IDLE_SECONDS = 2.0
"""How long an idle connection is kept, in seconds, unless the server says in `Keep-Alive` how long
it keeps it. Common servers close theirs after 2 to 75 s, some proxies without notice."""
MAX_IDLE_PER_ORIGIN = 32
MAX_PER_ORIGIN = 256
"""Most connections to one origin. Further requests wait for a free one, within their deadlines."""
MAX_OPEN = 512
"""Most open connections before those of idle origins are closed, least recently used first."""

NETWORKS = "hookfast_networks"
"""The request extension with the networks (a tuple) to which the host is limited."""
TLS = "hookfast_tls"
"""The request extension with the `ssl.SSLContext` for an https URL."""
CUT = "hookfast_cut"
"""The response extension that marks a body of which only the beginning was read."""

_PORTS = {"https": 443, "http": 80}

_Key = tuple[str, int, ssl.SSLContext | None, tuple[Network, ...]]
"""Everything a connection was checked for: host, port, TLS and the endpoint's networks."""


class OriginTransport(httpx2.AsyncBaseTransport):
    """Sends httpx2 requests, keeping connections open between them. For one event loop.

    Failures raise RequestFailed, which says more than httpx2's errors. httpx2's client (redirects,
    cookies, proxies, environment) is not used: parsing every response's cookies and redirects would
    cost 0.04 ms of CPU per request.
    """

    def __init__(
        self,
        dialer: Dialer,
        *,
        idle_seconds: float = IDLE_SECONDS,
        max_idle_per_origin: int = MAX_IDLE_PER_ORIGIN,
        max_per_origin: int = MAX_PER_ORIGIN,
        max_open: int = MAX_OPEN,
    ) -> None:
        self._dialer = dialer
        self._idle_seconds = idle_seconds
        self._max_idle_per_origin = max_idle_per_origin
        self._max_per_origin = max_per_origin
        self._max_open = max_open
        self._streams: set[Stream] = set()
        self._origins: dict[_Key, Origin] = {}
        self._idle: OrderedDict[_Key, asyncio.TimerHandle] = OrderedDict()
        self._closed = False

    @property
    def open_connections(self) -> int:
        """How many connections are open, in use or idle."""
        return len(self._streams)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response. A body longer than the limit is cut, and marked
        with the extension `CUT`. Raises RequestFailed."""
        url = request.url
        key = (
            url.raw_host.decode("ascii"),
            url.port or _PORTS[url.scheme],
            request.extensions[TLS] if url.scheme == "https" else None,
            request.extensions.get(NETWORKS, ()),
        )
        body = await request.aread()
        origin = self._acquire(key)
        try:
            answer = await origin.exchange(
                h11.Request(
                    method=request.method,
                    target=request.extensions.get("target", url.raw_path),
                    headers=request.headers.raw,
                ),
                body,
            )
        finally:
            self._release(key, origin)
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=httpx2.ByteStream(answer.body),
            extensions={CUT: True} if answer.cut else None,
        )

    async def aclose(self) -> None:
        """Close the idle connections. Those in use are closed when their requests end."""
        self._closed = True
        idle = [stream for key in self._idle for stream in self._origins[key].streams]
        for key in list(self._idle):
            self._close(key)
        for stream in idle:
            await stream.wait_closed()

    def _acquire(self, key: _Key) -> Origin:
        """Return the origin for a new request, and count the request."""
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = self._new_origin(key)
        elif (expiry := self._idle.pop(key, None)) is not None:
            expiry.cancel()
        origin.in_flight += 1
        return origin

    def _release(self, key: _Key, origin: Origin) -> None:
        """Uncount a request. An origin without requests keeps its connections for a while."""
        origin.in_flight -= 1
        if origin.in_flight == 0:
            self._idle[key] = asyncio.get_running_loop().call_later(
                max(0.0, origin.kept_seconds), self._close, key
            )
            if self._closed or not origin.streams:
                self._close(key)
        while len(self._streams) > self._max_open and self._idle:
            self._close(next(iter(self._idle)))

    def _close(self, key: _Key) -> None:
        """Remove an idle origin and close its connections."""
        self._idle.pop(key).cancel()
        for stream in tuple(self._origins.pop(key).streams):
            stream.close()

    def _new_origin(self, key: _Key) -> Origin:
        host, port, ssl_context, networks = key
        return Origin(
            self._dialer,
            host,
            port,
            networks=networks,
            ssl_context=ssl_context,
            all_streams=self._streams,
            idle_seconds=self._idle_seconds,
            max_idle=self._max_idle_per_origin,
            max_connections=self._max_per_origin,
        )
