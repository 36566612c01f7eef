"""Connect through the installation's egress proxy with HTTP CONNECT (RFC 9110, section 9.3.6).

The proxy is asked for an address that the guard has judged, never for a name, so it has nothing to
resolve. What is sent through the tunnel, TLS included, is as on a direct connection.
"""

from __future__ import annotations

import asyncio
import socket
import time
from http import HTTPStatus

import structlog

from hookfast.errors import Unavailable
from hookfast.sender.dial import Connect, connect_first, connect_tcp
from hookfast.sender.failure import OWN_SHORTAGES, TunnelRefused
from hookfast.sender.http1 import (
    END_OF_HEAD,
    VERSION,
    Head,
    InvalidResponse,
    parse_response,
    request_head,
)
from hookfast.sender.phase import RequestPhase
from hookfast.sender.progress import current_progress
from hookfast.sender.resolver import Resolver
from hookfast.sender.url import peer_name
from hookfast.settings.egress_proxy import EgressProxy
from hookfast.telemetry import instruments

STAGGER_SECONDS = 1.0
"""How long a tunnel to one address may take before one to the next is opened. Longer than for
direct connections: the proxy opens a connection for each, and its distance adds to each."""
REACH_SECONDS = 3.0
"""How long the connection to the proxy itself may take. Less than requests and tokens get, so that
an unreachable proxy is never taken for a slow receiver or token endpoint."""
MAX_HEAD = 16 * 1024
"""Most bytes of the proxy's answer."""

# Of an answer that rejects our credentials: tinyproxy sends the second with wrong ones.
_CHALLENGES = frozenset({"proxy-authenticate", "www-authenticate"})
_LOG_SECONDS = 60.0

log = structlog.get_logger()


class EgressUnavailable(Unavailable):
    """The egress proxy is away or does not accept our requests, so nothing was sent. This says
    nothing about the receiver. The message names neither the proxy nor its user; `reason` is one of
    a few words for the count."""

    code = "egress_unavailable"

    def __init__(self, what: str, *, reason: str) -> None:
        super().__init__(f"The egress proxy does not work: {what}. Nothing was sent.")
        self.what = what
        self.reason = reason


def not_reached() -> EgressUnavailable:
    """Return the error for a proxy that does not take a connection, or not in time."""
    return EgressUnavailable("it cannot be reached", reason="unreachable")


class Tunnels:
    """Opens connections through the proxy: an instance is a `Connect`. `connect` opens those to the
    proxy itself, whose address is not guarded, because the operator has set it."""

    def __init__(
        self, proxy: EgressProxy, *, resolver: Resolver, connect: Connect = connect_tcp
    ) -> None:
        self._proxy = proxy
        self._resolver = resolver
        self._connect = connect
        self._log_from = 0.0

    async def __call__(self, address: str, port: int) -> socket.socket:
        """Do the same as `open`, and note a failure of the proxy."""
        try:
            return await self.open(address, port)
        except EgressUnavailable as error:
            self.note(error)
            raise

    async def open(self, address: str, port: int) -> socket.socket:
        """Return a socket that the proxy has connected to this address. Closes it when cancelled.

        Raises TunnelRefused if the proxy does not connect to this address, EgressUnavailable if it
        would not to any other either, and OSError for a shortage of our own.
        """
        progress = current_progress()
        if (
            progress.phase is not RequestPhase.TUNNEL
        ):  # the proxy may be connecting to another address
            progress.phase = RequestPhase.PROXY
        connection = await self._reach()
        try:
            progress.phase = RequestPhase.TUNNEL
            answer = await self._request(connection, peer_name(address, port))
            status = answer.status
            if _rejects_us(answer):
                raise EgressUnavailable(
                    f"it rejects our requests ({status} {HTTPStatus(status).phrase})",
                    reason="rejected",
                )
            if not 200 <= status < 300:
                raise TunnelRefused(status)
        except BaseException:
            connection.close()
            raise
        return connection

    def note(self, error: EgressUnavailable) -> None:
        """Count a failure of the proxy, and log one a minute: in an outage there are thousands."""
        instruments.EGRESS_PROXY_FAILURES.add(reason=error.reason)
        now = time.monotonic()
        if now >= self._log_from:
            self._log_from = now + _LOG_SECONDS
            log.error(
                "The egress proxy does not work; nothing is sent until it does.",
                proxy=str(self._proxy),
                problem=error.what,
            )

    async def _reach(self) -> socket.socket:
        """Return a connection to the proxy."""
        try:
            async with asyncio.timeout(REACH_SECONDS):  # its TimeoutError is an OSError
                addresses = await self._resolver.resolve(self._proxy.host)
                return await connect_first(addresses, self._proxy.port, connect=self._connect)
        except socket.gaierror:
            raise EgressUnavailable("its name does not resolve", reason="unresolved") from None
        except OSError as error:
            if error.errno in OWN_SHORTAGES:
                raise
            raise not_reached() from None

    async def _request(self, connection: socket.socket, target: str) -> Head:
        """Send the request for a tunnel to `target`, and return the head of the answer."""
        fields = [("Host", target)]
        if (authorization := self._proxy.authorization) is not None:
            fields.append(("Proxy-Authorization", authorization))
        request = request_head("CONNECT", target, fields)
        try:
            await asyncio.get_running_loop().sock_sendall(connection, request)
            left = MAX_HEAD
            while True:
                head = await _receive_head(connection, left)
                answer = parse_response(head)
                if answer.status >= 200:
                    return answer
                left -= len(head)  # it was an interim response
        except InvalidResponse:
            raise EgressUnavailable(
                "its answer is not valid HTTP/1.1", reason="invalid_answer"
            ) from None
        except OSError:
            raise EgressUnavailable(
                "it closes connections without answering", reason="no_answer"
            ) from None


def _rejects_us(answer: Head) -> bool:
    """Whether the proxy would reject a request for any address. A 407 without a challenge is about
    the address: Smokescreen answers so to what its rules forbid."""
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    challenged = any(name.lower() in _CHALLENGES for name, _ in answer.headers)
    return challenged and answer.status in (401, 407)


async def _receive_head(connection: socket.socket, limit: int) -> bytes:
    """Receive the head of a response, and leave the bytes after it in the socket.

    Raises InvalidResponse if it is longer than `limit` or evidently not HTTP, and OSError when the
    connection ends before.
    """
    head = b""
    while len(head) < limit:
        await _readable(connection)
        try:
            seen = connection.recv(limit - len(head), socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            continue
        if not seen:
            raise ConnectionResetError("The connection ended within the head.")
        # A blank line may have begun in what was received before.
        end = END_OF_HEAD.search(head + seen, max(0, len(head) - 2))
        head += connection.recv(end.end() - len(head) if end else len(seen))
        if not VERSION.startswith(head[: len(VERSION)]):  # an SSH banner, say
            break
        if end:
            return head
    raise InvalidResponse


async def _readable(connection: socket.socket) -> None:
    """Wait until the socket has data, or was closed by the peer."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
