"""Open a connection to a URL's host: resolve once, judge every answer, dial a judged literal.

Nothing resolves the name a second time, so it cannot point elsewhere between the check and the
connection (DNS rebinding). TLS still verifies the name, which is also sent as SNI.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address

from hookfast.outcome import Result
from hookfast.sender.address_guard import AddressGuard, AddressRefused, Network
from hookfast.sender.failure import (
    Phase,
    Progress,
    RequestFailed,
    address_refused,
    handshake_failed,
    not_connected,
    unresolved,
)
from hookfast.sender.resolver import Resolver
from hookfast.sender.stream import Stream
from hookfast.sender.url import Url

_STAGGER_SECONDS = 0.25  # RFC 8305, section 8: "Connection Attempt Delay"
_MAX_DIALLED = 8  # a name with a thousand addresses must not turn an attempt into a port scan


class Dialer:
    """Opens connections under one guard, resolver and TLS configuration."""

    def __init__(
        self, *, guard: AddressGuard, resolver: Resolver, ssl_context: ssl.SSLContext
    ) -> None:
        self._guard = guard
        self._resolver = resolver
        self._ssl_context = ssl_context

    async def dial(self, url: Url, progress: Progress, *, within: Sequence[Network]) -> Stream:
        """A connection to `url`'s host and port, TLS set up where the scheme asks for it.

        Raises RequestFailed. Knows no deadline: the caller cancels.
        """
        progress.phase = Phase.RESOLVING
        addresses = await self._addresses(url.host)
        try:
            self._guard.check(addresses, within=within)
        except AddressRefused as refused:
            raise address_refused(url.host, refused.address, refused.rule) from None

        progress.phase = Phase.CONNECTING
        try:
            connected = await _connect_first(addresses[:_MAX_DIALLED], url.port)
        except OSError as error:
            raise not_connected(url.peer, error) from error

        progress.phase = Phase.HANDSHAKE
        try:
            return await self._stream(connected, url)
        except OSError as error:
            raise handshake_failed(url.peer, error) from error
        except BaseException:
            connected.close()
            raise

    async def _addresses(self, host: str) -> Sequence[str]:
        if _is_address(host):
            return (host,)
        try:
            addresses = await self._resolver.resolve(host)
        except socket.gaierror as error:
            raise unresolved(host, error) from error
        if not addresses:
            raise RequestFailed(Result.DNS, f"The name {host} does not resolve to an address.")
        return addresses

    async def _stream(self, connected: socket.socket, url: Url) -> Stream:
        secure = url.scheme == "https"
        _, stream = await asyncio.get_running_loop().create_connection(
            Stream,
            sock=connected,
            ssl=self._ssl_context if secure else None,
            server_hostname=url.host if secure else None,
        )
        return stream


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _connect_first(addresses: Sequence[str], port: int) -> socket.socket:
    """A socket connected to one of `addresses`, tried in order as RFC 8305 (section 5) has it: the
    next one starts when the last has failed or after a quarter of a second; the first to connect
    wins. Raises the most telling OSError when none does."""
    if len(addresses) == 1:
        return await _connect(addresses[0], port)
    waiting = list(addresses)
    attempts: list[asyncio.Task[socket.socket]] = []
    pending: set[asyncio.Task[socket.socket]] = set()
    winner: socket.socket | None = None
    try:
        while winner is None and (waiting or pending):
            if waiting:
                task = asyncio.create_task(_connect(waiting.pop(0), port))
                attempts.append(task)
                pending.add(task)
            done, pending = await asyncio.wait(
                pending,
                timeout=_STAGGER_SECONDS if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            winner = next((task.result() for task in done if task.exception() is None), None)
        if winner is None:
            raise _most_telling([task.exception() for task in attempts])
        return winner
    finally:
        for task in attempts:
            task.cancel()
        for late in await asyncio.gather(*attempts, return_exceptions=True):
            if isinstance(late, socket.socket) and late is not winner:
                late.close()


async def _connect(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connecting, (address, port))
    except BaseException:
        connecting.close()
        raise
    return connecting


def _most_telling(errors: Sequence[BaseException | None]) -> BaseException:
    """The failure of an address that could be reached, if any: on a host without IPv6 the other
    addresses only say that there is no route."""
    no_route = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    real = [error for error in errors if error is not None]
    return min(real, key=lambda error: isinstance(error, OSError) and error.errno in no_route)
