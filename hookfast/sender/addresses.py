"""The kinds of IP addresses and host names: private, reserved, or part of the public internet.

It uses explicit tables, because `is_global` of `ipaddress` on Python 3.11 allows NAT64, 6to4,
`::127.0.0.1` and multicast. Sources: the IANA IPv4 and IPv6 special-purpose address registries
(RFC 6890). An IPv6 address is public only inside global unicast, 2000::/3, without its special
networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

_IPV4_DENIED = tuple(
    (IPv4Network(network), rule)
    for network, rule in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared address space (carrier-grade NAT)"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "cloud platform service"),  # public, but Azure's own service
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

# The first match names the rule, so narrower networks come before wider ones.
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
# Prefixes whose last 32 bits are an IPv4 address, which a translator or the host itself reaches.
_EMBEDDING = tuple(
    IPv6Network(network)
    for network in (
        "::/96",
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
    )
)
_PLAIN_IPV6 = (IPv6Network("::/128"), IPv6Network("::1/128"))
# Names for private networks, which are checked before they are resolved: such a name gives access
# like its address, and strangers must not learn what it resolves to. Sources: RFC 6761 and its
# registry, RFC 6762 (`.local`), RFC 8375 (`home.arpa`), RFC 9476 (`.alt`), and ICANN's reservations
# of `.internal` (2024) and of names that often collide (`.home`, `.corp`, `.mail`). `.svc` is the
# suffix of services inside a Kubernetes cluster: a pod's resolver adds the rest (`ndots:5`).
_LOCAL_SUFFIXES = (
    "alt",
    "arpa",
    "consul",
    "corp",
    "home",
    "internal",
    "intranet",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "mail",
    "onion",
    "private",
    "svc",
)


def is_address(host: str) -> bool:
    """Return whether `host` is an IP address (without brackets) and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_private_host(host: str) -> bool:
    """Return whether `host` is an address or a name that not all of the internet can reach."""
    if is_address(host):
        return built_in_rule(ip_address(host)) is not None
    return is_local_name(host)


def is_local_name(host: str) -> bool:
    """Return whether `host` (not an address) is a name for private networks: a single label, or a
    suffix reserved for private use."""
    return "." not in host or any(is_within(host, suffix) for suffix in _LOCAL_SUFFIXES)


def is_within(host: str, name: str) -> bool:
    """Return whether `host` is this name or a name below it."""
    return host == name or host.endswith(f".{name}")


def built_in_rule(address: Address) -> str | None:
    """Return why an address is not reachable from all of the internet; None if it is."""
    if isinstance(address, IPv4Address):
        return next((rule for network, rule in _IPV4_DENIED if address in network), None)
    for network, rule in _IPV6_DENIED:
        if address in network:
            return rule
    return None if address in _GLOBAL_UNICAST else "not global unicast"


def embedded(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 address embeds, which traffic to it may reach."""
    if isinstance(address, IPv4Address) or inside(address, _PLAIN_IPV6):
        return ()
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo  # its server and its client
    if inside(address, _EMBEDDING):
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    return ()


def unmapped(address: Address) -> Address:
    """Return the IPv4 address that a mapped address stands for, and any other address itself."""
    return (address.version == 6 and address.ipv4_mapped) or address


def inside(address: Address, networks: Sequence[Network]) -> bool:
    """Return whether an address is in one of these networks."""
    return any(address in network for network in networks)
