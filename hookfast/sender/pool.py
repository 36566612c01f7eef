"""The pool of connections, which keeps them open between requests to the same origin."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from typing import NamedTuple

import h11

from hookfast.sender.address_guard import Network
from hookfast.sender.connection import Answer
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


class Destination(NamedTuple):
    """Everything for which a connection is checked: host, port, TLS (None: http), and the networks
    to which the host is limited, if any."""

    host: str
    port: int
    ssl_context: ssl.SSLContext | None = None
    networks: tuple[Network, ...] = ()


class ConnectionPool:
    """Sends requests, keeping connections open between them. For one event loop."""

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
        self._origins: dict[Destination, Origin] = {}
        self._idle: OrderedDict[Destination, asyncio.TimerHandle] = OrderedDict()
        self._closed = False

    @property
    def open_connections(self) -> int:
        """How many connections are open, in use or idle."""
        return len(self._streams)

    async def exchange(self, to: Destination, request: h11.Request, body: bytes) -> Answer:
        """Send a request and return its answer. Raises the errors of `Origin.exchange`."""
        origin = self._acquire(to)
        try:
            return await origin.exchange(request, body)
        finally:
            self._release(to, origin)

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
            origin = self._origins[to] = self._new_origin(to)
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
        while len(self._streams) > self._max_open and self._idle:
            self._close(next(iter(self._idle)))

    def _close(self, to: Destination) -> None:
        """Remove an idle origin and close its connections."""
        self._idle.pop(to).cancel()
        for stream in tuple(self._origins.pop(to).streams):
            stream.close()

    def _new_origin(self, to: Destination) -> Origin:
        return Origin(
            self._dialer,
            to.host,
            to.port,
            networks=to.networks,
            ssl_context=to.ssl_context,
            all_streams=self._streams,
            idle_seconds=self._idle_seconds,
            max_idle=self._max_idle_per_origin,
            max_connections=self._max_per_origin,
        )
