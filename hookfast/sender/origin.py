"""The connections to one origin: those in use, and those kept for the next request.

httpcore2's pool looks at each of its connections twice for each request, and asks the kernel about
each idle one. Here a request touches the connection it takes, and no other, and drives h11 without
the layers between: at 64 at once `Sender.post` takes 0.4 ms of CPU where it took 1.15 (`python -m
bench.post`, by turns, on a busy machine).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import h11

from hookfast.sender.address_guard import Network
from hookfast.sender.connection import Answer, Connection
from hookfast.sender.dial import Dialer
from hookfast.sender.failure import handshake_failed
from hookfast.sender.progress import Phase, current_progress
from hookfast.sender.stream import Stream
from hookfast.sender.url import peer_name


class Origin:
    """Reaches one host and port, through the guarded dialler; with `ssl_context` by TLS, verified
    for the host. `streams` are those open now; each is in `all_streams` too.

    A request is never sent on a second connection, so one that meets a closed connection fails.
    """

    def __init__(
        self,
        dialer: Dialer,
        host: str,
        port: int,
        *,
        networks: Sequence[Network],
        ssl_context: ssl.SSLContext | None,
        all_streams: set[Stream],
        idle_seconds: float,
        max_idle: int,
        max_connections: int,
    ) -> None:
        self.streams: set[Stream] = set()
        self.in_flight = 0
        self._dialer = dialer
        self._host = host
        self._port = port
        self._peer = peer_name(host, port)
        self._networks = networks
        self._ssl_context = ssl_context
        self._all_streams = all_streams
        self._idle_seconds = idle_seconds
        self._max_idle = max_idle
        self._places = asyncio.Semaphore(max_connections)
        # With the time until which each is kept. The last to become idle is the first to be used
        # again: it is the least likely to have been closed meanwhile.
        self._idle: deque[tuple[float, Connection]] = deque()

    async def exchange(self, request: h11.Request, body: bytes) -> Answer:
        """Send a request, when there is a connection for it, and read its answer. Raises what
        `Dialer.dial` and `Connection.exchange` raise."""
        async with self._places:
            connection = self._take_idle() or await self._open()
            try:
                answer = await connection.exchange(request, body)
            except BaseException:
                connection.close()
                raise
            self._keep(connection)
            return answer

    def _take_idle(self) -> Connection | None:
        self._drop_expired()
        while self._idle:
            _, connection = self._idle.pop()
            if connection.quiet:
                return connection
            connection.close()
        return None

    def _keep(self, connection: Connection) -> None:
        self._drop_expired()
        if not connection.renew():
            connection.close()
            return
        self._idle.append((time.monotonic() + self._idle_seconds, connection))
        if len(self._idle) > self._max_idle:
            self._idle.popleft()[1].close()

    def _drop_expired(self) -> None:
        now = time.monotonic()
        while self._idle and self._idle[0][0] < now:
            self._idle.popleft()[1].close()

    async def _open(self) -> Connection:
        connected = await self._dialer.dial(self._host, self._port, within=self._networks)
        if self._ssl_context is None:
            return await self._over(connected)
        # Nothing has been read yet: what a server that does not speak TLS says at once belongs to
        # the handshake, which tells it from a server that is silent.
        current_progress().phase = Phase.HANDSHAKE
        try:
            return await self._over(connected, ssl=self._ssl_context, server_hostname=self._host)
        except OSError as error:
            raise handshake_failed(self._peer, error) from error

    async def _over(self, connected: socket.socket, **tls: Any) -> Connection:
        """`connected` as a connection; closed where that fails."""
        stream = Stream((self.streams, self._all_streams))
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: stream, sock=connected, **tls
            )
        except BaseException:
            # A deadline may strike when the transport is made and not yet handed over: uvloop then
            # closes it without telling, and a stream that waits to be told would for ever.
            stream.give_up()
            connected.close()
            raise
        return Connection(stream, self._peer)
