"""What an outcome keeps of the request as it was sent, and of the answer's headers."""

from __future__ import annotations

import asyncio

import pytest

from hookfast.deliveries.evidence import Evidence, header_pairs
from hookfast.deliveries.outcome import Outcome, Result
from hookfast.endpoints.credentials import Access, Basic, OAuth2
from hookfast.sender import AddressGuard, Sender
from tests.integration.sender.conftest import LOOPBACK, post
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

MASK = "***"
SECRET = "hunter2"


def evidence(outcome: Outcome) -> Evidence:
    assert outcome.evidence is not None
    return outcome.evidence


def sent(outcome: Outcome) -> list[tuple[str, str]] | None:
    return header_pairs(evidence(outcome).request_headers)


def received(outcome: Outcome) -> list[tuple[str, str]] | None:
    return header_pairs(evidence(outcome).response_headers)


async def test_it_has_the_url_and_the_headers_that_the_receiver_got(
    sender: Sender, receiver: Receiver
) -> None:
    url = receiver.url("/cookie?key=%7e1")
    outcome = await sender.post(
        url,
        headers={"x-env": SECRET, "X-Hook-Id": "dlv_1", "X-GitHub-Event": "push"},
        body=b"{}",
        timeout=PATIENCE,
        access=Access(authentication=(Basic("user", SECRET),)),
        public_headers={"x-github-event"},
    )
    assert evidence(outcome).url == url
    [request] = receiver.requests
    assert request.headers["x-env"] == SECRET
    masked = {"x-env", "Authorization"}
    assert sent(outcome) == [
        (name, MASK if name in masked else value) for name, value in request.raw_headers
    ]
    assert masked < {name for name, _ in request.raw_headers}
    assert dict(received(outcome) or ()) == {"Content-Length": "2", "Set-Cookie": MASK}


async def test_a_request_that_was_repeated_has_one_evidence(
    sender: Sender, receiver: Receiver
) -> None:
    old, new = Basic("old", SECRET), Basic("new", SECRET)
    outcome = await post(
        sender, receiver.url("/status/401"), access=Access(authentication=(new, old))
    )
    assert len(receiver.requests) == 2
    assert outcome.status_code == 401
    names = [name for name, _ in receiver.requests[1].raw_headers]
    assert [name for name, _ in sent(outcome) or ()] == names
    assert dict(sent(outcome) or ())["Authorization"] == MASK
    assert dict(received(outcome) or ())["Content-Length"] == "10"


async def test_without_an_answer_only_the_request_is_known(
    sender: Sender, receiver: Receiver
) -> None:
    outcome = await post(sender, receiver.url("/reset"))
    assert outcome.result is Result.RESET
    assert dict(sent(outcome) or ())["Content-Length"] == "2"
    assert received(outcome) is None


async def test_without_a_request_only_the_url_is_known(sender: Sender) -> None:
    async with Receiver() as gone:
        url = gone.url()
        await post(sender, url)  # nothing of it is left
    for access in (Access(), Access(authentication=(OAuth2(url, "client", SECRET),))):
        outcome = await post(sender, url, access=access)
        assert outcome.result in (Result.REFUSED, Result.CREDENTIALS)
        assert evidence(outcome) == Evidence(url)


@pytest.mark.parametrize("limit", [0, 100])
async def test_the_headers_are_kept_up_to_the_limit(receiver: Receiver, limit: int) -> None:
    async with Sender(guard=AddressGuard(LOOPBACK), header_bytes=limit) as sender:
        outcome = await sender.post(
            receiver.url(),
            headers={"X-Env": "x", "X-Hook-Id": "d" * 99},
            body=b"",
            timeout=PATIENCE,
        )
    if not limit:
        assert evidence(outcome) == Evidence(receiver.url())
        return
    assert sent(outcome) == [
        ("Host", f"127.0.0.1:{receiver.port}"),
        ("Accept-Encoding", "identity"),
        ("X-Env", MASK),
        ("…", "2 more"),
    ]


async def test_hostile_headers_are_text_that_every_database_can_store(sender: Sender) -> None:
    odd = b"a\xff\xed\xa0\x80b\xe2\x80\xa8c\x1b[31m"
    lines = b"".join(b"X-%d: %b\r\n" % (number, b"x" * 2000) for number in range(30))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nX-Odd: %b\r\n%bContent-Length: 0\r\n\r\n" % (odd, lines))

    async with Receiver(serve=serve) as receiver:
        outcome = await post(sender, receiver.url())
    assert outcome.succeeded
    first, *others, last = received(outcome) or ()
    assert first == ("X-Odd", "a\ufffd\ufffd\ufffd\ufffdb\u2028c\x1b[31m")
    assert others == [(f"X-{number}", "x" * 1024 + "…") for number in range(3)]
    assert last == ("…", "28 more")
