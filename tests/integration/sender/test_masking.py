"""What is kept of the answers of receivers that repeat the secrets of a request."""

from __future__ import annotations

import asyncio
import base64
from urllib.parse import quote

import pytest

from hookfast.deliveries.outcome import Outcome, Result
from hookfast.endpoints.credentials import Access, Basic, Bearer, OAuth2
from hookfast.errors import InvalidInput
from hookfast.sender import AddressGuard, Sender, verify_endpoint
from tests.integration.sender.conftest import LOOPBACK
from tests.support.oauth2_server import Client, OAuth2Server
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

API_KEY, TOKEN, PASSWORD = "k3y/With+odd=chars", "t0ken-of-customer", "pässwörd-4711"
HEADERS = {"X-Api-Key": API_KEY, "X-Auth": f"Token {TOKEN}"}
ACCESS = Access((Basic("accounting", PASSWORD),), sealed=tuple(HEADERS.values()))
PAIR = base64.b64encode(f"accounting:{PASSWORD}".encode()).decode()


async def send(sender: Sender, url: str, access: Access = ACCESS) -> Outcome:
    return await sender.post(
        url, headers=HEADERS, body=b"{}", timeout=PATIENCE, access=access, public_headers=()
    )


def kept(outcome: Outcome) -> str:
    """Everything that is stored with an attempt, as text."""
    return repr(outcome)


def secrets_in(text: str) -> list[str]:
    needles = (API_KEY, quote(API_KEY, safe=""), TOKEN, PASSWORD, ascii(PASSWORD), PAIR)
    return [needle for needle in (*needles, "accounting") if needle in text]


@pytest.mark.parametrize("status", [200, 401, 500])
async def test_a_repeated_request_shows_no_secret(
    sender: Sender, receiver: Receiver, status: int
) -> None:
    outcome = await send(sender, receiver.url(f"/repeat?status={status}"))
    assert outcome.status_code == status
    assert outcome.response_excerpt is not None
    assert outcome.evidence is not None
    assert '"X-Api-Key": "***"' in outcome.response_excerpt
    assert '"user": "***"' in outcome.response_excerpt
    assert "X-Got-X-Auth: ***" in (outcome.evidence.response_headers or "")
    assert "X-Got-Host: 127.0.0.1" in (outcome.evidence.response_headers or "")
    assert secrets_in(kept(outcome)) == []


async def test_access_tokens_and_client_secrets_are_masked(
    sender: Sender, receiver: Receiver
) -> None:
    secret = "cl1ent-secret-4711"
    with OAuth2Server(Client("hookfast", (secret,))) as server:
        client = OAuth2(server.url, "hookfast", secret)
        old = Bearer("replaced-t0ken")
        for status in (200, 401):
            outcome = await send(
                sender,
                receiver.url(f"/repeat?status={status}&{secret}"),
                Access((client, old), sealed=tuple(HEADERS.values())),
            )
            assert outcome.status_code == status
            repeated = outcome.response_excerpt or ""
            assert '"Authorization": "Bearer ***"' in repeated
            assert not [one for one in (*server.tokens, old.token) if one in kept(outcome)]
            assert secrets_in(kept(outcome)) == []


@pytest.mark.parametrize("way", ["basic", "body"])
async def test_a_token_endpoint_that_repeats_its_request_shows_no_secret(
    sender: Sender, receiver: Receiver, way: str
) -> None:
    for path in ("/repeat?status=400", "/repeat", "/echo"):
        client = OAuth2(
            receiver.url(path),
            "hookfast",
            PASSWORD,
            client_authentication=way,  # type: ignore[arg-type]
        )
        outcome = await send(sender, receiver.url(), Access((client,)))
        assert outcome.result is Result.CREDENTIALS
        assert secrets_in(kept(outcome)) == []


async def test_a_secret_in_pieces_is_masked(sender: Sender) -> None:
    """In chunks, across the end of the excerpt, and across the 64 KiB that are read."""
    for before in (0, 2040, 65_500):
        body = b"-" * before + API_KEY.encode() + b"!"

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes = body
        ) -> None:
            await reader.readuntil(b"{}")
            writer.write(b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n")
            for byte in body:
                writer.write(b"1\r\n%c\r\n" % byte)
            writer.write(b"0\r\n\r\n")

        async with Receiver(serve=serve) as receiver:
            for excerpt_bytes in (2048, 65_536):
                guard = AddressGuard(LOOPBACK)
                async with Sender(guard=guard, excerpt_bytes=excerpt_bytes) as sender:
                    outcome = await send(sender, receiver.url())
                assert outcome.response_excerpt is not None
                shown = outcome.response_excerpt.lstrip("-")
                assert shown in ("***!", "***", "")
                assert len(outcome.response_excerpt) <= excerpt_bytes


async def test_a_secret_in_the_name_of_a_header_or_in_a_long_one_is_masked(sender: Sender) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        lines = b"X-%b: 1\r\nX-Long: %b%b\r\n" % (TOKEN.encode(), b"-" * 1020, API_KEY.encode())
        writer.write(b"HTTP/1.1 200 OK\r\n" + lines + b"Content-Length: 0\r\n\r\n")

    async with Receiver(serve=serve) as receiver:
        outcome = await send(sender, receiver.url())
    assert outcome.evidence is not None
    lines = (outcome.evidence.response_headers or "").split("\n")
    assert lines == ["X-***: 1", "X-Long: " + "-" * 1020 + "***…", "Content-Length: 0"]


async def test_the_headers_that_are_left_out_are_counted_also_beside_masked_ones(
    receiver: Receiver,
) -> None:
    async with Sender(guard=AddressGuard(LOOPBACK), header_bytes=150) as sender:
        outcome = await send(sender, receiver.url("/repeat"))
    assert outcome.evidence is not None
    *lines, last = (outcome.evidence.response_headers or "").split("\n")
    assert "X-Got-X-Api-Key: ***" in lines
    assert last.endswith(" more")
    assert secrets_in(kept(outcome)) == []


@pytest.mark.parametrize("mode", ["header", "query"])
async def test_verification_compares_the_answer_as_it_came(
    sender: Sender, receiver: Receiver, mode: str
) -> None:
    # the user's name is a part of the challenge
    access = Access((Basic("customer", "s3cret-4711"),))
    path = "/challenge" if mode == "header" else "/challenge-query"
    options = {"tenant_id": "tnt_1", "topics": ["customer.order.paid"], "access": access}
    await verify_endpoint(sender, mode=mode, url=receiver.url(path), **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput) as failed:
        await verify_endpoint(
            sender,
            mode=mode,  # type: ignore[arg-type]
            url=receiver.url("/fixed-challenge/tnt_1.***.order.paid"),
            **options,  # type: ignore[arg-type]
        )
    assert "s3cret-4711" not in repr(failed.value.errors)
