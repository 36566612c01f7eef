"""Body limits against a real server: declared lengths, chunks, slowness and hanging up."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import uvicorn

from api.app import create_app
from api.authentication import ensure_operator_key
from hookfast.clock import utc_now
from hookfast.settings import Settings
from tests.api_client import OPERATOR_KEY

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
    app = create_app(settings)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110 - uvicorn offers no event for it
        await asyncio.sleep(0.01)
    await ensure_operator_key(app.state.context.database, settings, clock=utc_now)
    yield listener.getsockname()[1]
    server.should_exit = True
    await serving
    listener.close()


async def _send(port: int, *parts: bytes, pause: float = 0.0) -> str:
    """What the server answers to these bytes, up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        async with asyncio.timeout(5):
            return (await reader.read()).decode()
    finally:
        writer.close()
        await writer.wait_closed()


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
    """A body of exactly `size` bytes that makes a tenant."""
    frame = b'{"name":"x","metadata":{"pad":""}}'
    return frame[:-3] + b"x" * (size - len(frame)) + frame[-3:]


async def test_a_body_of_exactly_the_cap_is_taken(port: int) -> None:
    answer = await _send(port, _head(f"Content-Length: {CAP}"), _tenant(CAP))
    assert answer.startswith("HTTP/1.1 201"), answer


async def test_a_declared_length_over_the_cap_is_refused_before_the_body_comes(port: int) -> None:
    answer = await _send(port, _head(f"Content-Length: {CAP + 1}"))
    assert answer.startswith("HTTP/1.1 413"), answer
    assert '"code":"too_large"' in answer
    assert "connection: close" in answer.lower()


async def test_chunks_are_counted_as_they_come(port: int) -> None:
    whole = _tenant(CAP)
    chunks = [_chunk(whole[:1000]), _chunk(whole[1000:]), b"0\r\n\r\n"]
    head = _head("Transfer-Encoding: chunked")
    answer = await _send(port, head, *chunks)
    assert answer.startswith("HTTP/1.1 201"), answer
    answer = await _send(port, head, *[_chunk(b"x" * 1000)] * 3)  # and never an end
    assert answer.startswith("HTTP/1.1 413"), answer


async def test_only_batches_may_be_larger(port: int) -> None:
    batch = b'{"events":[]}' + b" " * (CAP * 2)
    for path, status in (("/v1/events/batch", "422"), ("/v1/events", "413")):
        head = _head(f"Content-Length: {len(batch)}", path=path)
        answer = await _send(port, head, batch)
        assert answer.startswith(f"HTTP/1.1 {status}"), answer
    head = _head(f"Content-Length: {BATCH_CAP + 1}", path="/v1/events/batch")
    assert (await _send(port, head)).startswith("HTTP/1.1 413")


async def test_a_body_that_drips_past_the_deadline_is_408(port: int) -> None:
    head = _head("Content-Length: 100")
    answer = await _send(port, head, *[b"x"] * 3, pause=0.1)
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
    answer = await _send(port, _head("Content-Length: 12"), b'{"name":"x"}')
    assert answer.startswith("HTTP/1.1 201"), answer


async def test_a_body_may_come_late_and_in_pieces(port: int) -> None:
    parts = [b'{"na', b'me":', b'"x"', b"}"]
    answer = await _send(port, _head("Content-Length: 12"), *parts, pause=0.05)
    assert answer.startswith("HTTP/1.1 201"), answer
