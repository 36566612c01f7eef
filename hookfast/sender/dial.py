"""Connect to a host: resolve its name once, check every address, connect to a checked address.

The name is not resolved a second time, so it cannot change between the check and the connection
(DNS rebinding). TLS is set up elsewhere; it verifies the name and sends it as SNI.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine, Sequence

from hookfast.sender.address_guard import AddressBlocked, AddressGuard
from hookfast.sender.addresses import Network
from hookfast.sender.failure import address_blocked, not_connected, unresolved
from hookfast.sender.phase import RequestPhase
from hookfast.sender.progress import current_progress
from hookfast.sender.resolver import Resolver
from hookfast.sender.url import peer_name

STAGGER_SECONDS = 0.25
"""How long one address may take before the next is tried (RFC 8305, section 8: "Connection Attempt
Delay")."""
_MAX_DIALLED = 8  # a name with a thousand addresses must not cause a port scan

Connect = Callable[[str, int], Coroutine[None, None, socket.socket]]
"""Returns a non-blocking socket connected to an IP address and port; raises OSError, or another
error if no address can be connected to."""


class Dialer:
    """Opens TCP connections to addresses that the guard allows. `stagger` is how many seconds one
    address may take before the next is tried."""

    def __init__(
        self,
        *,
        guard: AddressGuard,
        resolver: Resolver,
        connect: Connect | None = None,
        stagger: float = STAGGER_SECONDS,
    ) -> None:
        self._guard = guard
        self._resolver = resolver
        self._connect = connect or connect_tcp
        self._stagger = stagger

    async def dial(self, host: str, port: int, *, within: Sequence[Network]) -> socket.socket:
        """Return a non-blocking socket connected to `host`, in one of the networks `within` if any.

        Raises RequestFailed, OutOfResources, and the errors of `connect` that are no OSError.
        The caller cancels it at its deadline.
        """
        progress = current_progress()
        progress.phase = RequestPhase.RESOLVING
        addresses = await self.allowed_addresses(host, port, within=within)
        progress.phase = RequestPhase.CONNECTING
        try:
            return await connect_first(
                addresses[:_MAX_DIALLED], port, connect=self._connect, stagger=self._stagger
            )
        except OSError as error:
            raise not_connected(peer_name(host, port), error) from error

    async def allowed_addresses(
        self, host: str, port: int, *, within: Sequence[Network]
    ) -> Sequence[str]:
        """Resolve `host` and return its addresses, all of which the guard allows. Raises
        RequestFailed."""
        try:
            self._guard.check_host(host, port)
            addresses = await self._resolver.resolve(host)
            self._guard.check(addresses, host=host, port=port, within=within)
        except socket.gaierror as error:
            raise unresolved(host, error) from error
        except AddressBlocked as blocked:
            raise address_blocked(host, blocked) from None
        return addresses


async def connect_first(
    addresses: Sequence[str],
    port: int,
    *,
    connect: Connect,
    stagger: float = STAGGER_SECONDS,
) -> socket.socket:
    """Return a socket connected to one of the addresses, tried in order (RFC 8305, section 5).

    The next attempt starts when the last one has failed, or after `stagger` seconds; the first
    connection wins. Raises the most informative OSError when all fail, and at once an error that is
    no OSError.
    """
    if len(addresses) == 1:
        return await connect(addresses[0], port)
    waiting = list(addresses)
    attempts: list[asyncio.Task[socket.socket]] = []
    pending: set[asyncio.Task[socket.socket]] = set()
    winner: socket.socket | None = None
    try:
        while winner is None and (waiting or pending):
            if waiting:
                task = asyncio.create_task(connect(waiting.pop(0), port))
                attempts.append(task)
                pending.add(task)
            done, pending = await asyncio.wait(
                pending,
                timeout=stagger if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            winner = next((task.result() for task in done if task.exception() is None), None)
            for error in [task.exception() for task in done] if winner is None else ():
                if error is not None and not isinstance(error, OSError):
                    raise error
        if winner is None:
            raise _most_informative([task.exception() for task in attempts])
        return winner
    finally:
        for task in attempts:
            task.cancel()
        for late in await asyncio.gather(*attempts, return_exceptions=True):
            if isinstance(late, socket.socket) and late is not winner:
                late.close()


async def connect_tcp(address: str, port: int) -> socket.socket:
    """Open a TCP connection. Closes the socket when cancelled."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # The protocol is explicit, because asyncio sets TCP_NODELAY only then. Without it, the end of a
    # long body would wait for the receiver's delayed ACK (40 ms).
    connecting = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        connecting.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connecting, (address, port))
    except BaseException:
        connecting.close()
        raise
    return connecting


def _most_informative(errors: Sequence[BaseException | None]) -> BaseException:
    """Return the error of an address that has a route, if any: on a host without IPv6, the errors
    of IPv6 addresses only say that there is no route."""
    no_route = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    real = [error for error in errors if error is not None]
    return min(real, key=lambda error: isinstance(error, OSError) and error.errno in no_route)
