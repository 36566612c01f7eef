"""The address of this service itself, to which no delivery goes: an endpoint that is a source of
the same service would send each of its events round for ever.

A host is compared in every form that leads to the same address: an IPv6 address that embeds an
IPv4 address, another address of loopback, and, once a name is resolved, what it resolves to. Other
public names and addresses of the service are not known here. What comes back through them is
stopped by its hops (`hookfast.events.hops`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

from hookfast.errors import InvalidInput, Misconfigured
from hookfast.sender.addresses import embedded, is_address, is_private_host, is_within
from hookfast.sender.url import parse_url, peer_name

# Names of loopback in the hosts files of Debian and Red Hat, beside RFC 6761's `localhost`.
_LOOPBACK_NAMES = (
    *("ip6-localhost", "ip6-loopback", "localhost4", "localhost6"),
    *("localhost.localdomain", "localhost4.localdomain4", "localhost6.localdomain6"),
)


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
        return not _reached(host).isdisjoint(_reached(self.host))

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


def _reached(host: str) -> set[str]:
    """Return what a connection to this host may reach: its name or its addresses, with "localhost"
    for all of loopback. A connection to an unspecified address reaches loopback too (Linux)."""
    if not is_address(host):
        local = is_within(host, "localhost") or host in _LOOPBACK_NAMES
        return {"localhost" if local else host}
    address = ip_address(host)
    return {
        "localhost" if one.is_loopback or one.is_unspecified else str(one)
        for one in (address, *embedded(address))
    }
