"""The connections to one origin, in use or kept idle for the next request.

A request touches only the connection that it uses. httpcore2's pool inspects all its connections
twice for each request, and polls each idle one.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hookfast.sender.addresses import Network
from hookfast.sender.connection import Answer, Connection
from hookfast.sender.dial import Dialer
from hookfast.sender.failure import RequestFailed, broken, handshake_failed
from hookfast.sender.http1 import Field
from hookfast.sender.phase import RequestPhase
from hookfast.sender.progress import current_progress
from hookfast.sender.proxy import EgressUnavailable
from hookfast.sender.request import Message
from hookfast.sender.stream import Stream
from hookfast.sender.url import peer_name
from hookfast.telemetry import instruments

_TIMEOUT = re.compile(r"(?:^|[,;\s])timeout\s*=\s*\"?([0-9]{1,9})(?![0-9.])", re.IGNORECASE)
_MAX_IDLE_SECONDS = 60


class Destination(NamedTuple):
    """Everything for which a connection is checked: host, port, TLS (None: http), and the networks
    to which the host is limited, if any."""

    host: str
    port: int
    ssl_context: ssl.SSLContext | None = None
    networks: tuple[Network, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """How many connections are open, and how long they are kept."""

    idle_seconds: float = 2.0
    """For an idle connection, unless the server says in `Keep-Alive` how long it keeps it. Common
    servers close theirs after 2 to 75 s, some proxies without notice."""
    max_idle_per_origin: int = 32
    max_per_origin: int = 256
    """Further requests wait for a free connection, within their deadlines."""
    max_open: int = 512
    """Beyond it, the connections of idle origins are closed, least recently used first."""


DEFAULT_LIMITS = PoolLimits()


class Origin:
    """Sends requests to one destination; over TLS, its certificate is verified for the host.
    `streams` are the open ones; each of them is in `all_streams` too.

    A server may close an idle connection in the moment in which the next request leaves. A request
    on a reused connection that ends before the first byte of an answer is therefore sent once more,
    on a new connection. The server may have seen both; they have the same message id (ADR 23).
    """

    def __init__(
        self, dialer: Dialer, to: Destination, *, limits: PoolLimits, all_streams: set[Stream]
    ) -> None:
        self.streams: set[Stream] = set()
        self.in_flight = 0
        self._dialer = dialer
        self._to = to
        self._peer = peer_name(to.host, to.port)
        self._limits = limits
        self._all_streams = all_streams
        self._slots = asyncio.Semaphore(limits.max_per_origin)
        # Each with the time until which it is kept. The most recent one is used first: the peer is
        # the least likely to have closed it.
        self._idle: deque[tuple[float, Connection]] = deque()

    async def exchange(self, message: Message) -> Answer:
        """Wait for a free connection, send a request and read its response. Raises the errors of
        `Dialer.dial` and `Connection.exchange`."""
        async with self._slots:
            idle = self._take_idle()
            if idle is None:
                return await self._exchange(await self._open(), message)
            progress = current_progress()
            try:
                answer = await self._exchange(idle, message)
            except RequestFailed as failed:
                if progress.phase is not RequestPhase.WAITING:
                    raise
                progress.unanswered = failed
            else:
                if not _ends_idle_connection(answer):
                    return answer
                progress.unanswered = broken(self._peer, RequestPhase.WAITING, None)
            instruments.REPEATED_REQUESTS.add(cause="connection")
            try:
                return await self._exchange(await self._open(), message)
            except Exception as error:
                # Its first sending cannot be undone by what prevents the second.
                if progress.phase is RequestPhase.CONFIRMING or isinstance(
                    error, EgressUnavailable
                ):
                    raise progress.unanswered from error
                raise

    async def _exchange(self, connection: Connection, message: Message) -> Answer:
        try:
            answer = await connection.exchange(message)
        except BaseException:
            connection.close()
            raise
        self._keep(connection, answer)
        return answer

    @property
    def kept_seconds(self) -> float:
        """For how many seconds from now the idle connections are kept, at most."""
        return max((until for until, _ in self._idle), default=0.0) - time.monotonic()

    def _take_idle(self) -> Connection | None:
        self._drop_expired()
        now = time.monotonic()
        while self._idle:
            until, connection = self._idle.pop()
            if now < until and connection.usable:
                return connection
            connection.close()
        return None

    def _keep(self, connection: Connection, answer: Answer) -> None:
        self._drop_expired()
        kept = keep_alive_seconds(answer.headers, default=self._limits.idle_seconds)
        if kept <= 0 or not connection.reusable:
            connection.close()
            return
        self._idle.append((time.monotonic() + kept, connection))
        if len(self._idle) > self._limits.max_idle_per_origin:
            self._idle.popleft()[1].close()

    def _drop_expired(self) -> None:
        now = time.monotonic()
        while self._idle and self._idle[0][0] < now:
            self._idle.popleft()[1].close()

    async def _open(self) -> Connection:
        host, port, ssl_context, networks = self._to
        connected = await self._dialer.dial(host, port, within=networks)
        if ssl_context is None:
            return await self._connect(connected)
        # Nothing has been read yet, so a plain-text greeting reaches the handshake, which can tell
        # a server that does not speak TLS from a silent one.
        current_progress().phase = RequestPhase.HANDSHAKE
        try:
            return await self._connect(connected, ssl=ssl_context, server_hostname=host)
        except OSError as error:
            raise handshake_failed(self._peer, error) from error

    async def _connect(self, connected: socket.socket, **tls: Any) -> Connection:
        """Return a connection over the connected socket. Closes the socket on failure."""
        stream = Stream((self.streams, self._all_streams))
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: stream, sock=connected, **tls
            )
        except BaseException:
            # When the deadline passes after the transport was created but before it is handed over,
            # uvloop closes it without notifying the stream, which would then wait forever.
            stream.abandon()
            connected.close()
            raise
        return Connection(stream, self._peer)


def keep_alive_seconds(headers: Sequence[Field], *, default: float) -> float:
    """Return how long to keep the connection of an answer with these headers: a second less than
    its `Keep-Alive: timeout` says (RFC 2068, section 19.7.1.1), `default` if it does not say it."""
    for name, value in headers:
        if name.lower() == "keep-alive" and (found := _TIMEOUT.search(value)):
            return min(int(found[1]) - 1, _MAX_IDLE_SECONDS)
    return default


def _ends_idle_connection(answer: Answer) -> bool:
    """Whether a server ended an idle connection with this answer, which has then crossed the
    request on its way (RFC 9110, section 15.5.9)."""
    return answer.status == 408 and any(
        name.lower() == "connection" and "close" in value.lower() for name, value in answer.headers
    )
