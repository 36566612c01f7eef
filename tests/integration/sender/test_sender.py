"""The requests that the sender sends, and the outcome of every response."""

from __future__ import annotations

import asyncio
import socket
import time
from datetime import UTC, datetime
from ipaddress import ip_network
from urllib.parse import quote

import pytest

from hookfast.deliveries.outcome import Outcome, Result
from hookfast.sender import AddressGuard, Sender
from tests.integration.sender.conftest import LOOPBACK
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE, within

pytestmark = pytest.mark.anyio


async def post(sender: Sender, url: str, *, timeout: float = PATIENCE) -> Outcome:
    return await sender.post(
        url, headers={"X-Hook-Id": "dlv_1"}, body=b'{"paid":true}', timeout=timeout
    )


async def test_sends_exactly_the_given_headers_and_body(sender: Sender, receiver: Receiver) -> None:
    body = b'{"a": "\xc3\xbc"}\n'
    outcome = await sender.post(
        receiver.url("/hook?x=1"), headers={"X-Hook-Id": "dlv_1"}, body=body, timeout=PATIENCE
    )
    assert outcome.result is Result.SUCCESS
    assert (outcome.status_code, outcome.error, outcome.response_excerpt) == (200, None, "ok")
    assert outcome.duration_ms > 0
    [request] = receiver.requests
    assert (request.method, request.path, request.body) == ("POST", "/hook?x=1", body)
    assert request.raw_headers == (
        ("Host", f"127.0.0.1:{receiver.port}"),
        ("Accept-Encoding", "identity"),
        ("X-Hook-Id", "dlv_1"),
        ("Content-Length", str(len(body))),
    )


async def test_header_values_that_are_not_ascii_are_sent_as_their_bytes(
    sender: Sender, receiver: Receiver
) -> None:
    headers = {"X-Name": "M\xfcller", "X-Tab": "a\tb", "X-Empty": ""}
    outcome = await sender.post(receiver.url(), headers=headers, body=b"", timeout=PATIENCE)
    assert outcome.result is Result.SUCCESS
    [request] = receiver.requests
    assert {**headers}.items() <= dict(request.raw_headers).items()


async def test_the_senders_own_headers_override_the_callers(
    sender: Sender, receiver: Receiver
) -> None:
    theirs = {"host": "evil.example", "CONTENT-LENGTH": "1", "Transfer-Encoding": "chunked"}
    await sender.post(receiver.url(), headers=theirs, body=b"{}", timeout=PATIENCE)
    [request] = receiver.requests
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert request.body == b"{}"
    assert "transfer-encoding" not in request.headers


async def test_a_header_that_would_split_the_request_is_a_failed_attempt_that_sends_nothing(
    sender: Sender, receiver: Receiver
) -> None:
    outcome = await sender.post(
        receiver.url(), headers={"X": "secret\r\nY: b"}, body=b"", timeout=PATIENCE
    )
    assert (outcome.result, outcome.status_code) == (Result.INTERNAL, None)
    assert "(InvalidRequest)" in (outcome.error or "")
    assert "secret" not in (outcome.error or "")
    assert receiver.requests == []


@pytest.mark.parametrize("size", [0, 1, 100_000, 1_500_000])
async def test_every_byte_of_a_body_is_delivered(
    sender: Sender, receiver: Receiver, size: int
) -> None:
    outcome = await sender.post(receiver.url(), headers={}, body=b"x" * size, timeout=PATIENCE)
    assert outcome.succeeded
    assert receiver.requests[0].body == b"x" * size


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_every_2xx_is_a_success(sender: Sender, receiver: Receiver, status: int) -> None:
    outcome = await post(sender, receiver.url(f"/status/{status}"))
    assert (outcome.result, outcome.status_code) == (Result.SUCCESS, status)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (304, "The server answered 304 Not Modified."),
        (302, "The server answered 302 Found; redirects are not followed."),
        (400, "The server answered 400 Bad Request."),
        (410, "The server answered 410 Gone."),
        (503, "The server answered 503 Service Unavailable."),
        (799, "The server answered 799."),
    ],
)
async def test_every_other_status_is_a_failure_with_that_status(
    sender: Sender, receiver: Receiver, status: int, error: str
) -> None:
    outcome = await post(sender, receiver.url(f"/status/{status}"))
    assert (outcome.result, outcome.status_code, outcome.error) == (Result.STATUS, status, error)


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("/retry-after/120", 120.0),
        ("/retry-after/120?status=429", 120.0),
        ("/retry-after/Fri,%2020%20Nov%202026%2012:01:30%20GMT", 90.0),
        ("/retry-after/soon", None),
        ("/retry-after/120?status=500", None),
        ("/retry-after/120?status=200", None),
        ("/status/503", None),
    ],
)
async def test_retry_after_counts_only_with_429_and_503(
    receiver: Receiver, path: str, action: float | None
) -> None:
    def noon() -> datetime:
        return datetime(2026, 11, 20, 12, tzinfo=UTC)

    async with Sender(guard=AddressGuard(LOOPBACK), clock=noon) as sender:
        outcome = await post(sender, receiver.url(path))
    assert outcome.retry_after_seconds == action


@pytest.mark.parametrize(
    ("raw", "excerpt"),
    [
        ("", ""),
        ("%C3%BC", "ü"),
        ("a%00b", "a\ufffdb"),
        ("a%FFb", "a\ufffdb"),
        ("%ED%A0%80", "\ufffd\ufffd\ufffd"),  # a surrogate, encoded
        ("123456789", "12345678"),
        ("1234567%C3%BC", "1234567"),  # the cut went through the ü
        ("123456%C3%BC9", "123456ü"),
        ("1234567%C3", "1234567\ufffd"),  # not cut: the response itself is broken
    ],
)
async def test_the_excerpt_is_text_that_every_database_can_store(
    receiver: Receiver, raw: str, excerpt: str
) -> None:
    async with Sender(guard=AddressGuard(LOOPBACK), excerpt_bytes=8) as sender:
        outcome = await post(sender, receiver.url(f"/raw/{raw}"))
    assert outcome.response_excerpt == excerpt


@pytest.mark.parametrize(
    "path", ["/body/65536", "/body/65537", "/body/1000000", "/endless-body", "/chunks/60000"]
)
async def test_a_long_body_is_cut_and_the_status_decides(
    sender: Sender, receiver: Receiver, path: str
) -> None:
    outcome, _, text = await sender.get(receiver.url(path), headers={}, timeout=PATIENCE)
    assert outcome.result is Result.SUCCESS
    assert outcome.response_excerpt == "x" * 2048
    assert len(text) <= 65536


async def test_a_chunked_body_arrives_whole_whatever_lines_it_has(
    sender: Sender, receiver: Receiver
) -> None:
    _, _, text = await sender.get(receiver.url("/blank-lines"), headers={}, timeout=PATIENCE)
    assert text == "\n" * 30_000


@pytest.mark.parametrize("target", ["/a/../b", "/%7e/%2F", "/a?", "/?q=|'<>\"{}", "/a//b;x=,"])
async def test_path_and_query_are_sent_as_written(
    sender: Sender, receiver: Receiver, target: str
) -> None:
    await post(sender, receiver.url(target))
    assert receiver.requests[0].path == target


async def test_a_custom_upgrade_header_is_not_sent(sender: Sender, receiver: Receiver) -> None:
    headers = {"Upgrade": "x", "Connection": "upgrade"}
    outcome = await sender.post(
        receiver.url("/upgrade"), headers=headers, body=b"", timeout=PATIENCE
    )
    assert outcome.result is Result.PROTOCOL
    assert "upgrade" not in receiver.requests[0].headers


async def test_a_compressed_response_is_never_unpacked(sender: Sender, receiver: Receiver) -> None:
    outcome = await post(sender, receiver.url("/gzip-bomb"))
    assert outcome.succeeded
    assert outcome.response_excerpt is not None
    assert outcome.response_excerpt.startswith(
        "\x1f\ufffd"
    )  # gzip's magic number, still compressed


async def test_get_returns_headers_and_text(sender: Sender, receiver: Receiver) -> None:
    outcome, headers, text = await sender.get(receiver.url("/cookie"), headers={}, timeout=PATIENCE)
    assert outcome.succeeded
    assert headers["set-cookie"] == "session=1"
    assert text == "ok"
    [request] = receiver.requests
    assert request.method == "GET"
    assert "content-length" not in request.headers


@pytest.mark.parametrize(
    ("path", "result", "sentence"),
    [
        ("/close", Result.RESET, "closed the connection without answering."),
        ("/reset", Result.RESET, "reset the connection without answering."),
        ("/reset-early", Result.RESET, "reset the connection without answering."),
        ("/garbage", Result.PROTOCOL, "is not valid HTTP/1.1."),
        ("/upgrade", Result.PROTOCOL, "is not valid HTTP/1.1."),
        ("/endless-interim/0", Result.PROTOCOL, "has more than 64 KiB of headers."),
    ],
)
async def test_a_broken_response_is_a_failure_with_the_reason(
    sender: Sender, receiver: Receiver, path: str, result: Result, sentence: str
) -> None:
    outcome = await post(sender, receiver.url(path))
    assert outcome.result is result
    assert outcome.error is not None
    assert f"127.0.0.1:{receiver.port}" in outcome.error
    assert sentence in outcome.error
    assert (outcome.status_code, outcome.response_excerpt) == (None, None)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/close-mid-headers", "closed the connection in the middle of the answer's headers."),
        ("/close-mid-body", "closed the connection in the middle of the answer's body."),
        ("/reset-mid-body", "reset the connection in the middle of the answer's body."),
        ("/huge-header", "has more than 64 KiB of headers."),
        ("/drip-headers/0.02", "began its answer but did not finish the headers in time."),
        ("/drip-body/0.02", "sent its headers but did not finish the body in time."),
    ],
)
async def test_a_2xx_whose_rest_is_lost_is_a_success_that_says_so(
    sender: Sender, receiver: Receiver, path: str, sentence: str
) -> None:
    outcome = await post(sender, receiver.url(path), timeout=0.3 if "drip" in path else PATIENCE)
    assert (outcome.result, outcome.status_code) == (Result.SUCCESS, 200)
    assert outcome.error is not None
    assert outcome.error.startswith("The server answered 200 OK, but the rest of its answer was ")
    assert outcome.error.endswith(sentence)
    assert outcome.response_excerpt is None


@pytest.mark.parametrize("path", ["/close-mid-headers", "/close-mid-body", "/drip-body/0.02"])
async def test_a_verification_needs_the_whole_answer(
    sender: Sender, receiver: Receiver, path: str
) -> None:
    outcome, headers, text = await sender.get(
        receiver.url(path), headers={}, timeout=0.3 if "drip" in path else PATIENCE
    )
    assert not outcome.succeeded
    assert (headers, text) == ({}, "")


@pytest.mark.parametrize(
    "extension",
    ['; foo="b ar"', " ; foo=bar", '\t;\tfoo = "b;\\"ar"', ";a;b=1", "", " ", "  ;x"],
)
async def test_chunk_extensions_are_ignored_and_the_connection_is_kept(
    sender: Sender, receiver: Receiver, extension: str
) -> None:
    wire = f"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n2{extension}\r\nno\r\n"
    wire += f"0{extension}\r\nX-Trailer: x\r\n\r\n"
    outcome = await post(sender, receiver.url(f"/wire/{quote(wire)}"))
    assert (outcome.status_code, outcome.response_excerpt) == (500, "no")


@pytest.mark.parametrize(
    ("path", "what", "sentence"),
    [
        ("/slow/30", "answer", "took the connection but did not answer in time."),
        (
            "/endless-interim/0.02",
            "complete answer",
            "began its answer but did not finish the headers in time.",
        ),
    ],
)
async def test_the_deadline_is_total_however_slowly_the_response_arrives(
    sender: Sender, receiver: Receiver, path: str, what: str, sentence: str
) -> None:
    started = time.perf_counter()
    outcome = await within(1.0, post(sender, receiver.url(path), timeout=0.3))
    all_ms = (time.perf_counter() - started) * 1000
    assert outcome.result is Result.TIMEOUT
    assert outcome.error == f"No {what} within 0.3 s: 127.0.0.1:{receiver.port} {sentence}"
    assert 290 < outcome.duration_ms <= all_ms


async def test_connection_refused_is_its_own_result(sender: Sender) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        outcome = await post(sender, f"http://127.0.0.1:{port}/")
    assert outcome.result is Result.REFUSED
    assert outcome.error == (
        f"Nothing is listening at 127.0.0.1:{port}: the connection was refused."
    )


async def test_a_host_without_a_route_is_unreachable() -> None:
    async with Sender(guard=AddressGuard([ip_network("255.255.255.255/32")])) as sender:
        outcome = await post(sender, "http://255.255.255.255:4/")  # connect(2) refuses broadcasts
    assert outcome.result is Result.UNREACHABLE
    assert outcome.error is not None
    assert outcome.error.startswith("255.255.255.255:4 cannot be reached: ")


async def test_a_full_accept_queue_runs_into_the_deadline(sender: Sender) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:  # nobody accepts them
                filler.setblocking(False)
                filler.connect_ex(address)
            await asyncio.sleep(0.05)
            outcome = await post(sender, f"http://127.0.0.1:{address[1]}/", timeout=0.3)
        finally:
            for filler in fillers:
                filler.close()
    assert outcome.result is Result.TIMEOUT
    assert outcome.error is not None
    assert outcome.error.endswith("did not open in time.")


async def test_cancelling_closes_the_connection_and_propagates(
    sender: Sender, receiver: Receiver
) -> None:
    task = asyncio.create_task(post(sender, receiver.url("/drip-body/0.01")))
    await receiver.wait_for(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(PATIENCE):
        while receiver.open_connections:  # noqa: ASYNC110 (the receiver has no event for it)
            await asyncio.sleep(0.01)


async def test_no_error_message_contains_bytes_from_the_network(
    sender: Sender, receiver: Receiver
) -> None:
    for path in ("/garbage", "/conflicting-lengths", "/huge-header", "/reset", "/status/500"):
        outcome = await sender.post(
            receiver.url(path),
            headers={"X-Token": "whsec_1"},
            body=b"secret-body",
            timeout=PATIENCE,
        )
        assert outcome.error is not None
        for leak in ("whsec_1", "secret-body", "SSH-2.0", "X-Huge", "status 500"):
            assert leak not in outcome.error
