"""How httpcore2 reaches one origin: through the guarded dialler, TLS by the name in the URL."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore2

from hookfast.sender.address_guard import Network
from hookfast.sender.connection import Connection
from hookfast.sender.dial import Dialer
from hookfast.sender.failure import handshake_failed
from hookfast.sender.progress import Phase, current_progress
from hookfast.sender.stream import Stream


class OriginBackend(httpcore2.AsyncNetworkBackend):
    """Connects to `peer`, inside `networks` where any are given. `streams` are those open now; each
    is in `all_streams` too."""

    def __init__(
        self,
        dialer: Dialer,
        peer: str,
        *,
        secure: bool,
        networks: Sequence[Network],
        all_streams: set[Stream],
    ) -> None:
        self.peer = peer
        self.streams: set[Stream] = set()
        self._dialer = dialer
        self._secure = secure
        self._networks = networks
        self._all_streams = all_streams

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A connection, for TLS only good for its `start_tls`. Raises what `Dialer.dial` raises."""
        connected = await self._dialer.dial(host, port, within=self._networks)
        return _Handshake(self, connected) if self._secure else await self.open(connected)

    async def open(self, connected: socket.socket, **tls: Any) -> Connection:
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
        return Connection(stream, self.peer)


class _Handshake(httpcore2.AsyncNetworkStream):
    """A socket on which nothing has been read: what a server that does not speak TLS says at once
    belongs to the handshake, which tells it from a server that is silent."""

    def __init__(self, backend: OriginBackend, connected: socket.socket) -> None:
        self._backend = backend
        self._connected = connected

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> Connection:
        """The connection under TLS, verified for `server_hostname`. Raises RequestFailed."""
        current_progress().phase = Phase.HANDSHAKE
        try:
            return await self._backend.open(
                self._connected, ssl=ssl_context, server_hostname=server_hostname
            )
        except OSError as error:
            raise handshake_failed(self._backend.peer, error) from error

    async def aclose(self) -> None:
        self._connected.close()
