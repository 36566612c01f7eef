"""The httpx2 transport: requests go to the connections of their origin, each sent once."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict

import h11
import httpx2

from hookfast.sender.address_guard import Network
from hookfast.sender.dial import Dialer
from hookfast.sender.origin import Origin
from hookfast.sender.stream import Stream

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
CUT = "hookfast_cut"
"""The response extension that tells that the body went on after what was read of it."""

_PORTS = {"https": 443, "http": 80}

_Key = tuple[str, str, int, tuple[Network, ...]]
"""All that a connection was judged by: scheme, host, port and the endpoint's networks."""


class OriginTransport(httpx2.AsyncBaseTransport):
    """Sends httpx2 requests, each once, keeping connections open between them. For one event loop.

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
        ssl_context.set_alpn_protocols(["http/1.1"])
        self._ssl_context = ssl_context
        self._idle_seconds = idle_seconds
        self._max_idle_per_origin = max_idle_per_origin
        self._max_per_origin = max_per_origin
        self._max_open = max_open
        self._streams: set[Stream] = set()
        self._origins: dict[_Key, Origin] = {}
        self._resting: OrderedDict[_Key, asyncio.TimerHandle] = OrderedDict()
        self._closed = False

    @property
    def open_connections(self) -> int:
        """How many connections are open, in use or idle."""
        return len(self._streams)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, with as much of its body as is read of one; `CUT` among its extensions where
        there was more. Raises RequestFailed."""
        url = request.url
        host = url.raw_host.decode("ascii")
        key = (
            url.scheme,
            host,
            url.port or _PORTS[url.scheme],
            request.extensions.get(NETWORKS, ()),
        )
        body = await request.aread()
        origin = self._enter(key)
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
            self._leave(key, origin)
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=httpx2.ByteStream(answer.body),
            extensions={CUT: True} if answer.cut else None,
        )

    async def aclose(self) -> None:
        """Close the idle connections; one in use closes when its request ends."""
        self._closed = True
        idle = [stream for key in self._resting for stream in self._origins[key].streams]
        for key in list(self._resting):
            self._close(key)
        for stream in idle:
            await stream.wait_closed()

    def _enter(self, key: _Key) -> Origin:
        """The origin of a request that begins."""
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = self._new_origin(key)
        elif (expiry := self._resting.pop(key, None)) is not None:
            expiry.cancel()
        origin.in_flight += 1
        return origin

    def _leave(self, key: _Key, origin: Origin) -> None:
        """A request has ended. An origin without one rests, keeping its connections a while."""
        origin.in_flight -= 1
        if origin.in_flight == 0:
            self._resting[key] = asyncio.get_running_loop().call_later(
                self._idle_seconds, self._close, key
            )
            if self._closed or not origin.streams:
                self._close(key)
        while len(self._streams) > self._max_open and self._resting:
            self._close(next(iter(self._resting)))

    def _close(self, key: _Key) -> None:
        """Forget a resting origin and close its connections."""
        self._resting.pop(key).cancel()
        for stream in tuple(self._origins.pop(key).streams):
            stream.close()

    def _new_origin(self, key: _Key) -> Origin:
        scheme, host, port, networks = key
        return Origin(
            self._dialer,
            host,
            port,
            networks=networks,
            ssl_context=self._ssl_context if scheme == "https" else None,
            all_streams=self._streams,
            idle_seconds=self._idle_seconds,
            max_idle=self._max_idle_per_origin,
            max_connections=self._max_per_origin,
        )
