"""TLS: certificates are verified for the name in the URL, whatever its address is."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from hookfast.deliveries.outcome import Result
from hookfast.sender import AddressGuard, Sender
from hookfast.sender.tls import default_ssl_context
from tests.integration.sender.conftest import LOOPBACK, post
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def secure_receiver(certificate: trustme.LeafCert) -> AsyncIterator[Receiver]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    async with Receiver(ssl_context=context) as receiver:
        yield receiver


async def test_tls_connection_is_reused(sender: Sender, authority: trustme.CA) -> None:
    async with secure_receiver(authority.issue_cert("127.0.0.1")) as receiver:
        outcomes = [await post(sender, receiver.url("/body/60000")) for _ in range(3)]
    assert [outcome.result for outcome in outcomes] == [Result.SUCCESS] * 3
    assert receiver.connections == 1
    assert receiver.requests[0].body == b"{}"


async def test_only_http_1_1_is_offered_over_tls(sender: Sender, authority: trustme.CA) -> None:
    agreed = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        agreed.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2", "http/1.1"])
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with Receiver(serve=serve, ssl_context=context) as receiver:
        await post(sender, receiver.url())
    assert agreed == ["http/1.1"]


async def test_an_expired_certificate_fails_and_says_so(
    sender: Sender, authority: trustme.CA
) -> None:
    expired = authority.issue_cert(
        "127.0.0.1",
        not_before=datetime.now(UTC) - timedelta(days=2),
        not_after=datetime.now(UTC) - timedelta(days=1),
    )
    async with secure_receiver(expired) as receiver:
        outcome = await post(sender, receiver.url())
    assert outcome.result is Result.TLS
    assert outcome.error == f"The certificate of 127.0.0.1:{receiver.port} has expired."
    assert receiver.requests == []


async def test_a_certificate_for_another_host_fails_and_says_so(
    sender: Sender, authority: trustme.CA
) -> None:
    async with secure_receiver(authority.issue_cert("other.example")) as receiver:
        by_address = await post(sender, receiver.url())
        by_name = await post(sender, receiver.url(host="localhost"))
    assert by_address.error == (
        f"The certificate of 127.0.0.1:{receiver.port} is for another IP address."
    )
    assert by_name.error == (
        f"The certificate of localhost:{receiver.port} is for another host name."
    )
    assert {by_address.result, by_name.result} == {Result.TLS}


async def test_a_certificate_of_an_unknown_authority_fails_and_says_so(sender: Sender) -> None:
    async with secure_receiver(trustme.CA().issue_cert("127.0.0.1")) as receiver:
        outcome = await post(sender, receiver.url())
    assert outcome.result is Result.TLS
    assert outcome.error is not None
    assert "not trusted" in outcome.error


async def test_the_default_trust_store_does_not_know_a_private_authority(
    authority: trustme.CA,
) -> None:
    async with (
        secure_receiver(authority.issue_cert("127.0.0.1")) as receiver,
        Sender(guard=AddressGuard(LOOPBACK)) as sender,
    ):
        outcome = await post(sender, receiver.url())
    assert outcome.result is Result.TLS


def test_every_connection_verifies_certificate_and_name_and_speaks_tls_1_2_or_later() -> None:
    context = default_ssl_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


async def test_a_server_without_tls_fails_and_says_so(sender: Sender) -> None:
    async def banner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(banner, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        outcome = await post(sender, f"https://127.0.0.1:{port}/")
    assert outcome.result is Result.TLS
    assert outcome.error == f"127.0.0.1:{port} does not speak TLS."


async def test_plain_http_to_a_tls_port_fails(sender: Sender, authority: trustme.CA) -> None:
    async with secure_receiver(authority.issue_cert("127.0.0.1")) as receiver:
        outcome = await post(sender, receiver.url().replace("https://", "http://"))
    assert outcome.result in (Result.PROTOCOL, Result.RESET)  # servers alert, or just close


async def test_a_silent_tls_handshake_ends_at_the_deadline(
    sender: Sender,
) -> None:
    with socket.socket() as silent:  # the kernel accepts for it
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        port = silent.getsockname()[1]
        outcome = await post(sender, f"https://127.0.0.1:{port}/", timeout=0.3)
    assert outcome.result is Result.TIMEOUT
    assert outcome.error == (
        f"No answer within 0.3 s: the TLS handshake with 127.0.0.1:{port} did not finish in time."
    )


@pytest.mark.parametrize("path", ["/close", "/reset"])
async def test_a_broken_connection_is_a_reset_under_tls_too(
    sender: Sender, authority: trustme.CA, path: str
) -> None:
    async with secure_receiver(authority.issue_cert("127.0.0.1")) as receiver:
        outcome = await post(sender, receiver.url(path))
    assert outcome.result is Result.RESET


async def test_a_connection_that_the_server_closed_while_idle_is_not_used(
    sender: Sender, authority: trustme.CA
) -> None:
    async with secure_receiver(authority.issue_cert("127.0.0.1")) as receiver:
        await post(sender, receiver.url("/close-after"))
        assert (await post(sender, receiver.url())).succeeded
    assert receiver.connections == 2
