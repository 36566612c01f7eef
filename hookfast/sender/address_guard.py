"""The address guard allows or blocks the host, port and IP address of an outgoing connection."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import structlog

from hookfast.sender.addresses import (
    Address,
    Network,
    built_in_rule,
    embedded,
    inside,
    is_address,
    is_local_name,
    is_within,
    unmapped,
)
from hookfast.sender.own_address import OwnAddress

log = structlog.get_logger()

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
_OWN = "this service's own address"


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
            raise AddressBlocked(host, _OWN)
        if self._ports:
            if not any(port in ports for ports in self._ports):
                raise AddressBlocked(host, f"port {port} is not an allowed port of this server")
        elif port in _NON_HTTP_PORTS:
            raise AddressBlocked(host, f"port {port} belongs to a service that is not HTTP")
        if is_address(host):
            self.check([host])
        elif _is_metadata_name(host):
            raise AddressBlocked(host, "cloud metadata service")
        elif is_local_name(host) and not self._allowed:
            raise AddressBlocked(host, "a name for private networks")

    def check(
        self,
        addresses: Sequence[str],
        *,
        host: str | None = None,
        port: int | None = None,
        within: Sequence[Network] = (),
    ) -> None:
        """Raise AddressBlocked unless all of the host's addresses are allowed: a single blocked one
        blocks the name. A name for private networks must resolve into allowed networks.
        With a `port`, none of them may be the service's own address.

        `within` are the endpoint's own networks; if given, every address must also be in one of
        them. They never exempt from a rule.
        """
        local = host is not None and not is_address(host) and is_local_name(host)
        for text in addresses:
            address = ip_address(text)
            if (rule := self._rule_against(address)) is not None:
                raise AddressBlocked(text, rule)
            if port is not None and self._own is not None and self._own.covers(text, port):
                raise AddressBlocked(text, _OWN)
            if local and not inside(address, self._allowed):
                raise AddressBlocked(text, "a name for private networks")
            if within and not inside(unmapped(address), within):
                raise AddressBlocked(text, "outside the endpoint's allowed networks")

    def _rule_against(self, address: Address) -> str | None:
        rule = built_in_rule(address)
        if rule is not None and not inside(address, self._allowed):
            return rule
        if inside(address, _METADATA_ADDRESSES):
            return "cloud metadata service"
        if inside(address, self._denied):
            return "blocked by this server's settings"
        # An operator who allows NAT64 means the public addresses behind it, not 64:ff9b::7f00:1.
        for behind in embedded(address):
            if (rule := self._rule_against(behind)) is not None:
                return rule
        return None


def _is_metadata_name(host: str) -> bool:
    return any(is_within(host, name) for name in _METADATA_NAMES)
