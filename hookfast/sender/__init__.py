"""Send HTTP requests to endpoints, and guard the addresses to which they may go.

`Sender` sends requests, and `sender_of` returns the one of these settings. `AddressGuard` allows or
blocks their addresses, `check_url`, `OwnAddress` and `verify_endpoint` validate endpoint URLs,
`check_identity` a TLS identity. `EgressUnavailable` says that our own proxy is away.
"""

from hookfast.clock import Clock, utc_now
from hookfast.sender.address_guard import AddressBlocked, AddressGuard
from hookfast.sender.addresses import Network
from hookfast.sender.own_address import OwnAddress
from hookfast.sender.proxy import EgressUnavailable
from hookfast.sender.sender import Sender
from hookfast.sender.tls import check_identity
from hookfast.sender.url import check_url
from hookfast.sender.verify import verify_endpoint
from hookfast.settings.settings import Settings

__all__ = [
    "AddressBlocked",
    "AddressGuard",
    "EgressUnavailable",
    "Network",
    "OwnAddress",
    "Sender",
    "check_identity",
    "check_url",
    "sender_of",
    "verify_endpoint",
]


def sender_of(settings: Settings, *, clock: Clock = utc_now) -> Sender:
    """Return the sender, with the guard and the proxy that the settings name. Raises Misconfigured
    if the public URL is not a URL."""
    return Sender(
        guard=AddressGuard(
            settings.allowed_private_networks,
            denied_networks=settings.denied_networks,
            ports=settings.port_ranges,
            own=OwnAddress.of(settings.resolved_public_url),
        ),
        excerpt_bytes=settings.response_excerpt_bytes,
        header_bytes=settings.attempt_header_bytes,
        proxy=settings.parsed_egress_proxy,
        clock=clock,
    )
