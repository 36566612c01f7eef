"""Whether requests to Temporal are compressed.

gzip takes 1.9 ms of CPU for each delivery (measured on 2 cores, in a workflow of its own). On one
network the bytes that it saves cost nothing, so `auto` compresses only what leaves it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from temporalio.service import GrpcCompression

from hookfast.settings.types import TemporalCompression

_LOOKUP_SECONDS = 2.0  # after that the name counts as not resolved: a start must not wait for DNS
_SAME_NETWORK = tuple(
    ip_network(network)
    for network in (
        "127.0.0.0/8",  # loopback
        "10.0.0.0/8",  # RFC 1918
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",  # link-local
        "::1/128",
        "fc00::/7",  # unique local addresses, RFC 4193
        "fe80::/10",
    )
)


async def compression_for(target: str, setting: TemporalCompression) -> GrpcCompression:
    """Return the compression of requests to `target`, a `host:port`. `auto` compresses unless every
    address of the host is loopback, private or link-local. A host that cannot be resolved within
    2 s may be anywhere, so its requests are compressed."""
    if setting == "on":
        return GrpcCompression.GZIP
    if setting == "off":
        return GrpcCompression.NONE
    addresses = await _addresses_of(_host_of(target))
    near = bool(addresses) and all(is_same_network(address) for address in addresses)
    return GrpcCompression.NONE if near else GrpcCompression.GZIP


def is_same_network(address: str) -> bool:
    """Return whether an IP address is loopback, private or link-local. Others, such as those that
    carriers share (100.64.0.0/10), may be behind a line that is slow or paid by the byte."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in _SAME_NETWORK)


def _host_of(target: str) -> str:
    """Return the host of `host:port`, `[::1]:port` or a URL; empty if there is none."""
    with contextlib.suppress(ValueError):  # connecting will report it
        return urlsplit(target if "://" in target else f"//{target}").hostname or ""
    return ""


async def _addresses_of(host: str) -> Sequence[str]:
    """Return the addresses of a name or literal; none if it cannot be resolved in time.

    `getaddrinfo` cannot be interrupted, and an executor's thread would delay the process's end
    until a silent name server's timeout: so it runs in a daemon thread.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Sequence[str]] = loop.create_future()

    def answer(addresses: Sequence[str]) -> None:
        if not found.done():
            found.set_result(addresses)

    def look_up() -> None:
        try:
            answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):  # UnicodeError: not a host name
            answers = []
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(answer, [str(sockaddr[0]) for *_, sockaddr in answers])

    if not host:
        return ()  # to getaddrinfo it would be this machine
    threading.Thread(target=look_up, name="hookfast-temporal-dns", daemon=True).start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LOOKUP_SECONDS):
            return await found
    return ()
