"""The client's address: the peer's, or the one that a trusted proxy forwards."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from starlette.types import Message, Receive, Scope, Send

from api.access.client_address import Sites, TrustedProxies, client_address, client_site

pytestmark = pytest.mark.anyio

PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/48")]
CLIENT = "203.0.113.7"
PROXY = "10.0.0.1"


def scope_of(peer: str | None, **headers: str) -> Scope:
    return {
        "type": "http",
        "scheme": "http",
        "client": None if peer is None else (peer, 1234),
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ],
    }


async def seen(scope: Scope) -> Scope:
    """Return the scope that the application gets behind the middleware."""
    found: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(scope)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError("nothing is answered here")

    await TrustedProxies(app, networks=PROXIES)(scope, receive, send)
    return found[0]


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        # headers of an untrusted peer are ignored
        (CLIENT, "198.51.100.1", CLIENT),
        (CLIENT, PROXY, CLIENT),
        # headers of a trusted proxy are used
        (PROXY, CLIENT, CLIENT),
        (PROXY, f"{CLIENT}:443", CLIENT),
        (PROXY, "2001:db8:2::7", "2001:db8:2::7"),
        (PROXY, "[2001:db8:2::7]:443", "2001:db8:2::7"),
        ("::ffff:10.0.0.1", CLIENT, CLIENT),
        ("2001:db8:1::1", CLIENT, CLIENT),
        # up to the first untrusted hop: the client may have written everything left of it
        (PROXY, f"198.51.100.1, {CLIENT}", CLIENT),
        (PROXY, f"198.51.100.1, {CLIENT}, 10.0.0.2, 2001:db8:1::2", CLIENT),
        # all hops trusted: the one farthest from us
        (PROXY, "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        # a hop that is not an address ends the search
        (PROXY, "198.51.100.1, unknown", PROXY),
        (PROXY, "198.51.100.1, unknown, 10.0.0.2", "10.0.0.2"),
        (PROXY, "", PROXY),
        (PROXY, ",,,", PROXY),
        (PROXY, "203.0.113.7.1", PROXY),
        (PROXY, "1.2.3.4:5:6", PROXY),
        # a chain longer than any real one is read only from the right
        (PROXY, f"{CLIENT}, " + ", ".join([PROXY] * 1000), PROXY),
    ],
)
async def test_the_rightmost_hop_that_is_not_a_trusted_proxy_is_the_client(
    peer: str, forwarded_for: str, client: str
) -> None:
    assert client_address(await seen(scope_of(peer, x_forwarded_for=forwarded_for))) == client


async def test_several_headers_are_one_list() -> None:
    scope = scope_of(PROXY)
    scope["headers"] = [
        (b"x-forwarded-for", b"198.51.100.1"),
        (b"x-forwarded-for", CLIENT.encode()),
    ]
    assert client_address(await seen(scope)) == CLIENT


@pytest.mark.parametrize(
    ("peer", "told", "scheme"),
    [
        (CLIENT, "https", "http"),
        (PROXY, "https", "https"),
        (PROXY, "HTTPS", "https"),
        (PROXY, "http", "http"),
        (PROXY, "http, https", "https"),
        (PROXY, "https, http", "http"),
        (PROXY, "ftp", "http"),
        (PROXY, "", "http"),
    ],
)
async def test_only_a_trusted_proxy_can_set_the_scheme(peer: str, told: str, scheme: str) -> None:
    assert (await seen(scope_of(peer, x_forwarded_proto=told)))["scheme"] == scheme


async def test_a_websocket_behind_https_is_wss() -> None:
    scope = {**scope_of(PROXY, x_forwarded_proto="https"), "type": "websocket", "scheme": "ws"}
    assert (await seen(scope))["scheme"] == "wss"


async def test_lifespan_events_are_passed_through() -> None:
    assert await seen({"type": "lifespan"}) == {"type": "lifespan"}


@pytest.mark.parametrize(
    ("peer", "address", "site"),
    [
        (CLIENT, CLIENT, CLIENT),
        ("::ffff:203.0.113.7", CLIENT, CLIENT),
        ("2001:DB8:0:7::1", "2001:db8:0:7::1", "2001:db8:0:7::/64"),
        ("2001:db8:0:7:ffff::2", "2001:db8:0:7:ffff::2", "2001:db8:0:7::/64"),
        ("2001:db8:0:8::1", "2001:db8:0:8::1", "2001:db8:0:8::/64"),
        ("fe80::1%eth0", "fe80::1", "fe80::/64"),
        ("::1", "::1", "::/64"),
        ("testclient", None, ""),
        (None, None, ""),
    ],
)
def test_clients_are_counted_by_ipv4_address_or_ipv6_site(
    peer: str | None, address: str | None, site: str
) -> None:
    scope = scope_of(peer)
    assert client_address(scope) == address
    assert client_site(scope) == site


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8::7", "2001:db8::/64"),
        ("2001:db8::8%eth0", "2001:db8::/64"),
        # these may be anybody
        (PROXY, None),
        (f"::ffff:{PROXY}", None),
        ("2001:db8:1::1", None),
        (None, None),
        ("unix", None),
    ],
)
def test_site_of_an_address_is_unknown_if_it_is_a_proxys(
    address: str | None, site: str | None
) -> None:
    assert Sites(PROXIES).of(address) == site
