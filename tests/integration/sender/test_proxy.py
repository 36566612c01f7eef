"""Requests through a real egress proxy, Debian's tinyproxy."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme
from structlog.testing import capture_logs

from hookfast.deliveries.outcome import Result
from hookfast.endpoints.credentials import Access, OAuth2
from hookfast.sender import AddressGuard, EgressUnavailable, Sender
from hookfast.sender.resolver import Lookup
from hookfast.settings.egress_proxy import EgressProxy
from tests.e2e.service_process import free_ports
from tests.integration.sender.conftest import LOOPBACK, post
from tests.support.oauth2_server import Client, OAuth2Server
from tests.support.receiver import Receiver
from tests.support.tinyproxy import PASSWORD, TinyProxy

pytestmark = pytest.mark.anyio


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[TinyProxy]:
    async with TinyProxy(tmp_path) as proxy:
        yield proxy


def _loopback(_: str) -> Sequence[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def sending(
    proxy: EgressProxy, lookup: Lookup = _loopback, *, ssl_context: ssl.SSLContext | None = None
) -> AsyncIterator[Sender]:
    """Create a sender that uses this proxy, and by default resolves every name to loopback."""
    async with Sender(
        guard=AddressGuard(LOOPBACK), lookup=lookup, ssl_context=ssl_context, proxy=proxy
    ) as sender:
        yield sender


@pytest.mark.parametrize("tls", [True, False])
async def test_requests_share_a_tunnel_to_the_judged_address(
    proxy: TinyProxy, authority: trustme.CA, trusting: ssl.SSLContext, tls: bool
) -> None:
    names = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("hooks.example").configure_cert(context)
    context.sni_callback = lambda connection, name, context: names.append(name)
    async with (
        Receiver(ssl_context=context if tls else None) as receiver,
        sending(proxy.parsed, ssl_context=trusting) as sender,
    ):
        outcomes = [await post(sender, receiver.url(host="hooks.example")) for _ in range(3)]
    assert [outcome.result for outcome in outcomes] == [Result.SUCCESS] * 3
    assert [request.connection for request in receiver.requests] == [1] * 3
    assert receiver.requests[0].headers["host"] == f"hooks.example:{receiver.port}"
    assert "proxy-authorization" not in receiver.requests[0].headers
    assert names == ["hooks.example"] * tls
    assert proxy.asked == [f"127.0.0.1:{receiver.port}"]


@pytest.mark.parametrize("tls", [True, False])
async def test_long_body_passes_the_tunnel_whole(
    proxy: TinyProxy, authority: trustme.CA, trusting: ssl.SSLContext, tls: bool
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("hooks.example").configure_cert(context)
    body = bytes(range(256)) * 20_000
    async with (
        Receiver(ssl_context=context if tls else None) as receiver,
        sending(proxy.parsed, ssl_context=trusting) as sender,
    ):
        url = receiver.url(host="hooks.example")
        for _ in range(2):
            outcome = await sender.post(url, headers={}, body=body, timeout=30.0)
            assert outcome.status_code == 200
    assert [request.body == body for request in receiver.requests] == [True, True]
    assert [request.connection for request in receiver.requests] == [1, 1]


async def test_a_certificate_for_another_name_is_rejected_through_the_proxy(
    proxy: TinyProxy, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("other.example").configure_cert(context)
    async with (
        Receiver(ssl_context=context) as receiver,
        sending(proxy.parsed, ssl_context=trusting) as sender,
    ):
        outcome = await post(sender, receiver.url(host="hooks.example"))
    assert outcome.result is Result.TLS
    assert outcome.error == (
        f"The certificate of hooks.example:{receiver.port} is for another host name."
    )
    assert receiver.requests == []


async def test_the_proxy_is_not_asked_for_a_blocked_address(
    proxy: TinyProxy, receiver: Receiver
) -> None:
    answers = [["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1", "169.254.169.254"], ["::1"]]
    async with sending(proxy.parsed, lambda _: answers.pop(0)) as sender:
        results = []
        for _ in range(3):  # the name's addresses change with each look-up
            results.append(await post(sender, receiver.url("/close-after", host="x.example")))
            await asyncio.sleep(0.05)  # the close arrives
        results.append(await post(sender, receiver.url(host="10.1.2.3")))
    assert [outcome.result for outcome in results] == [Result.SUCCESS] + [Result.ADDRESS] * 3
    assert proxy.asked == [f"127.0.0.1:{receiver.port}"]


async def test_the_next_address_is_tried_when_the_proxy_does_not_reach_one(
    proxy: TinyProxy, receiver: Receiver
) -> None:
    # nothing listens at 127.0.0.2
    async with sending(proxy.parsed, lambda _: ["127.0.0.2", "127.0.0.1"]) as sender:
        assert (await post(sender, receiver.url(host="x.example"))).succeeded
    assert proxy.asked == [f"127.0.0.2:{receiver.port}", f"127.0.0.1:{receiver.port}"]


async def test_a_receiver_that_the_proxy_does_not_reach_is_a_failed_attempt(
    proxy: TinyProxy,
) -> None:
    (port,) = free_ports(1)
    async with sending(proxy.parsed) as sender:
        outcome = await post(sender, f"http://x.example:{port}/")
    assert outcome.result is Result.UNREACHABLE
    assert outcome.error == f"The egress proxy could not connect to x.example:{port} (500)."


async def test_a_port_that_the_proxy_forbids_is_a_failed_attempt(
    tmp_path: Path, receiver: Receiver
) -> None:
    async with TinyProxy(tmp_path, ports=(443,)) as proxy, sending(proxy.parsed) as sender:
        outcome = await post(sender, receiver.url(host="x.example"))
    assert outcome.result is Result.UNREACHABLE
    assert outcome.error == (
        f"The egress proxy refused to connect to x.example:{receiver.port} (403)."
    )
    assert receiver.connections == 0


@pytest.mark.parametrize(
    ("credentials", "status"),
    [(None, "407 Proxy Authentication Required"), (f"hook:x{PASSWORD}", "401 Unauthorized")],
)
async def test_rejected_credentials_are_no_attempt_and_are_shown_nowhere(
    proxy: TinyProxy, receiver: Receiver, credentials: str | None, status: str
) -> None:
    given = replace(proxy.parsed, credentials=credentials)
    with capture_logs() as lines:
        async with sending(given) as sender:
            for _ in range(2):
                with pytest.raises(EgressUnavailable) as caught:
                    await post(sender, receiver.url())
    assert caught.value.message == (
        f"The egress proxy does not work: it rejects our requests ({status}). Nothing was sent."
    )
    assert receiver.connections == 0
    # for the operator, once; the message is for tenants and names no address
    assert [line["proxy"] for line in lines if "proxy" in line] == [f"127.0.0.1:{proxy.port}"]
    authorization = proxy.parsed.authorization or ""
    for shown in (str(lines), repr(caught.value), repr(given), str(given)):
        assert PASSWORD not in shown
        assert authorization.removeprefix("Basic ") not in shown


async def test_access_tokens_come_through_the_proxy_too(
    proxy: TinyProxy, receiver: Receiver
) -> None:
    with OAuth2Server(Client("hook", ("secret",))) as server:
        access = Access((OAuth2(server.url, "hook", "secret"),))
        async with sending(proxy.parsed) as sender:
            assert (await post(sender, receiver.url(), access=access)).succeeded
            asked = proxy.asked
            await proxy.stop()
        async with sending(proxy.parsed) as sender:  # its token is our own trouble alike
            with pytest.raises(EgressUnavailable, match="cannot be reached"):
                await post(sender, receiver.url(), access=access)
    token_port = urlsplit(server.url).port
    assert asked == [f"127.0.0.1:{token_port}", f"127.0.0.1:{receiver.port}"]


async def test_requests_continue_when_the_proxy_is_back(
    proxy: TinyProxy, receiver: Receiver
) -> None:
    async with sending(proxy.parsed) as sender:
        assert (await post(sender, receiver.url())).succeeded
        await proxy.stop()
        with pytest.raises(EgressUnavailable, match="cannot be reached"):
            await post(sender, receiver.url())
        await proxy.start()
        assert (await post(sender, receiver.url())).succeeded
    assert len(receiver.requests) == 2
