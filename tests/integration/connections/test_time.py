"""How long a connection may take for what it does."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from hookfast.connections.closings import Reason
from tests.integration.connections.conftest import REQUEST, Client, Serve
from tests.integration.connections.test_number import PART, closed
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

BIG = REQUEST.replace(b"/ok", b"/big")


@contextlib.contextmanager
def _traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


async def test_unread_answers_are_closed_with_a_reason_and_their_memory_is_freed(
    serve: Serve,
) -> None:
    before = closed(Reason.UNREAD_ANSWER)
    async with serve(unread_seconds=2) as server:
        with capture_logs() as lines, _traced():
            clients = [await server.site.connect(receive_buffer=4_096) for _ in range(40)]
            for client in clients:
                client.send(BIG)
            for client in clients:
                await client.reader.readexactly(1)
            assert tracemalloc.get_traced_memory()[0] > 100_000_000
            async with asyncio.timeout(PATIENCE):
                while closed(Reason.UNREAD_ANSWER) - before < 40:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.05)
            assert tracemalloc.get_traced_memory()[0] < 10_000_000
        line = next(line for line in lines if line["reason"] == "unread_answer")
        assert line["client"] == "127.0.0.2"
        assert line["log_level"] == "warning"
        for client in clients:
            with contextlib.suppress(ConnectionError):
                assert len(await client.reader.read(-1)) < 4_000_000


async def _read(client: Client, *, size: int, every: float) -> int:
    """Read a piece now and then until the connection ends. Return how much there was."""
    total = 0
    with contextlib.suppress(ConnectionError):
        while piece := await client.reader.read(size):
            total += len(piece)
            await asyncio.sleep(every)
    return total


async def test_drip_reader_is_closed(serve: Serve) -> None:
    before = closed(Reason.UNREAD_ANSWER)
    async with serve(unread_seconds=2) as server:
        client = await server.site.connect(receive_buffer=4_096)
        client.send(BIG)
        async with asyncio.timeout(PATIENCE):
            while closed(Reason.UNREAD_ANSWER) == before:
                assert await client.reader.read(1) != b""
                await asyncio.sleep(0.02)


async def test_slow_reader_gets_the_whole_answer(serve: Serve) -> None:
    before = closed(Reason.UNREAD_ANSWER)
    async with serve(unread_seconds=2) as server:
        client = await server.site.connect(receive_buffer=65_536)
        client.send(BIG.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert await _read(client, size=40_000, every=0.025) > 4_000_000
        assert closed(Reason.UNREAD_ANSWER) == before


@pytest.mark.slow
async def test_reader_of_100_kb_a_second_gets_10_mb_within_the_default_limits(
    serve: Serve,
) -> None:
    async with serve(unread_seconds=30, size=10_000_000) as server:
        client = await server.site.connect()
        client.send(BIG.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert await _read(client, size=25_000, every=0.25) > 10_000_000


@pytest.mark.parametrize("first", [b"", b"G", PART], ids=["nothing", "a byte", "a part"])
async def test_late_request_is_closed(serve: Serve, first: bytes) -> None:
    reason = Reason.SLOW_REQUEST if first else Reason.SILENT
    before = closed(reason)
    async with serve(head_seconds=0.2) as server:
        client = await server.site.connect()
        with capture_logs() as lines:
            client.send(first)
            assert await client.is_closed()
        assert closed(reason) - before == 1
        # browsers connect in advance: a connection without a byte is nobody's fault
        assert [line["reason"] for line in lines] == ([reason.value] if first else [])


async def test_dripping_head_gets_no_more_time(serve: Serve) -> None:
    async with serve(head_seconds=0.5) as server:
        client = await server.site.connect()
        client.send(PART)
        await client.drip(b"x")


async def test_idle_connection_is_closed_also_if_it_sends_empty_lines(serve: Serve) -> None:
    async with serve(idle_seconds=0.5) as server:
        client = await server.site.connect()
        assert await client.is_open()
        await client.drip(b"\r\n")


async def test_rest_of_a_body_that_was_answered_early_has_the_time_of_a_head(serve: Serve) -> None:
    async with serve(head_seconds=0.5) as server:
        client = await server.site.connect()
        client.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx")
        assert (await client.answer()).startswith(b"HTTP/1.1 200")
        await client.drip(b"x")


async def test_rest_of_a_body_that_was_answered_early_leads_to_the_next_request(
    serve: Serve,
) -> None:
    async with serve(head_seconds=2, idle_seconds=60) as server:
        client = await server.site.connect()
        client.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
        assert (await client.answer()).startswith(b"HTTP/1.1 200")
        client.send(b"123456789")
        await asyncio.sleep(2.6)
        assert await client.is_open()


async def test_next_head_may_begin_while_an_answer_takes_long(serve: Serve) -> None:
    async with serve(head_seconds=0.5) as server:
        client = await server.site.connect()
        client.send(REQUEST.replace(b"/ok", b"/wait") + PART)
        await asyncio.sleep(1.2)
        server.app.finish.set()
        assert (await client.answer()).startswith(b"HTTP/1.1 200")
        client.send(b" a\r\n\r\n")
        assert (await client.answer()).startswith(b"HTTP/1.1 200")
