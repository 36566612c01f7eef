"""The client's address and scheme, also behind proxies.

The peer of the connection is the client, unless it is a proxy listed in `HOOKFAST_TRUSTED_PROXIES`:
then that proxy's `X-Forwarded-For` and `X-Forwarded-Proto` count. All other code reads
`client_address(scope)` and `scope["scheme"]`, and need not know about proxies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from hookfast.settings.types import Network

Address = IPv4Address | IPv6Address

_MAX_HOPS = 32  # read from the right of X-Forwarded-For; longer lists only cost us time
_SITE_PREFIX = 64
_SITES_KEPT = 10_000


class Sites:
    """The sites that limits count clients by, beside the proxies that all clients come through."""

    def __init__(self, proxies: Sequence[Network]) -> None:
        self._proxies = tuple(proxies)
        self.of = lru_cache(maxsize=_SITES_KEPT)(self._of)

    def _of(self, address: str | None) -> str | None:
        """Return the `client_site` of an address; None if the client is not known: the address is
        a trusted proxy's, or the connection has none."""
        parsed = None if address is None else _address(address)
        if parsed is None or any(parsed in network for network in self._proxies):
            return None
        return _site(parsed)


class TrustedProxies:
    """ASGI middleware that replaces a trusted proxy's address by the client's that it forwards.

    `X-Forwarded-For` is read from the right, where our own proxies write: the first address that is
    not a trusted proxy is the client. The client itself may have written everything left of it. A
    hop that is not an address ends the search at the proxy that added it. `Forwarded` (RFC 7239)
    is not read.
    """

    def __init__(self, app: ASGIApp, *, networks: Sequence[Network]) -> None:
        self._app = app
        self._networks = tuple(networks)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            peer = _peer(scope)
            if peer is not None and self._is_trusted(peer):
                scope = self._forwarded(scope, peer)
        await self._app(scope, receive, send)

    def _forwarded(self, scope: Scope, peer: Address) -> Scope:
        """Return the scope with the client and scheme that the proxies forward."""
        hops: list[str] = []
        scheme: str | None = None
        for name, value in scope["headers"]:
            if name == b"x-forwarded-for":
                hops += value.decode("latin-1").split(",")
            elif name == b"x-forwarded-proto":
                scheme = value.decode("latin-1").rpartition(",")[2].strip().lower()
        client = peer
        for hop in reversed(hops[-_MAX_HOPS:]):
            address = _hop_address(hop)
            if address is None:
                break
            client = address
            if not self._is_trusted(address):
                break
        if scheme not in ("http", "https"):
            scheme = scope["scheme"]
        elif scope["type"] == "websocket":
            scheme = {"http": "ws", "https": "wss"}[scheme]
        return {**scope, "client": (str(client), 0), "scheme": scheme}

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def client_address(at: Scope | HTTPConnection) -> str | None:
    """Return the client's address in its canonical form, e.g. `203.0.113.7` or `2001:db8::7`.

    An IPv4-mapped IPv6 address (`::ffff:203.0.113.7`) is returned as IPv4, and a zone (`%eth0`) is
    left out. None if the connection has no IP address (a UNIX socket).
    """
    address = _peer(at.scope if isinstance(at, HTTPConnection) else at)
    return None if address is None else str(address)


def client_site(at: Scope | HTTPConnection) -> str:
    """Return the key that limits count a client by: its IPv4 address, or the /64 of its IPv6
    address. One customer has a whole /64, often more, and could otherwise use a new address for
    every request. All connections without an IP address share one site, the empty string."""
    address = _peer(at.scope if isinstance(at, HTTPConnection) else at)
    return "" if address is None else _site(address)


def _site(address: Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((address, _SITE_PREFIX), strict=False))


def _peer(scope: Scope) -> Address | None:
    client = scope.get("client")
    return None if client is None else _peer_address(client[0])


@lru_cache(maxsize=_SITES_KEPT)
def _peer_address(text: str) -> Address | None:
    return _address(text)


def _hop_address(hop: str) -> Address | None:
    """Parse an entry of X-Forwarded-For; some proxies add the port: `192.0.2.1:80`,
    `[2001:db8::1]:80`."""
    hop = hop.strip()
    if hop.startswith("["):
        return _address(hop[1:].partition("]")[0])
    if hop.count(":") == 1:
        return _address(hop.partition(":")[0])
    return _address(hop)


def _address(text: str) -> Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
