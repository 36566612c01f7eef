"""The address of this service itself, to which no delivery goes: an endpoint that is a source of
the same service would send each of its events round for ever.

Other names of the same address are not known here. What comes back through them is stopped by its
hops (`hookfast.events.hops`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

from hookfast.errors import InvalidInput, Misconfigured
from hookfast.sender.addresses import is_address, is_private_host, unmapped
from hookfast.sender.url import parse_url, peer_name


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """Host and port of the service's public URL. `port` is None for a public host: all its ports
    are the service's own. On a private one, other services are usual, so only one port is."""

    host: str
    port: int | None

    @classmethod
    def of(cls, public_url: str) -> OwnAddress:
        """Return the address of this URL. Raises Misconfigured if it is not a URL."""
        rooted = re.sub(r"\.(?=(:[0-9]+)?(/|$))", "", public_url, count=1)  # "example.com.:8443/"
        try:
            url = parse_url(rooted)
        except InvalidInput as error:
            raise Misconfigured(
                f"HOOKFAST_PUBLIC_URL is not a URL of this service: {error.message}"
            ) from None
        return cls(url.host, url.port if is_private_host(url.host) else None)

    def covers(self, host: str, port: int) -> bool:
        """Whether `host` (a lower-case ASCII name, or an address) at `port` is this service."""
        if self.port is not None and port != self.port:
            return False
        if _is_loopback(host) and _is_loopback(self.host):
            return True
        return _without_mapping(host) == _without_mapping(self.host)

    def reject(self, url: str, *, pointer: str = "/url") -> None:
        """Reject a URL, as `check_url` returns it, at this address. Raises InvalidInput, code
        `own_address`."""
        parts = parse_url(url)
        if self.covers(parts.host, parts.port):
            place = parts.host if self.port is None else peer_name(parts.host, self.port)
            raise InvalidInput.at(
                pointer,
                f"{place} is this service's own address, and an event sent there would come back "
                "for ever; subscribe another receiver to the event type, or emit the event with "
                "`POST /v1/events`",
                code="own_address",
            )


def _is_loopback(host: str) -> bool:
    if is_address(host):
        return unmapped(ip_address(host)).is_loopback  # the mapped one itself: not on Python 3.11
    return host == "localhost" or host.endswith(".localhost")


def _without_mapping(host: str) -> str:
    return str(unmapped(ip_address(host))) if is_address(host) else host
