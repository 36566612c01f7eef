"""The httpx2 transport, which sends requests over kept connections to their origins."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import h11
import httpx2

from hookfast.sender.dial import Dialer
from hookfast.sender.origin import DEFAULT_LIMITS, Destination, Origin, PoolLimits
from hookfast.sender.stream import Stream

NETWORKS = "hookfast_networks"
"""The request extension with the networks (a tuple) to which the host is limited."""
TLS = "hookfast_tls"
"""The request extension with the `ssl.SSLContext` for an https URL."""
CUT = "hookfast_cut"
"""The response extension that marks a body of which only the beginning was read."""

_PORTS = {"https": 443, "http": 80}


class OriginTransport(httpx2.AsyncBaseTransport):
    """Sends httpx2 requests, keeping connections open between them. For one event loop.

    Failures raise RequestFailed, which says more than httpx2's errors. httpx2's client (redirects,
    cookies, proxies, environment) is not used: parsing every response's cookies and redirects would
    cost 0.04 ms of CPU per request.
    """

    def __init__(self, dialer: Dialer, limits: PoolLimits = DEFAULT_LIMITS) -> None:
        self._dialer = dialer
        self._limits = limits
        self._streams: set[Stream] = set()
        self._origins: dict[Destination, Origin] = {}
        self._idle: OrderedDict[Destination, asyncio.TimerHandle] = OrderedDict()
        self._closed = False

    @property
    def open_connections(self) -> int:
        """How many connections are open, in use or idle."""
        return len(self._streams)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response. A body longer than the limit is cut, and marked
        with the extension `CUT`. Raises RequestFailed."""
        url = request.url
        to = Destination(
            url.raw_host.decode("ascii"),
            url.port or _PORTS[url.scheme],
            request.extensions[TLS] if url.scheme == "https" else None,
            request.extensions.get(NETWORKS, ()),
        )
        body = await request.aread()
        origin = self._acquire(to)
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
            self._release(to, origin)
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=httpx2.ByteStream(answer.body),
            extensions={CUT: True} if answer.cut else None,
        )

    async def aclose(self) -> None:
        """Close the idle connections. Those in use are closed when their requests end."""
        self._closed = True
        idle = [stream for to in self._idle for stream in self._origins[to].streams]
        for to in list(self._idle):
            self._close(to)
        for stream in idle:
            await stream.wait_closed()

    def _acquire(self, to: Destination) -> Origin:
        """Return the origin for a new request, and count the request."""
        origin = self._origins.get(to)
        if origin is None:
            origin = Origin(self._dialer, to, limits=self._limits, all_streams=self._streams)
            self._origins[to] = origin
        elif (expiry := self._idle.pop(to, None)) is not None:
            expiry.cancel()
        origin.in_flight += 1
        return origin

    def _release(self, to: Destination, origin: Origin) -> None:
        """Uncount a request. An origin without requests keeps its connections for a while."""
        origin.in_flight -= 1
        if origin.in_flight == 0:
            self._idle[to] = asyncio.get_running_loop().call_later(
                max(0.0, origin.kept_seconds), self._close, to
            )
            if self._closed or not origin.streams:
                self._close(to)
        while len(self._streams) > self._limits.max_open and self._idle:
            self._close(next(iter(self._idle)))

    def _close(self, to: Destination) -> None:
        """Remove an idle origin and close its connections."""
        self._idle.pop(to).cancel()
        for stream in tuple(self._origins.pop(to).streams):
            stream.close()
