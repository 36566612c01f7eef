"""Where deliveries may go."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.sender import AddressGuard, AddressRefused


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
def test_it_lets_a_public_address_pass(address: str) -> None:
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
def test_it_refuses_an_address_that_is_not_public_and_names_the_rule(
    address: str, rule: str
) -> None:
    with pytest.raises(AddressRefused) as refused:
        AddressGuard().check([address])
    assert (refused.value.address, refused.value.rule) == (address, rule)


def test_one_bad_answer_spoils_the_name() -> None:
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1"):
        AddressGuard().check(["8.8.8.8", "10.0.0.1", "1.1.1.1"])


def test_it_lets_an_allowed_private_network_pass_and_nothing_beside_it() -> None:
    guard = AddressGuard([ip_network("127.0.0.0/8"), ip_network("fd00::/8")])
    guard.check(["127.0.0.1", "fd00::1", "8.8.8.8"])
    for address in ("10.0.0.1", "::1", "fc00::1"):
        with pytest.raises(AddressRefused):
            guard.check([address])


def test_a_mapped_address_passes_only_where_its_ipv4_address_is_allowed() -> None:
    guard = AddressGuard([ip_network("127.0.0.0/8")])
    guard.check(["::ffff:127.0.0.1"])
    for address in ("::ffff:10.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1"):
        with pytest.raises(AddressRefused):
            guard.check([address])


def test_every_address_has_to_lie_within_the_endpoints_networks() -> None:
    guard = AddressGuard()
    within = [ip_network("8.8.8.0/24"), ip_network("2606:4700::/32")]
    guard.check(["8.8.8.8", "2606:4700::1"], within=within)
    with pytest.raises(AddressRefused, match="outside the endpoint's allowed networks"):
        guard.check(["8.8.8.8", "1.1.1.1"], within=within)


def test_the_endpoints_networks_lift_no_deny_rule() -> None:
    with pytest.raises(AddressRefused, match="private"):
        AddressGuard().check(["10.0.0.1"], within=[ip_network("10.0.0.0/8")])


def test_both_the_operator_and_the_endpoint_have_to_allow_a_private_address() -> None:
    guard = AddressGuard([ip_network("10.0.0.0/8")])
    guard.check(["10.1.0.1", "::ffff:10.1.0.1"], within=[ip_network("10.1.0.0/16")])
    with pytest.raises(AddressRefused, match="outside"):
        guard.check(["10.2.0.1"], within=[ip_network("10.1.0.0/16")])


@given(st.ip_addresses(v=4))
def test_it_passes_no_ipv4_address_that_python_calls_special(address: IPv4Address) -> None:
    if _passes(str(address)):
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=6))
def test_it_passes_no_ipv6_address_that_embeds_or_is_special(address: IPv6Address) -> None:
    if _passes(str(address)):
        assert address.is_global
        assert address.sixtofour is None
        assert address.teredo is None
        assert address.ipv4_mapped is None


def _passes(address: str) -> bool:
    try:
        AddressGuard().check([address])
    except AddressRefused:
        return False
    return True
