"""The address guard: which IP addresses an outgoing connection may be opened to.

Explicit tables instead of `ipaddress`'s `is_global`, which on Python 3.11 passes NAT64, 6to4,
`::127.0.0.1` and multicast. Sources: the IANA IPv4 and IPv6 special-purpose address registries
(RFC 6890). IPv6 is allowed only inside global unicast, 2000::/3, minus what is special there.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import structlog

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

log = structlog.get_logger()

_IPV4_DENIED = tuple(
    (IPv4Network(network), rule)
    for network, rule in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared address space (carrier-grade NAT)"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "cloud platform service"),  # public, but Azure's own on every host
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
        ("240.0.0.0/4", "reserved"),
    )
)

# The first match names the rule, so the narrower network stands before the wider one.
_IPV6_DENIED = tuple(
    (IPv6Network(network), rule)
    for network, rule in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "IPv4-mapped"),
        ("::ffff:0:0:0/96", "IPv4-translated"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b::/96", "NAT64"),
        ("64:ff9b:1::/48", "NAT64"),
        ("100::/64", "discard-only"),
        ("100:0:0:1::/64", "dummy prefix"),
        ("5f00::/16", "SRv6 segment identifiers"),
        ("fc00::/7", "unique local"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("2001::/32", "Teredo"),
        ("2001:2::/48", "benchmarking"),
        ("2001:db8::/32", "documentation"),
        ("2001::/23", "protocol assignments"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
    )
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")


class AddressRefused(Exception):
    """The guard refused `address`; `rule` names why in a few words. The name that resolved to it
    has to point elsewhere, or the operator has to allow the network."""

    def __init__(self, address: str, rule: str) -> None:
        super().__init__(f"{address} is not allowed: {rule}")
        self.address = address
        self.rule = rule


class AddressGuard:
    """Judges addresses. `allowed_private_networks` lifts the deny rules for what lies inside."""

    def __init__(self, allowed_private_networks: Sequence[Network] = ()) -> None:
        self._allowed = tuple(allowed_private_networks)
        if self._allowed:
            log.warning(
                "The address guard lets deliveries into private networks.",
                networks=[str(network) for network in self._allowed],
            )

    def check(self, addresses: Sequence[str], *, within: Sequence[Network] = ()) -> None:
        """Return if every address may be dialled; one bad answer spoils the name.

        `within` are the endpoint's own networks: where given, every address must also lie in one
        of them. They never lift a deny rule. Raises AddressRefused.
        """
        for text in addresses:
            address = ip_address(text)
            # A mapped address reaches the IPv4 host it embeds, so that is what the networks of
            # people are compared with; without their word it stays denied.
            plain = _unmapped(address)
            lifted = _inside(address, self._allowed) or _inside(plain, self._allowed)
            if not lifted and (rule := _denied_by(address)) is not None:
                raise AddressRefused(text, rule)
            if within and not _inside(plain, within):
                raise AddressRefused(text, "outside the endpoint's allowed networks")


def _denied_by(address: Address) -> str | None:
    if isinstance(address, IPv4Address):
        return next((rule for network, rule in _IPV4_DENIED if address in network), None)
    for network, rule in _IPV6_DENIED:
        if address in network:
            return rule
    return None if address in _GLOBAL_UNICAST else "not global unicast"


def _unmapped(address: Address) -> Address:
    return (address.version == 6 and address.ipv4_mapped) or address


def _inside(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
