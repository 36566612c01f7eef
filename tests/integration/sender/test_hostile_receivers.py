"""Hostile receivers: every request ends as a classified attempt, within its deadline and a second,
in bounded memory, and without delaying other receivers."""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookfast.deliveries.outcome import Outcome, Result
from hookfast.sender import AddressGuard, Sender
from tests.integration.sender.conftest import LOOPBACK
from tests.support.receiver import Receiver
from tests.support.receiver_misbehaviour import CUT_ANSWER
from tests.support.waiting import within

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
DEADLINE = 0.4

# A 2xx status line is a yes, whatever follows it; the rest of the answer is not needed.
HOSTILE = {
    "/slow/30": Result.TIMEOUT,
    "/drip-headers/0.01": Result.SUCCESS,  # when the deadline has passed
    "/drip-body/0.01": Result.SUCCESS,
    "/endless-interim/0": Result.PROTOCOL,
    "/endless-interim/0.01": Result.TIMEOUT,
    "/endless-body": Result.SUCCESS,
    "/declared-body/10737418240": Result.SUCCESS,
    "/declared-body/99999999999999999999": Result.SUCCESS,
    "/endless-chunks": Result.SUCCESS,
    "/endless-chunk-line": Result.SUCCESS,
    "/endless-trailers": Result.SUCCESS,
    "/blank-lines": Result.SUCCESS,
    "/gzip-bomb": Result.SUCCESS,
    "/huge-header": Result.SUCCESS,
    "/garbage": Result.PROTOCOL,
    "/conflicting-lengths": Result.SUCCESS,
    "/upgrade": Result.PROTOCOL,
    "/redirect": Result.STATUS,
    "/redirect-loop": Result.STATUS,
    "/close": Result.RESET,
    "/close-mid-headers": Result.SUCCESS,
    "/close-mid-body": Result.SUCCESS,
    "/reset": Result.RESET,
    "/reset-early": Result.RESET,
    "/reset-mid-body": Result.SUCCESS,
    "/extra": Result.SUCCESS,
    "/extra-chunked": Result.SUCCESS,
}

OK = "HTTP/1.1 200 OK\r\n"
NO = "HTTP/1.1 500 No\r\n"
CODING = "Transfer-Encoding: chunked\r\n"
# The raw response bytes; the connection then stays open.
NOT_HTTP = {
    "HTTP/0.9": "<html>hello</html>",
    "HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2 status line": "HTTP/2.0 200 OK\r\n\r\n",
    "SMTP": "220 mail.example ESMTP\r\n",
    "Redis": "-ERR unknown command 'POST'\r\n",
    "empty lines first": f"\r\n\r\n{OK}Content-Length: 0\r\n\r\n",
    "only line feeds": "\n" * 70_000,
    "no status": "HTTP/1.1\r\n\r\n",
    "status 99": "HTTP/1.1 99 No\r\nContent-Length: 0\r\n\r\n",
    "status 000": "HTTP/1.1 000 No\r\nContent-Length: 0\r\n\r\n",
    "status 1000": "HTTP/1.1 1000 No\r\nContent-Length: 0\r\n\r\n",
    "status -20": "HTTP/1.1 -20 No\r\nContent-Length: 0\r\n\r\n",
    "status abc": "HTTP/1.1 abc No\r\nContent-Length: 0\r\n\r\n",
    "status in Arabic digits": "HTTP/1.1 ٢٠٠ OK\r\n\r\n",
    "no blank after the version": "HTTP/1.1200 OK\r\nContent-Length: 0\r\n\r\n",
    "an interim status, then garbage": "HTTP/1.1 199 OK\r\n\r\nHTTP/1.1 2x0 OK\r\n\r\n",
}
# What may follow the status line of an answer, none of which is valid.
BROKEN = {
    "length of 5,000 digits": f"Content-Length: {'9' * 5000}\r\n\r\nok",
    "negative length": "Content-Length: -1\r\n\r\nok",
    "signed length": "Content-Length: +2\r\n\r\nok",
    "two lengths": "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
    "two lengths in one": "Content-Length: 2, 3\r\n\r\nok!",
    "length in Arabic digits": "Content-Length: ٢\r\n\r\nok",
    "unknown coding": "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding twice": f"{2 * CODING}\r\n0\r\n\r\n",
    "NUL in a header": "X: a\0b\r\nContent-Length: 0\r\n\r\n",
    "bare carriage return": "X: a\rY: b\r\nContent-Length: 0\r\n\r\n",
    "space before the colon": "Content-Length : 0\r\n\r\n",
    "header without a name": ": x\r\nContent-Length: 0\r\n\r\n",
    "chunk of no size": f"{CODING}\r\nzz\r\nok",
    "chunk of negative size": f"{CODING}\r\n-1\r\nok",
    "chunk of 30 digits": f"{CODING}\r\n{'F' * 30}\r\nok",
}


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio", marks=pytest.mark.slow),
    ],
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """By default only uvloop, which Hookfast uses if it is installed."""
    return request.param


async def post(sender: Sender, url: str, *, timeout: float = DEADLINE) -> Outcome:
    return await sender.post(
        url, headers={"X-Hook-Id": "dlv_1"}, body=b'{"paid":true}', timeout=timeout
    )


@pytest.mark.parametrize(("path", "result"), HOSTILE.items(), ids=HOSTILE)
async def test_every_hostile_receiver_ends_as_a_classified_attempt_in_time(
    sender: Sender, receiver: Receiver, path: str, result: Result
) -> None:
    if path == "/gzip-bomb":  # the receiver needs a while to create the first one
        await sender.post(receiver.url(path), headers={}, body=b"", timeout=30)
    # a request that ends by itself may take as long as a busy machine needs
    deadline = DEADLINE if result is Result.TIMEOUT or "drip" in path else 10.0
    outcome = await within(deadline + 1, post(sender, receiver.url(path), timeout=deadline))
    assert outcome.result is result
    if not outcome.succeeded:
        assert outcome.error is not None
    assert len(outcome.response_excerpt or "") <= 2048
    await asyncio.sleep(0.02)
    assert (await post(sender, receiver.url(), timeout=10)).response_excerpt == "ok"


@pytest.mark.parametrize("wire", NOT_HTTP.values(), ids=NOT_HTTP)
async def test_a_response_that_is_not_http_fails_before_the_deadline(
    sender: Sender, receiver: Receiver, wire: str
) -> None:
    outcome = await sender.post(
        receiver.url(f"/wire/{quote(wire)[:60_000]}"), headers={}, body=b"", timeout=30
    )
    assert outcome.result is Result.PROTOCOL
    assert outcome.error == f"The answer of 127.0.0.1:{receiver.port} is not valid HTTP/1.1."


@pytest.mark.parametrize("reason", [" O\0K\r", " O\rK\r", "\r\r"], ids=ascii)
async def test_a_reason_with_control_characters_changes_no_status(
    sender: Sender, receiver: Receiver, reason: str
) -> None:
    async def answered(status: int) -> Outcome:
        wire = quote(f"HTTP/1.1 {status}{reason}\nContent-Length: 0\r\n\r\n")
        return await sender.post(receiver.url(f"/wire/{wire}"), headers={}, body=b"", timeout=30)

    accepted, rejected = await answered(202), await answered(500)
    assert (accepted.result, accepted.status_code) == (Result.SUCCESS, 202)
    assert (rejected.result, rejected.status_code) == (Result.PROTOCOL, None)


@pytest.mark.parametrize("rest", BROKEN.values(), ids=BROKEN)
async def test_after_a_2xx_a_broken_answer_is_a_success_with_a_note_and_after_another_a_failure(
    sender: Sender, receiver: Receiver, rest: str
) -> None:
    async def answered(status_line: str) -> Outcome:
        wire = quote(f"{status_line}{rest}")[:60_000]
        return await sender.post(receiver.url(f"/wire/{wire}"), headers={}, body=b"", timeout=30)

    invalid = f"The answer of 127.0.0.1:{receiver.port} is not valid HTTP/1.1."
    accepted, rejected = await answered(OK), await answered(NO)
    assert (accepted.result, accepted.status_code) == (Result.SUCCESS, 200)
    assert accepted.error == (
        f"The server answered 200 OK, but the rest of its answer was lost. {invalid}"
    )
    assert (rejected.result, rejected.status_code) == (Result.PROTOCOL, None)
    assert rejected.error == invalid
    # neither connection is used again: its next bytes may belong to the broken answer
    assert (await post(sender, receiver.url(), timeout=10)).succeeded
    assert [one.connection for one in receiver.requests] == [1, 2, 3]


@pytest.mark.parametrize("manner", ["", "?reset"], ids=["close", "reset"])
async def test_a_connection_that_ends_before_the_end_of_the_status_line_is_a_reset(
    sender: Sender, receiver: Receiver, manner: str
) -> None:
    outcomes = await asyncio.gather(
        *(
            post(sender, receiver.url(f"/cut/{n}{manner}"), timeout=10)
            for n in range(len(CUT_ANSWER) + 1)
        )
    )
    line = len(OK)
    assert {outcome.result for outcome in outcomes[:line]} == {Result.RESET}
    assert {outcome.result for outcome in outcomes[line:]} == {Result.SUCCESS}
    assert all("lost" in (outcome.error or "") for outcome in outcomes[line:-1])
    assert outcomes[-1].error is None


async def test_a_reset_before_the_request_is_read_is_a_failed_attempt(sender: Sender) -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with Receiver(serve=reset) as receiver:
        plain = await post(sender, receiver.url(), timeout=10)
        secure = await post(sender, receiver.url().replace("http:", "https:"), timeout=10)
    assert plain.result is Result.RESET
    assert secure.result is Result.TLS


@pytest.mark.parametrize(
    "record",
    [
        b"\x16\x03\x03\x40\x00",  # a handshake record of 16 KiB, whose bytes drip
        b"\x15\x03\x03\x00\x02",  # an alert
        b"\x00",
    ],
    ids=["handshake", "alert", "garbage"],
)
async def test_a_tls_handshake_that_drips_ends_with_the_deadline(
    sender: Sender, record: bytes
) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(record)
        while not reader.at_eof():
            writer.write(b"\x02")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with Receiver(serve=drip) as receiver:
        url = receiver.url().replace("http:", "https:")
        outcome = await within(DEADLINE + 1, post(sender, url))
    assert outcome.result in (Result.TLS, Result.TIMEOUT)


async def test_a_receiver_that_never_reads_ends_with_the_deadline(sender: Sender) -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()
        await asyncio.Event().wait()

    async with Receiver(serve=deaf) as receiver:
        body = b"x" * 8_000_000
        attempt = sender.post(receiver.url(), headers={}, body=body, timeout=DEADLINE)
        outcome = await within(DEADLINE + 1, attempt)
    assert outcome.result is Result.TIMEOUT


# Parts for the fuzzer: valid pieces of HTTP, broken ones, and random bytes.
PIECES = st.one_of(
    st.sampled_from(
        [
            *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 ", b"HTTP/1.0 503 x\r\n", b"102 P\r\n", b"\r\n"),
            *(b"Content-Length: 2\r\n", b"Content-Length:", b"Transfer-Encoding: chunked\r\n"),
            *(b"Retry-After: -1\r\n", b"Connection: close\r\n", b"2\r\nok\r\n", b"0\r\n\r\n"),
            *(b"\n", b"\r", b"\x00", b"ok", b"\xff\xfe", b"Upgrade: h2c\r\n", b"ffffffff\r\n"),
        ]
    ),
    st.binary(max_size=20),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wire=st.lists(PIECES, max_size=8).map(b"".join))
async def test_any_response_bytes_become_a_classified_outcome(
    sender: Sender, receiver: Receiver, wire: bytes
) -> None:
    outcome = await post(sender, receiver.url(f"/wire/{quote(wire)}?close"), timeout=10)
    assert isinstance(outcome.result, Result)
    assert outcome.succeeded or outcome.error is not None
    (outcome.response_excerpt or "").encode()  # no lone surrogates: every database can store it


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    """The URL of a receiver in another process, with its own memory and CPU."""
    command = [sys.executable, "-m", "tests.support.receiver", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


async def test_no_response_uses_more_memory_than_the_limits(sender: Sender, hostile: str) -> None:
    paths = ["/declared-body/10737418240", "/endless-body", "/endless-chunks", "/gzip-bomb"]
    paths += ["/endless-chunk-line", "/endless-trailers", "/huge-header", "/endless-interim/0"]
    await post(sender, f"{hostile}/ok")
    tracemalloc.start()
    try:
        for path in paths:
            await post(sender, hostile + path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000  # 64 KiB of body, 128 KiB unread, 256 KiB of a TLS-less read, twice


async def test_many_hostile_receivers_do_not_delay_a_good_one(sender: Sender, hostile: str) -> None:
    stuck_on = [path for path, result in HOSTILE.items() if result is Result.TIMEOUT]
    async with Receiver() as good:
        stuck = [
            asyncio.create_task(sender.post(hostile + path, headers={}, body=b"", timeout=100))
            for path in stuck_on * 10
        ]
        crowd = [asyncio.create_task(post(sender, hostile + path)) for path in [*HOSTILE] * 3]
        outcomes = [
            await sender.post(good.url(f"/{n}"), headers={}, body=b"", timeout=30)
            for n in range(20)
        ]
        assert not any(task.done() for task in stuck)
        ended = await asyncio.gather(*crowd)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
    assert {outcome.result for outcome in outcomes} == {Result.SUCCESS}
    assert Result.TIMEOUT in {outcome.result for outcome in ended}


async def test_nothing_of_a_response_is_read_by_the_next_attempt(
    receiver: Receiver,
) -> None:
    async with Sender(guard=AddressGuard(LOOPBACK)) as sender:
        for path in ("/cookie", "/redirect-loop", "/retry-after/9"):
            await post(sender, receiver.url(path), timeout=10)
        await post(sender, receiver.url(), timeout=10)
    first, *later = (request.raw_headers for request in receiver.requests)
    assert later == [first] * 3
