"""The service's own address is not a receiver."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from hookfast.errors import InvalidInput, Misconfigured
from hookfast.sender import AddressBlocked, AddressGuard, OwnAddress, check_url

PUBLIC = "https://Hooks.Example.com./base"


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/in/src_1",
        "http://hooks.example.com/in/src_1",
        "https://HOOKS.example.COM:8443",
    ],
)
def test_public_host_is_rejected_with_any_scheme_and_port(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"^hooks\.example\.com is this service's own") as found:
        OwnAddress.of(PUBLIC).reject(check_url(url, allow_http=True), pointer="/token_url")
    assert found.value.code == "own_address"
    assert [error.pointer for error in found.value.errors] == ["/token_url"]


@pytest.mark.parametrize(
    "public_url", ["https://bücher.example", "https://xn--bcher-kva.example:8443/"]
)
@pytest.mark.parametrize("url", ["https://bücher.example/", "https://XN--BCHER-KVA.example/"])
def test_host_is_compared_in_its_ascii_form(public_url: str, url: str) -> None:
    with pytest.raises(InvalidInput, match="own address"):
        OwnAddress.of(public_url).reject(check_url(url, allow_http=False))


@pytest.mark.parametrize(
    "url", ["https://example.com/", "https://a.hooks.example.com/", "https://hooks.example.com.au/"]
)
def test_other_hosts_are_allowed(url: str) -> None:
    OwnAddress.of(PUBLIC).reject(url)


@pytest.mark.parametrize(
    ("public_url", "host", "port", "covered"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("http://127.0.0.1:8080", "localhost", 8080, True),
        ("http://127.0.0.1:8080", "::ffff:7f00:1", 8080, True),
        ("http://localhost:8080", "::ffff:7f00:2", 8080, True),
        ("http://localhost:8080", "::ffff:127.0.0.1", 8080, True),
        ("http://localhost:8080", "::127.0.0.1", 8080, True),
        ("http://localhost:8080", "::ffff:0:127.0.0.1", 8080, True),
        ("http://localhost:8080", "64:ff9b::127.0.0.1", 8080, True),
        ("http://localhost:8080", "64:ff9b:1::7f00:1", 8080, True),
        ("http://localhost:8080", "2002:7f00:1::1", 8080, True),
        ("http://localhost:8080", "2001:0:7f00:1::", 8080, True),  # Teredo's server
        ("http://localhost:8080", str(ip_address(0)), 8080, True),
        ("http://localhost:8080", "::", 8080, True),
        ("http://localhost:8080", "::ffff:0.0.0.0", 8080, True),
        ("http://localhost:8080", "::1%1", 8080, True),
        ("http://[::ffff:127.0.0.1]:8080", "::1", 8080, True),
        ("http://localhost:8080", "a.localhost", 8080, True),
        ("http://localhost:8080", "ip6-localhost", 8080, True),
        ("http://127.0.0.1:8080", "localhost.localdomain", 8080, True),
        ("http://localhost:8080", "::ffff:127.0.0.1", 8081, False),
        ("http://localhost:8080", "::ffff:10.0.0.5", 8080, False),
        ("http://localhost:8080", "notlocalhost", 8080, False),
        ("http://10.0.0.5:8080", "::ffff:a00:5", 8080, True),
        ("http://10.0.0.5:8080", "64:ff9b::10.0.0.5", 8080, True),
        ("http://10.0.0.5:8080", "2002:a00:5::", 8080, True),
        ("https://8.8.8.8", "2002:808:808::1", 443, True),
        ("https://[2a00::1]", "2a00:0::1", 9000, True),
        ("http://[::ffff:10.0.0.5]:8080", "10.0.0.5", 8080, True),
        ("http://localhost:8080", "::1", 8080, True),
        ("http://[::1]:8080", "127.0.0.53", 8080, True),
        ("http://127.0.0.1:8080", "127.0.0.1", 3000, False),
        ("http://127.0.0.1:8080", "10.0.0.5", 8080, False),
        ("http://10.0.0.5:8080", "10.0.0.5", 8080, True),
        ("http://10.0.0.5:8080", "10.0.0.5", 8081, False),
        ("http://10.0.0.5", "10.0.0.5", 80, True),
        ("http://hookfast:8080", "hookfast", 8080, True),  # a name in a cluster
        ("http://hookfast:8080", "hookfast", 9000, False),
        ("http://hookfast:8080", "localhost", 8080, False),
        ("https://8.8.8.8", "8.8.8.8", 9000, True),
    ],
)
def test_on_a_private_host_only_the_services_port_is_its_own(
    public_url: str, host: str, port: int, covered: bool
) -> None:
    assert OwnAddress.of(public_url).covers(host, port) is covered


def test_guard_blocks_the_own_address_even_inside_an_allowed_network() -> None:
    loopback = [ip_network("127.0.0.0/8")]
    guard = AddressGuard(loopback, own=OwnAddress.of("http://127.0.0.1:8080"))
    with pytest.raises(AddressBlocked, match="this service's own address"):
        guard.check_host("127.0.0.1", 8080)
    guard.check_host("127.0.0.1", 8081)


def test_invalid_public_url_names_the_setting() -> None:
    with pytest.raises(Misconfigured, match="HOOKFAST_PUBLIC_URL"):
        OwnAddress.of("hooks.example.com")
