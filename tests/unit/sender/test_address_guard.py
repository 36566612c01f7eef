"""The address guard allows public addresses and blocks all others."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.sender import AddressBlocked, AddressGuard


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",  # the last before 10.0.0.0/8
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:200::1",  # the first after 2001::/23
        "2a00:1450:4001::200e",
        "3ffe:ffff::1",
    ],
)
def test_public_address_is_allowed(address: str) -> None:
    AddressGuard().check([address])


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("0.0.0.0", "this network"),  # noqa: S104 (nothing binds to it)
        ("0.1.2.3", "this network"),
        ("10.0.0.1", "private"),
        ("100.64.0.1", "shared address space (carrier-grade NAT)"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.255", "loopback"),
        ("168.63.129.16", "cloud platform service"),
        ("169.254.169.254", "link-local"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.8", "protocol assignments"),
        ("192.0.2.1", "documentation"),
        ("192.88.99.1", "6to4 relay"),
        ("192.168.1.1", "private"),
        ("198.18.0.1", "benchmarking"),
        ("198.19.255.255", "benchmarking"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::127.0.0.1", "IPv4-compatible"),
        ("::8.8.8.8", "IPv4-compatible"),
        ("::ffff:127.0.0.1", "IPv4-mapped"),
        ("::ffff:8.8.8.8", "IPv4-mapped"),
        ("::ffff:0:127.0.0.1", "IPv4-translated"),
        ("64:ff9b::7f00:1", "NAT64"),
        ("64:ff9b:1::1", "NAT64"),
        ("100::1", "discard-only"),
        ("100:0:0:1::1", "dummy prefix"),
        ("2001::1", "Teredo"),
        ("2001:2::1", "benchmarking"),
        ("2001:20::1", "protocol assignments"),
        ("2001:db8::1", "documentation"),
        ("2002:7f00:1::", "6to4"),
        ("3fff::1", "documentation"),
        ("5f00::1", "SRv6 segment identifiers"),
        ("fd00:ec2::254", "unique local"),
        ("fe80::1", "link-local"),
        ("fe80::1%2", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("4000::1", "not global unicast"),
        ("1::1", "not global unicast"),
    ],
)
def test_non_public_address_is_blocked_and_the_error_names_the_rule(
    address: str, rule: str
) -> None:
    with pytest.raises(AddressBlocked) as rejected:
        AddressGuard().check([address])
    assert (rejected.value.address, rejected.value.rule) == (address, rule)


def test_one_blocked_address_blocks_the_whole_name() -> None:
    with pytest.raises(AddressBlocked, match=r"10\.0\.0\.1"):
        AddressGuard().check(["8.8.8.8", "10.0.0.1", "1.1.1.1"])


def test_allowed_private_network_is_exempt_and_its_neighbours_are_not() -> None:
    guard = AddressGuard([ip_network("127.0.0.0/8"), ip_network("fd00::/8")])
    guard.check(["127.0.0.1", "fd00::1", "8.8.8.8"])
    for address in ("10.0.0.1", "::1", "fc00::1"):
        with pytest.raises(AddressBlocked):
            guard.check([address])


def test_mapped_address_is_allowed_only_if_it_and_its_ipv4_address_are() -> None:
    mapped, loopback = ip_network("::ffff:0:0/96"), ip_network("127.0.0.0/8")
    for allowed, passing in (
        ([loopback], []),
        ([mapped], ["::ffff:8.8.8.8"]),
        ([mapped, loopback], ["::ffff:8.8.8.8", "::ffff:127.0.0.1"]),
    ):
        guard = AddressGuard(allowed)
        guard.check(passing)
        for address in {"::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:10.0.0.1"} - {*passing}:
            with pytest.raises(AddressBlocked):
                guard.check([address])


def test_every_address_must_be_in_the_endpoints_networks() -> None:
    guard = AddressGuard()
    within = [ip_network("8.8.8.0/24"), ip_network("2606:4700::/32")]
    guard.check(["8.8.8.8", "2606:4700::1"], within=within)
    with pytest.raises(AddressBlocked, match="outside the endpoint's allowed networks"):
        guard.check(["8.8.8.8", "1.1.1.1"], within=within)


def test_endpoint_networks_exempt_from_no_rule() -> None:
    with pytest.raises(AddressBlocked, match="private"):
        AddressGuard().check(["10.0.0.1"], within=[ip_network("10.0.0.0/8")])


def test_operator_and_endpoint_must_both_allow_a_private_address() -> None:
    guard = AddressGuard([ip_network("10.0.0.0/8"), ip_network("::ffff:0:0/96")])
    guard.check(["10.1.0.1", "::ffff:10.1.0.1"], within=[ip_network("10.1.0.0/16")])
    with pytest.raises(AddressBlocked, match="outside"):
        guard.check(["10.2.0.1"], within=[ip_network("10.1.0.0/16")])


@given(st.ip_addresses(v=4))
def test_ipv4_address_that_python_calls_special_is_blocked(address: IPv4Address) -> None:
    if _passes(str(address)):
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=6))
def test_ipv6_address_that_is_special_or_embeds_ipv4_is_blocked(address: IPv6Address) -> None:
    if _passes(str(address)):
        assert address.is_global
        assert address.sixtofour is None
        assert address.teredo is None
        assert address.ipv4_mapped is None


# As the registries of IANA name them, independent of the guard's tables.
SPECIAL = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/8",
    "::/96",
    "::ffff:0:0/96",
    "::ffff:0:0:0/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/32",
    "2001:2::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "4000::/2",
    "5f00::/16",
    "8000::/1",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
]


@given(data=st.data())
def test_address_in_a_special_prefix_is_blocked(data: st.DataObject) -> None:
    for network in map(ip_network, SPECIAL):
        some = st.integers(int(network[0]), int(network[-1]))
        number = data.draw(some, label=str(network))
        for address in (network[0], network[-1], type(network[0])(number)):
            assert not _passes(str(address)), network


@pytest.mark.parametrize("form", ["::{}", "::ffff:{}", "::ffff:0:{}", "64:ff9b::{}"])
@given(inner=st.ip_addresses(v=4))
def test_allowing_an_embedding_prefix_does_not_allow_the_embedded_address(
    form: str, inner: IPv4Address
) -> None:
    # everything except 2000::/3 is exempt; IPv4 is unchanged
    guard = AddressGuard([ip_network("::/3")])
    address = ip_address(form.format(inner))
    if int(address) > 1:  # :: and ::1 embed nothing
        assert _passes(str(address), guard) == _passes(str(inner))


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::1",  # 6to4 of 169.254.169.254
        "169.254.170.2",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fe80::a9fe:a9fe",
        "fe80::a9fe:a9fe%2",
    ],
)
def test_metadata_service_is_blocked_even_in_an_allowed_network(address: str) -> None:
    guard = AddressGuard([ip_network("0.0.0.0/0"), ip_network("::/0")])
    with pytest.raises(AddressBlocked, match="cloud metadata service"):
        guard.check([address])


def test_denied_network_is_blocked_even_if_allowed_or_public() -> None:
    denied = [ip_network("8.8.8.0/24"), ip_network("10.9.0.0/16")]
    guard = AddressGuard(
        [ip_network("10.0.0.0/8"), ip_network("64:ff9b::/96"), ip_network("::ffff:0:0/96")],
        denied_networks=denied,
    )
    guard.check(["10.8.0.1", "8.8.4.4", "64:ff9b::8.8.4.4"])
    for address in ("8.8.8.8", "10.9.0.1", "::ffff:10.9.0.1", "64:ff9b::8.8.8.8"):
        with pytest.raises(AddressBlocked, match="settings"):
            guard.check([address])


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "db",
        "ai",
        "foo.localhost",
        "printer.local",
        "api.svc.cluster.local",
        "kubernetes.default.svc",
        "vault.internal",
        "x.localdomain",
        "router.home.arpa",
        "1.0.0.127.in-addr.arpa",
        "nas.lan",
        "mail.corp",
        "x.consul",
    ],
)
def test_name_for_private_networks_is_blocked_before_it_is_resolved(host: str) -> None:
    with pytest.raises(AddressBlocked, match="a name for private networks"):
        AddressGuard().check_host(host, 443)


@pytest.mark.parametrize(
    "host", ["example.com", "local.example.com", "internal.dev", "xn--bcher-kva.example", "a.ai"]
)
def test_public_name_is_allowed(host: str) -> None:
    AddressGuard().check_host(host, 443)


def test_name_for_private_networks_must_resolve_into_allowed_ones() -> None:
    guard = AddressGuard([ip_network("10.0.0.0/8")])
    guard.check_host("receiver.svc.cluster.local", 80)
    guard.check(["10.0.0.7"], host="receiver.svc.cluster.local")
    with pytest.raises(AddressBlocked, match="a name for private networks"):
        guard.check(["8.8.8.8"], host="receiver.svc.cluster.local")
    guard.check(["8.8.8.8"], host="receiver.example.com")
    guard.check(["8.8.8.8"], host="8.8.8.8")


@pytest.mark.parametrize(
    "host",
    [
        "metadata",
        "metadata.amazonaws.com",
        "metadata.google.internal",
        "x.metadata.google.internal",
        "metadata.goog",
    ],
)
def test_metadata_name_is_blocked_whatever_is_allowed(host: str) -> None:
    guard = AddressGuard([ip_network("0.0.0.0/0")])
    with pytest.raises(AddressBlocked, match="cloud metadata service"):
        guard.check_host(host, 80)


@pytest.mark.parametrize(("port", "passes"), [(443, True), (8005, True), (80, False), (22, False)])
def test_only_ports_in_the_settings_are_allowed(port: int, passes: bool) -> None:
    guard = AddressGuard(ports=[range(443, 444), range(8000, 8010)])
    for host in ("example.com", "8.8.8.8"):
        if passes:
            guard.check_host(host, port)
        else:
            with pytest.raises(AddressBlocked, match=f"port {port} is not an allowed port"):
                guard.check_host(host, port)


def test_ports_of_other_services_are_blocked_unless_the_settings_name_them() -> None:
    for port in (22, 25, 6000, 6667, 10080):
        with pytest.raises(AddressBlocked, match=f"port {port} belongs to a service"):
            AddressGuard().check_host("example.com", port)
    for port in (80, 443, 5000, 8080, 8443, 65535):
        AddressGuard().check_host("example.com", port)
    AddressGuard(ports=[range(25, 26)]).check_host("example.com", 25)


def _passes(address: str, guard: AddressGuard | None = None) -> bool:
    try:
        (guard or AddressGuard()).check([address])
    except AddressBlocked:
        return False
    return True
