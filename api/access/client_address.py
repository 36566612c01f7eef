"""Where a request comes from: the client's address, and whether it came over https.

The peer of the connection is the client, unless it is a proxy that `HOOKFAST_TRUSTED_PROXIES`
names: then what that proxy says in `X-Forwarded-For` and `X-Forwarded-Proto` counts. Everything
else reads `client_address(scope)` and `scope["scheme"]` and need not know of proxies.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from hookfast.settings.settings import Network

Address = IPv4Address | IPv6Address

_MAX_HOPS = 32  # of X-Forwarded-For, from the right: more is no chain of proxies, but work for us
_SITE_BITS = 64


class TrustedProxies:
    """ASGI middleware: puts the client a trusted proxy tells of in the place of the proxy.

    `X-Forwarded-For` is read from the right, where our own proxies write: the first address that is
    not a trusted proxy is the client. What stands left of it the client may have written itself. A
    hop that is not an address ends the search at the proxy that vouched for it. `Forwarded`
    (RFC 7239) is not read.
    """

    def __init__(self, app: ASGIApp, *, networks: Sequence[Network]) -> None:
        self._app = app
        self._networks = tuple(networks)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            peer = _peer(scope)
            if peer is not None and self._is_trusted(peer):
                scope = self._as_told(scope, peer)
        await self._app(scope, receive, send)

    def _as_told(self, scope: Scope, peer: Address) -> Scope:
        hops: list[str] = []
        scheme: str | None = None
        for name, value in scope["headers"]:
            if name == b"x-forwarded-for":
                hops += value.decode("latin-1").split(",")
            elif name == b"x-forwarded-proto":
                scheme = value.decode("latin-1").rpartition(",")[2].strip().lower()
        client = peer
        for hop in reversed(hops[-_MAX_HOPS:]):
            told = _hop_address(hop)
            if told is None:
                break
            client = told
            if not self._is_trusted(told):
                break
        if scheme not in ("http", "https"):
            scheme = scope["scheme"]
        elif scope["type"] == "websocket":
            scheme = {"http": "ws", "https": "wss"}[scheme]
        return {**scope, "client": (str(client), 0), "scheme": scheme}

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def client_address(at: Scope | HTTPConnection) -> str | None:
    """The client's address in its canonical form, e.g. `203.0.113.7` or `2001:db8::7`.

    An IPv4 address that came as IPv6 (`::ffff:203.0.113.7`) is IPv4 here, and a zone (`%eth0`) is
    left out. None when the connection has no IP address (a UNIX socket).
    """
    address = _peer(at.scope if isinstance(at, HTTPConnection) else at)
    return None if address is None else str(address)


def client_site(at: Scope | HTTPConnection) -> str:
    """What to count a client by: its IPv4 address, or the /64 of its IPv6 address. One customer has
    a whole /64, often more, and could otherwise come from a new address with every request.
    Connections without an IP address are one site, the empty string."""
    address = _peer(at.scope if isinstance(at, HTTPConnection) else at)
    if address is None:
        return ""
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((address, _SITE_BITS), strict=False))


def _peer(scope: Scope) -> Address | None:
    client = scope.get("client")
    return None if client is None else _address(client[0])


def _hop_address(hop: str) -> Address | None:
    """An entry of X-Forwarded-For; some proxies add the port: `192.0.2.1:80`, `[2001:db8::1]:80`"""
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
