"""Access tokens from a real OAuth 2.0 server, and what is sent without one: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hookfast.deliveries.outcome import Outcome, Result
from hookfast.endpoints.credentials import Access, Basic, Bearer, OAuth2
from hookfast.sender import AddressGuard, Sender
from tests.support.oauth2_server import Client, OAuth2Server
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

SECRET = "s3cr:t /+%ü"


@pytest.fixture
def server() -> Iterator[OAuth2Server]:
    with OAuth2Server(Client("hook:fast", (SECRET,))) as server:
        yield server


@pytest.fixture
def client(server: OAuth2Server) -> OAuth2:
    return OAuth2(server.url, "hook:fast", SECRET, scope="deliver")


@asynccontextmanager
async def guarded(accepts: Callable[[str | None], bool]) -> AsyncIterator[tuple[str, list[str]]]:
    """A receiver that answers 401 unless it accepts the request's `Authorization`."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                await reader.readexactly(2)
                lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
                given = lines.get("Authorization")
                seen.append(given or "")
                # without an application of OAuth 2.0 in between, so that it only judges the token
                status = b"200 OK" if accepts(given) else b"401 Unauthorized"
                writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()

    async with Receiver(serve=serve) as receiver:
        yield receiver.url(), seen


async def post(
    sender: Sender, url: str, *credentials: Basic | Bearer | OAuth2, timeout: float = PATIENCE
) -> Outcome:
    access = Access(authentication=credentials)
    return await sender.post(url, headers={}, body=b"{}", timeout=timeout, access=access)


@pytest.mark.parametrize("way", ["basic", "body"])
async def test_a_token_is_fetched_once_and_used_again(
    sender: Sender, server: OAuth2Server, client: OAuth2, way: str
) -> None:
    client = replace(client, client_authentication=way)  # type: ignore[arg-type]
    async with guarded(server.accepts) as (url, seen):
        outcomes = await asyncio.gather(*(post(sender, url, client) for _ in range(20)))
        outcomes += [await post(sender, url, client)]
    assert [outcome.result for outcome in outcomes] == [Result.SUCCESS] * 21
    assert server.requests["token"] == 1
    assert len(set(seen)) == 1


async def test_a_token_is_renewed_shortly_before_it_expires(
    sender: Sender, server: OAuth2Server, client: OAuth2
) -> None:
    server.lifetime = 1
    async with guarded(server.accepts) as (url, seen):
        await post(sender, url, client)
        await asyncio.sleep(0.85)  # it is valid for another 0.15 s
        assert (await post(sender, url, client)).succeeded
    assert server.requests["token"] == 2
    assert len(seen) == 2


async def test_a_revoked_token_is_renewed_once_within_the_attempt(
    sender: Sender, server: OAuth2Server, client: OAuth2
) -> None:
    async with guarded(server.accepts) as (url, seen):
        await post(sender, url, client)
        server.revoke_all()
        outcomes = await asyncio.gather(*(post(sender, url, client) for _ in range(10)))
    assert all(outcome.succeeded for outcome in outcomes)
    assert server.requests["token"] == 2  # one new token for all ten
    assert len(set(seen)) == 2


async def test_a_receiver_that_rejects_every_token_gets_two_requests(
    sender: Sender, server: OAuth2Server, client: OAuth2
) -> None:
    async with guarded(lambda _: False) as (url, seen):
        outcome = await post(sender, url, client)
    assert (outcome.result, outcome.status_code) == (Result.STATUS, 401)
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((400, '{"error": "invalid_scope"}'), "it does not allow the scope"),
        ((500, "<html>secret"), "it answered 500."),
        ((302, ""), "it answered 302."),
        ((200, "<html>secret"), "no valid `access_token`"),
        ((200, '{"access_token": "two lines\\r\\nX: 1"}'), "no valid `access_token`"),
        ((200, '{"access_token": 7}'), "no valid `access_token`"),
        ((200, '{"access_token": "a", "token_type": "mac"}'), "`token_type`"),
        ((401, '{"error": "<b>", "error_description": "secret"}'), "it answered 401."),
    ],
)
async def test_a_wrong_answer_fails_the_attempt_with_the_reason(
    sender: Sender, server: OAuth2Server, client: OAuth2, answer: tuple[int, str], words: str
) -> None:
    server.answer = answer
    async with guarded(server.accepts) as (url, seen):
        outcome = await post(sender, url, client)
    assert outcome.result is Result.CREDENTIALS
    assert outcome.error is not None
    assert words in outcome.error
    assert "secret" not in outcome.error
    assert seen == []


async def test_a_client_that_the_server_does_not_know_is_told_so(
    sender: Sender, client: OAuth2
) -> None:
    outcome = await post(sender, "http://127.0.0.1:1/", replace(client, client_secret="wrong"))
    assert outcome.error == (
        "The token endpoint gave no access token: it answered 401: "
        "it does not accept the client's id and secret."
    )


async def test_a_slow_server_costs_one_attempt_and_serves_the_next(
    sender: Sender, server: OAuth2Server, client: OAuth2
) -> None:
    server.delay = 0.5
    async with guarded(server.accepts) as (url, _):
        outcome = await post(sender, url, client, timeout=0.2)
        assert outcome.result is Result.TIMEOUT
        assert outcome.error is not None
        assert "the token endpoint did not give an access token in time" in outcome.error
        assert (await post(sender, url, client)).succeeded
    assert server.requests["token"] == 1


async def test_the_token_endpoint_is_guarded_like_every_address(client: OAuth2) -> None:
    async with Sender(guard=AddressGuard([])) as sender:
        outcome = await post(sender, "https://203.0.113.1/", client)
    assert outcome.result is Result.CREDENTIALS
    assert outcome.error == ("There is no access token: 127.0.0.1 is blocked (loopback).")


async def test_a_token_endpoint_that_is_not_there_is_named(
    sender: Sender, client: OAuth2, free_url: str
) -> None:
    outcome = await post(sender, "http://127.0.0.1:1/", replace(client, token_url=free_url))
    assert outcome.result is Result.CREDENTIALS
    assert outcome.error is not None
    assert outcome.error.startswith("There is no access token: Nothing is listening at 127.0.0.1:")


@pytest.fixture
async def free_url() -> str:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return f"http://127.0.0.1:{port}/"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Basic("shop", "old"), Basic("shop", "new: ü")),
        (Bearer("old"), Bearer("new")),
        (Basic("shop", "old"), Bearer("new")),
    ],
)
async def test_during_the_overlap_either_credential_works(
    sender: Sender, old: Basic | Bearer, new: Basic | Bearer
) -> None:
    for known, requests in ((new, 1), (old, 2)):
        async with guarded(lambda given, known=known: given == known.authorization) as (url, seen):
            assert (await post(sender, url, new, old)).succeeded
        assert len(seen) == requests
    async with guarded(lambda _: False) as (url, seen):
        assert (await post(sender, url, new, old)).status_code == 401
    assert seen == [new.authorization, old.authorization]


async def test_during_the_overlap_the_old_client_secret_gets_a_token(
    sender: Sender, server: OAuth2Server, client: OAuth2
) -> None:
    async with guarded(server.accepts) as (url, _):
        assert (await post(sender, url, replace(client, client_secret="new"), client)).succeeded
        server.clients["hook:fast"].secrets = ("new",)
        server.revoke_all()
        assert (await post(sender, url, replace(client, client_secret="new"), client)).succeeded


async def test_credentials_replace_a_header_of_the_request(sender: Sender) -> None:
    async with guarded(lambda _: True) as (url, seen):
        await sender.post(
            url,
            headers={"authorization": "Bearer other"},
            body=b"{}",
            timeout=PATIENCE,
            access=Access((Bearer("own"),)),
        )
    assert seen == ["Bearer own"]


async def test_credentials_are_masked_in_the_answer_of_a_receiver_that_repeats_them(
    sender: Sender, server: OAuth2Server, client: OAuth2
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        [given] = [line for line in head.split(b"\r\n") if line.startswith(b"Authorization")]
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nX-" + given + b"\r\n\r\n" + head)
        writer.close()

    async with Receiver(serve=serve) as receiver:
        for credential in (client, Basic("shop", SECRET), Bearer("t0ken")):
            outcome = await post(sender, receiver.url(), credential)
            assert outcome.evidence is not None
            for kept in (outcome.response_excerpt, outcome.evidence.response_headers):
                assert kept is not None
                assert "Authorization: " in kept
                assert " ***" in kept
                basic = Basic("shop", SECRET).authorization.removeprefix("Basic ")
                assert not [value for value in (*server.tokens, "t0ken", basic) if value in kept]
