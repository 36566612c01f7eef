"""The connections of a sender, kept open between requests to the same destination."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from hookfast.sender.connection import Answer
from hookfast.sender.dial import Dialer
from hookfast.sender.origin import DEFAULT_LIMITS, Destination, Origin, PoolLimits
from hookfast.sender.request import Message
from hookfast.sender.stream import Stream


class ConnectionPool:
    """Sends requests to any destination. For one event loop."""

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

    async def exchange(self, to: Destination, message: Message) -> Answer:
        """Send a request and return the response. Raises the errors of `Origin.exchange`."""
        origin = self._acquire(to)
        try:
            return await origin.exchange(message)
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
