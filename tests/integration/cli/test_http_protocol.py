"""Limits on the size and time of a request's head, against a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from itertools import chain, repeat

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.app import create_app
from hookfast.cli.api import server_config
from hookfast.cli.http_protocol import ApiHttp
from hookfast.connections.connections import ConnectionLimits
from hookfast.connections.protocol import BoundedHttp
from hookfast.settings.settings import Settings
from tests.support.http_server import http_server
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

START = b"GET / HTTP/1.1\r\nHost: hookfast.test\r\n"
ENDLESS = 4_000_000  # bytes: far over every limit; a server without limits would read them all


class Impatient(BoundedHttp):
    """The protocol with a limit that a test can reach."""

    max_head_bytes = 4_096


HEAD_SECONDS = 1.0


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body and answer with its length, and the names of the request's fields."""
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    body = str(size).encode()
    names = b",".join(name for name, _ in scope["headers"])
    headers = [(b"content-length", str(len(body)).encode()), (b"x-names", names)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    limits = ConnectionLimits(
        total=100, per_client=100, head_seconds=HEAD_SECONDS, idle_seconds=60, unread_seconds=60
    )
    async with http_server(echo, limits, protocol=Impatient) as port:
        yield port


async def _send(port: int, parts: Iterator[bytes], *, pause: float = 0.0) -> tuple[bytes, int]:
    """Return the response before the server closes, and how many bytes it accepted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = 0
    try:
        async with asyncio.timeout(PATIENCE):
            try:
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                    sent += len(part)
                    await asyncio.sleep(pause)
                    if reader.at_eof() or sent > ENDLESS:
                        break
                return await reader.read(), sent
            except ConnectionError:
                return b"", sent
    finally:
        writer.close()


@pytest.mark.parametrize(
    "endless",
    [
        (b"GET /", b"x" * 2_000),
        (START, b"X-Filler: " + b"x" * 2_000 + b"\r\n"),
        (START + b"X-Endless: ", b"x" * 2_000),
        (START, b"x: y\r\n" * 300),
        (START.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n1;e=", b"x" * 2_000),
        (
            START.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n",
            b"X-Trailer: " + b"x" * 2_000 + b"\r\n",
        ),
    ],
    ids=["request line", "fields", "a field", "small fields", "chunk extension", "trailers"],
)
async def test_endless_request_is_cut_off(port: int, endless: tuple[bytes, bytes]) -> None:
    first, more = endless
    answer, sent = await _send(port, chain([first], repeat(more)), pause=0.001)
    assert sent < ENDLESS
    assert answer == b"" or answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


@pytest.mark.parametrize(
    "head",
    [START + b"x:\r\n" * 100, START + b"X-Long: " + b"x" * 5_000],
    ids=["short fields", "an unfinished field"],
)
@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["unfinished", "complete"])
async def test_large_head_that_arrives_at_once_is_431(port: int, head: bytes, end: bytes) -> None:
    """A field counts what it takes in memory: many times its length if it is short."""
    answer, _ = await _send(port, iter([head + end]))
    assert answer.startswith(b"HTTP/1.1 431 ")


async def test_a_head_over_the_cap_is_431_and_a_problem(port: int) -> None:
    parts = [START, *[b"X-Filler: " + b"x" * 2_000 + b"\r\n"] * 2, b"X-Last: " + b"x" * 100]
    answer, _ = await _send(port, iter(parts), pause=0.05)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert b"connection: close" in head
    assert json.loads(body)["code"] == "headers_too_large"
    assert len(body) == int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])


@pytest.mark.parametrize("first", [b"", b"G", START, START + b"X-Slow: "])
async def test_slow_head_is_cut_off_at_the_time_limit(port: int, first: bytes) -> None:
    drip = repeat(b"x") if first else repeat(b"")
    answer, _ = await _send(port, chain([first], drip), pause=0.1)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")


async def test_second_request_on_a_connection_has_the_same_limits(port: int) -> None:
    answer, _ = await _send(port, iter([START + b"\r\n", START]), pause=0.1)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1") == 1


async def test_request_in_pieces_within_the_limits_is_answered(port: int) -> None:
    request = (
        START.replace(b"GET", b"POST")
        + b"X-Filler: "
        + b"x" * 3_000
        + b"\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        + b"5;extension=1\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n"
    )
    pieces = [request[start : start + 600] for start in range(0, len(request), 600)]
    answer, _ = await _send(port, iter(pieces), pause=0.001)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n5")


async def test_chunks_of_a_read_are_passed_on_together(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that tiny chunks on many connections do not keep the server from all others."""
    passed: list[int] = []
    pass_on = HttpToolsProtocol.on_body

    def counted(protocol: HttpToolsProtocol, body: bytes) -> None:
        passed.append(len(body))
        pass_on(protocol, body)

    monkeypatch.setattr(HttpToolsProtocol, "on_body", counted)
    head = START.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n"
    chunks = b"1\r\nx\r\n" * 40_000 + b"0\r\n\r\n"
    answer, _ = await _send(port, iter([head + b"Connection: close\r\n\r\n" + chunks]))
    assert answer.endswith(b"\r\n40000")
    assert sum(passed) == 40_000
    assert len(passed) < 1_000  # reads


async def test_bodies_and_answers_may_take_longer_than_heads(port: int) -> None:
    length = Impatient.max_head_bytes * 10
    head = START.replace(b"GET", b"POST") + b"Connection: close\r\nContent-Length: %d\r\n\r\n"
    parts = [head % length, *[b"x" * (length // 10)] * 10]
    answer, _ = await _send(port, iter(parts), pause=HEAD_SECONDS / 8)
    assert answer.endswith(str(length).encode())


async def test_many_requests_on_one_connection_are_all_answered(port: int) -> None:
    """Pipelined requests, with a body that arrives in one read with the next head."""
    body = b"x" * (Impatient.max_head_bytes * 2)
    one = START.replace(b"GET", b"POST") + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    last = START + b"Connection: close\r\n\r\n"
    whole = one * 5 + last
    pieces = [whole[start : start + 9_000] for start in range(0, len(whole), 9_000)]
    answer, _ = await _send(port, iter(pieces))
    assert answer.count(b"HTTP/1.1 200") == 6


@pytest.mark.parametrize("target", [b"/#a", b"/v1/events#/metrics", b"/?a=1#", b"http://a/#a"])
async def test_target_with_a_fragment_is_rejected(port: int, target: bytes) -> None:
    whole = START.replace(b"/", target, 1) + b"Connection: close\r\n\r\n"
    place = whole.index(b"#")
    for pieces in ([whole], [whole[:place], whole[place:]]):
        answer, _ = await _send(port, iter(pieces), pause=0.01)
        assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("cut", [0, 1, 2])
async def test_trailers_are_not_added_to_the_head(port: int, cut: int) -> None:
    """A proxy checks an `Authorization` of the head, and not one that follows the body."""
    head = START.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n"
    whole = head + b"2\r\nhi\r\n0\r\nAuthorization: Bearer k\r\nX-Trailer: 1\r\n\r\n"
    whole += START + b"Authorization: Bearer of-the-next\r\nConnection: close\r\n\r\n"
    pieces = {
        0: [whole],
        1: [head, whole[len(head) :]],
        2: [whole[n : n + 7] for n in range(0, len(whole), 7)],
    }
    answer, _ = await _send(port, iter(pieces[cut]), pause=0.001)
    names = [line for line in answer.split(b"\r\n") if line.startswith(b"x-names: ")]
    assert names == [b"x-names: host,transfer-encoding", b"x-names: host,authorization,connection"]


def test_api_is_served_with_these_limits() -> None:
    assert server_config(create_app(Settings())).http.func is ApiHttp
    assert issubclass(ApiHttp, BoundedHttp)
