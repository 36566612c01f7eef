"""The address guard allows or blocks the host, port and IP address of an outgoing connection.

It uses explicit tables, because `is_global` of `ipaddress` on Python 3.11 allows NAT64, 6to4,
`::127.0.0.1` and multicast. Sources: the IANA IPv4 and IPv6 special-purpose address registries
(RFC 6890). IPv6 is allowed only inside global unicast, 2000::/3, without its special networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from hookfast.sender.own_address import OwnAddress

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


# The metadata services of clouds, which hand out credentials. They stay blocked even inside an
# allowed network.
_METADATA_ADDRESSES = tuple(
    ip_network(network)
    for network in (
        "100.100.100.200/32",  # Alibaba
        "168.63.129.16/32",  # Azure
        "169.254.169.254/32",  # AWS, Google, Azure, DigitalOcean, OpenStack and more
        "169.254.170.0/24",  # AWS, to containers
        "169.254.42.42/32",  # Scaleway
        "169.254.0.23/32",  # Tencent
        "192.0.0.192/32",  # Oracle
        "fd00:42::42/128",  # Scaleway
        "fd00:ec2::/32",  # AWS
        "fd20:ce::254/128",  # Google
        "fe80::a9fe:a9fe/128",  # OpenStack
    )
)
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
# The metadata services of AWS, Google, IBM, Tencent and Equinix. Their addresses are blocked too;
# the names are blocked so that a resolver cannot return other addresses for them.
_METADATA_NAMES = (
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.amazonaws.com",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.cloud.ibm.com",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
    "metadata.packet.net",
)
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
# Ports of services that are not HTTP, of which some obey the lines of a request that they get: the
# "bad ports" of the WHATWG Fetch Standard, section 2.9 ("Port blocking"), which browsers block too.
_NON_HTTP_PORTS = frozenset(
    {
        *(0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95),
        *(101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179),
        *(389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601),
        *(636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000),
        *(6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    }
)


class AddressBlocked(Exception):
    """The guard blocked `address`, an IP address or host name; `rule` says why in a few words. Use
    another URL, point the name elsewhere, or let the operator allow the network."""

    def __init__(self, address: str, rule: str) -> None:
        super().__init__(f"{address} is not allowed: {rule}")
        self.address = address
        self.rule = rule


class AddressGuard:
    """Checks hosts and addresses. `allowed_private_networks` are exempt from the built-in rules;
    `denied_networks` are always blocked. `ports` are the allowed ports (empty: all but those of
    well-known services that are not HTTP). `own` is the address of the service itself."""

    def __init__(
        self,
        allowed_private_networks: Sequence[Network] = (),
        *,
        denied_networks: Sequence[Network] = (),
        ports: Sequence[range] = (),
        own: OwnAddress | None = None,
    ) -> None:
        self._own = own
        self._allowed = tuple(allowed_private_networks)
        self._denied = tuple(denied_networks)
        self._ports = tuple(ports)
        if self._allowed:
            log.warning(
                "The address guard allows deliveries into private networks.",
                networks=[str(network) for network in self._allowed],
            )

    def check_host(self, host: str, port: int) -> None:
        """Raise AddressBlocked if `host` (a lower-case ASCII name, or an address) must not be
        resolved or connected to at `port`, as far as known without resolving it."""
        if self._own is not None and self._own.covers(host, port):
            raise AddressBlocked(host, "this service's own address")
        if self._ports:
            if not any(port in ports for ports in self._ports):
                raise AddressBlocked(host, f"port {port} is not an allowed port of this server")
        elif port in _NON_HTTP_PORTS:
            raise AddressBlocked(host, f"port {port} belongs to a service that is not HTTP")
        if is_address(host):
            self.check([host])
        elif _is_metadata_name(host):
            raise AddressBlocked(host, "cloud metadata service")
        elif _is_local_name(host) and not self._allowed:
            raise AddressBlocked(host, "a name for private networks")

    def check(
        self, addresses: Sequence[str], *, host: str | None = None, within: Sequence[Network] = ()
    ) -> None:
        """Raise AddressBlocked unless all of the host's addresses are allowed: a single blocked one
        blocks the name. A name for private networks must resolve into allowed networks.

        `within` are the endpoint's own networks; if given, every address must also be in one of
        them. They never exempt from a rule.
        """
        local = host is not None and not is_address(host) and _is_local_name(host)
        for text in addresses:
            address = ip_address(text)
            if (rule := self._rule_against(address)) is not None:
                raise AddressBlocked(text, rule)
            if local and not _inside(address, self._allowed):
                raise AddressBlocked(text, "a name for private networks")
            if within and not _inside(unmapped(address), within):
                raise AddressBlocked(text, "outside the endpoint's allowed networks")

    def _rule_against(self, address: Address) -> str | None:
        rule = _built_in_rule(address)
        if rule is not None and not _inside(address, self._allowed):
            return rule
        if _inside(address, _METADATA_ADDRESSES):
            return "cloud metadata service"
        if _inside(address, self._denied):
            return "blocked by this server's settings"
        # An operator who allows NAT64 means the public addresses behind it, not 64:ff9b::7f00:1.
        for embedded in _embedded(address):
            if (rule := self._rule_against(embedded)) is not None:
                return rule
        return None


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
        return _built_in_rule(ip_address(host)) is not None
    return _is_local_name(host)


def _is_metadata_name(host: str) -> bool:
    return any(_is_within(host, name) for name in _METADATA_NAMES)


def _is_local_name(host: str) -> bool:
    """Return whether `host` (not an address) is a name for private networks: a single label, or a
    suffix reserved for private use."""
    return "." not in host or any(_is_within(host, suffix) for suffix in _LOCAL_SUFFIXES)


def _is_within(host: str, name: str) -> bool:
    return host == name or host.endswith(f".{name}")


def _built_in_rule(address: Address) -> str | None:
    if isinstance(address, IPv4Address):
        return next((rule for network, rule in _IPV4_DENIED if address in network), None)
    for network, rule in _IPV6_DENIED:
        if address in network:
            return rule
    return None if address in _GLOBAL_UNICAST else "not global unicast"


def _embedded(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 address embeds, which traffic to it may reach."""
    if isinstance(address, IPv4Address) or _inside(address, _PLAIN_IPV6):
        return ()
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo  # its server and its client
    if _inside(address, _EMBEDDING):
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    return ()


def unmapped(address: Address) -> Address:
    """Return the IPv4 address that a mapped address stands for, and any other address itself."""
    return (address.version == 6 and address.ipv4_mapped) or address


def _inside(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
