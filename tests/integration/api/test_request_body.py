"""Body limits against a real server: declared lengths, chunks, slow clients, disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from hookfast import byte_budget
from hookfast.settings.settings import Settings
from tests.support.api_client import OPERATOR_KEY
from tests.support.api_server import api_server
from tests.support.raw_http import exchange

pytestmark = pytest.mark.anyio

CAP = 2_048
BATCH_CAP = 8_192


@pytest.fixture
async def port(sqlite_url: str, tmp_path: Path) -> AsyncIterator[int]:
    """The port of a real server with small limits."""
    settings = Settings(
        home=tmp_path,
        database_url=sqlite_url,
        operator_key=OPERATOR_KEY,
        max_event_bytes=CAP,
        max_batch_bytes=BATCH_CAP,
        max_body_seconds=timedelta(seconds=0.5),
    )
    async with api_server(settings) as server:
        yield server.port


@pytest.fixture
async def small_memory(sqlite_url: str, tmp_path: Path) -> AsyncIterator[int]:
    """The port of a server with little memory for bodies and the default size limits."""
    settings = Settings(
        home=tmp_path,
        database_url=sqlite_url,
        operator_key=OPERATOR_KEY,
        max_event_bytes=250_000,
        max_batch_bytes=250_000,
    ).model_copy(update={"max_body_memory": 1_000_000})
    async with api_server(settings) as server:
        yield server.port


def _head(*headers: str, path: str = "/v1/tenants") -> bytes:
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: hookfast.test",
        f"Authorization: Bearer {OPERATOR_KEY}",
        "Content-Type: application/json",
        "Connection: close",
        *headers,
    )
    return "\r\n".join((*lines, "", "")).encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _tenant(size: int) -> bytes:
    """Return a body of exactly `size` bytes that creates a tenant."""
    frame = b'{"name":"x","metadata":{"pad":""}}'
    return frame[:-3] + b"x" * (size - len(frame)) + frame[-3:]


async def test_body_of_the_maximum_size_is_accepted(port: int) -> None:
    answer = await exchange(port, _head(f"Content-Length: {CAP}"), _tenant(CAP))
    assert answer.startswith("HTTP/1.1 201"), answer


async def test_declared_length_over_the_limit_is_rejected_before_the_body_arrives(
    port: int,
) -> None:
    answer = await exchange(port, _head(f"Content-Length: {CAP + 1}"))
    assert answer.startswith("HTTP/1.1 413"), answer
    assert '"code":"too_large"' in answer
    assert "connection: close" in answer.lower()


async def test_chunked_body_is_limited_while_it_arrives(port: int) -> None:
    whole = _tenant(CAP)
    chunks = [_chunk(whole[:1000]), _chunk(whole[1000:]), b"0\r\n\r\n"]
    head = _head("Transfer-Encoding: chunked")
    answer = await exchange(port, head, *chunks)
    assert answer.startswith("HTTP/1.1 201"), answer
    answer = await exchange(port, head, *[_chunk(b"x" * 1000)] * 3)  # without the last chunk
    assert answer.startswith("HTTP/1.1 413"), answer


async def test_only_batches_may_be_larger(port: int) -> None:
    batch = b'{"events":[]}' + b" " * (CAP * 2)
    for path, status in (("/v1/events/batch", "422"), ("/v1/events", "413")):
        head = _head(f"Content-Length: {len(batch)}", path=path)
        answer = await exchange(port, head, batch)
        assert answer.startswith(f"HTTP/1.1 {status}"), answer
    head = _head(f"Content-Length: {BATCH_CAP + 1}", path="/v1/events/batch")
    assert (await exchange(port, head)).startswith("HTTP/1.1 413")


async def test_body_that_arrives_too_slowly_answers_408(port: int) -> None:
    head = _head("Content-Length: 100")
    answer = await exchange(port, head, *[b"x"] * 3, pause=0.1)
    assert answer.startswith("HTTP/1.1 408"), answer
    assert '"code":"body_timeout"' in answer


async def test_a_client_that_hangs_up_leaves_nothing_behind(port: int) -> None:
    for _ in range(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_head("Content-Length: 1000") + b'{"name":')
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert await reader.read() == b""
    answer = await exchange(port, _head("Content-Length: 12"), b'{"name":"x"}')
    assert answer.startswith("HTTP/1.1 201"), answer


async def test_body_may_arrive_late_and_in_pieces(port: int) -> None:
    parts = [b'{"na', b'me":', b'"x"', b"}"]
    answer = await exchange(port, _head("Content-Length: 12"), *parts, pause=0.05)
    assert answer.startswith("HTTP/1.1 201"), answer


async def test_chunks_that_arrive_too_slowly_answer_408(port: int) -> None:
    head = _head("Transfer-Encoding: chunked")
    answer = await exchange(port, head, *[_chunk(b" ")] * 3, pause=0.1)
    assert answer.startswith("HTTP/1.1 408"), answer


async def test_chunk_that_announces_too_much_is_rejected(port: int) -> None:
    """No memory is reserved for a length that is only announced."""
    announced = b"7fffffffffffffff\r\n" + b"x" * CAP * 2
    answer = await exchange(port, _head("Transfer-Encoding: chunked"), announced)
    assert answer.startswith("HTTP/1.1 413"), answer


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 12", "Transfer-Encoding: chunked"),
        ("Content-Length: 12", "Content-Length: 13"),
        ("Content-Length: -1",),
        ("Content-Length: 12, 12",),
        ("Content-Length: 99999999999999999999999",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
    ],
)
async def test_ambiguous_framing_is_rejected(port: int, headers: tuple[str, ...]) -> None:
    """Behind a proxy that reads the framing differently, a request could hide in another's body."""
    answer = await exchange(port, _head(*headers), b'{"name":"x"}')
    assert answer.startswith("HTTP/1.1 4"), answer
    assert answer.count("HTTP/1.1") == 1


@pytest.mark.parametrize(
    ("line", "replaced", "status"),
    [
        ("Host: other.test", "", 400),
        ("", "Host: hookfast.test", 400),
        ("", "HTTP/1.1", 505),
        (f"Authorization: Bearer {OPERATOR_KEY}", "", 400),
        ("Content-Type: application/json", "", 400),
        ("Content-Encoding: gzip", "", 415),
        ("Content-Encoding: br", "", 415),
        ("Content-Encoding: identity", "", 201),
        ("X-Other: 1\r\nX-Other: 2", "", 201),
    ],
)
async def test_head_that_two_readers_could_understand_differently_is_rejected(
    port: int, line: str, replaced: str, status: int
) -> None:
    body = b'{"name":"x"}'
    head = _head(f"Content-Length: {len(body)}", *([line] if line else [])).decode()
    if replaced:
        with_other = {"HTTP/1.1": "HTTP/2.0", "Host: hookfast.test": "X-No-Host: 1"}
        head = head.replace(replaced, with_other[replaced])
    answer = await exchange(port, head.encode(), body)
    assert answer.startswith(f"HTTP/1.1 {status} "), answer
    if status >= 400:
        assert '"code":' in answer  # it is a problem document


@pytest.mark.parametrize(
    ("coding", "version", "status"), [("gzip, chunked", "1.1", 501), ("chunked", "1.0", 400)]
)
async def test_transfer_coding_that_is_not_understood_is_rejected(
    port: int, coding: str, version: str, status: int
) -> None:
    head = _head(f"Transfer-Encoding: {coding}").replace(b"HTTP/1.1", f"HTTP/{version}".encode())
    answer = await exchange(port, head, _chunk(b'{"name":"x"}'), b"0\r\n\r\n")
    assert answer.startswith(f"HTTP/1.1 {status} "), answer


async def test_white_space_around_header_values_is_not_part_of_them(port: int) -> None:
    body = b'{"name":"x"}'
    head = _head(f"Content-Length: {len(body)}", "X-Request-Id: \t mine \t").decode()
    for name in ("Host", "Authorization", "Content-Type", "Connection"):
        head = "\r\n".join(
            f"{line} \t" if line.startswith(f"{name}:") else line for line in head.split("\r\n")
        )
    answer = await exchange(port, head.encode(), body)
    assert answer.startswith("HTTP/1.1 201 "), answer
    assert "x-request-id: mine\r\n" in answer.lower()


async def test_head_of_a_path_is_answered_as_its_get_without_the_body(port: int) -> None:
    head = _head().replace(b"POST", b"HEAD")
    answer = await exchange(port, head)
    assert answer.startswith("HTTP/1.1 200 "), answer
    assert answer.endswith("\r\n\r\n")
    assert "content-type: application/json" in answer


async def test_body_over_the_limit_is_rejected_without_a_key(port: int) -> None:
    head = _head(f"Content-Length: {CAP + 1}").replace(OPERATOR_KEY.encode(), b"hf_wrong")
    assert (await exchange(port, head)).startswith("HTTP/1.1 413")


async def test_batch_without_a_valid_key_is_rejected_before_its_body_arrives(port: int) -> None:
    for head in (
        _head(f"Content-Length: {BATCH_CAP}", path="/v1/events/batch"),
        _head("Transfer-Encoding: chunked", path="/v1/events/batch"),
    ):
        answer = await exchange(port, head.replace(OPERATOR_KEY.encode(), b"hf_" + b"x" * 43))
        assert answer.startswith("HTTP/1.1 401"), answer
        assert '"code":"invalid_key"' in answer


async def test_early_rejection_has_the_headers_of_every_response(port: int) -> None:
    for head in (_head(f"Content-Length: {CAP + 1}"), _head("Content-Length: 100")):
        answer = await exchange(port, head)
        names = {
            line.partition(":")[0].lower() for line in answer.split("\r\n\r\n")[0].split("\r\n")
        }
        assert {"x-content-type-options", "x-request-id", "cache-control"} <= names, answer


async def _hold(port: int, head: bytes, body: bytes, *, last: int = 1) -> asyncio.StreamWriter:
    """Send all of a body but its last bytes, and keep the connection."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head + body[:-last])
    await writer.drain()
    return writer


async def test_a_long_body_is_not_read_for_a_caller_without_a_key(small_memory: int) -> None:
    head = b"POST /v1/tenants HTTP/1.1\r\nHost: hookfast.test\r\nConnection: close\r\n"
    for framing in (b"Content-Length: 20000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"):
        answer = await exchange(small_memory, head + framing)  # the body never arrives
        assert answer.startswith("HTTP/1.1 401"), answer


async def test_bodies_over_the_memory_limit_answer_503_except_short_ones(
    small_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_budget, "WAIT_SECONDS", 0.1)
    port, size = small_memory, 200_000
    head = _head(f"Content-Length: {size}")
    # two are within the operator's seven eighths of half a megabyte, and the third has the turn
    held = [await _hold(port, head, _tenant(size)) for _ in range(3)]
    refused = await _until("503", port, head, _tenant(size))
    assert '"code":"overloaded"' in refused
    assert "retry-after: 1" in refused.lower()
    answer = await exchange(port, _head("Content-Length: 40"), _tenant(40))
    assert answer.startswith("HTTP/1.1 201"), answer
    for writer in held:
        writer.close()
        await writer.wait_closed()
    await _until("422", port, head, _tenant(size))  # it is read, and is too large for a tenant


async def _until(status: str, port: int, head: bytes, body: bytes) -> str:
    """Repeat the request until it gets this status: the server frees memory in its own time."""
    while not (  # noqa: ASYNC110 - the test cannot see the server's memory
        answer := await exchange(port, head, body)
    ).startswith(f"HTTP/1.1 {status}"):
        await asyncio.sleep(0.05)
    return answer
