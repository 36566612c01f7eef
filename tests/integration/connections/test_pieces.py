"""Bodies in small pieces, each of which takes as much time as kilobytes in one piece."""

from __future__ import annotations

import asyncio

import pytest

from hookfast.connections.closings import Reason
from hookfast.connections.protocol import BoundedHttp
from tests.integration.connections.conftest import Serve
from tests.integration.connections.test_number import closed

pytestmark = pytest.mark.anyio

HEAD = b"POST /ok HTTP/1.1\r\nHost: hookfast.test\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SMALL = BoundedHttp.max_small_pieces


def chunks(size: int, count: int) -> bytes:
    return (b"%x\r\n%b\r\n" % (size, b"x" * size)) * count


@pytest.mark.parametrize("size", [1, 70, BoundedHttp.least_piece_bytes - 1])
@pytest.mark.parametrize("path", [b"/ok", b"/wait", b"/early"])
async def test_a_body_in_small_chunks_without_end_is_closed(
    serve: Serve, size: int, path: bytes
) -> None:
    before = closed(Reason.SMALL_PIECES)
    lacking = BoundedHttp.least_piece_bytes - size
    enough = SMALL * BoundedHttp.least_piece_bytes // lacking + 1
    async with serve() as server:
        client = await server.site.connect()
        client.send(CHUNKED.replace(b"/ok", path))
        while enough > 0:
            client.send(chunks(size, min(enough, 1_000)))
            enough -= 1_000
            await asyncio.sleep(0)
        while not await client.is_closed():
            pass
        assert closed(Reason.SMALL_PIECES) - before == 1
        assert await (await server.site.connect()).is_open()


async def test_a_body_in_small_packets_is_closed(serve: Serve) -> None:
    before = closed(Reason.SMALL_PIECES)
    async with serve() as server:
        client = await server.site.connect()
        client.send(HEAD + b"Content-Length: 5000\r\n\r\n")
        for _ in range(5_000):
            client.send(b"x")
            await asyncio.sleep(0)
            if closed(Reason.SMALL_PIECES) > before:
                break
        assert closed(Reason.SMALL_PIECES) - before == 1


async def test_small_chunks_are_counted_for_each_request(serve: Serve) -> None:
    async with serve() as server:
        client = await server.site.connect()
        for _ in range(3):
            client.send(CHUNKED + chunks(1, SMALL) + b"0\r\n\r\n")
            assert (await client.answer()).startswith(b"HTTP/1.1 200")


async def test_large_chunks_may_be_as_many_as_they_like(serve: Serve) -> None:
    async with serve() as server:
        client = await server.site.connect()
        client.send(CHUNKED)
        for _ in range(5):
            client.send(chunks(BoundedHttp.least_piece_bytes, SMALL))
            await asyncio.sleep(0)
        client.send(chunks(1, SMALL - 1) + b"0\r\n\r\n")
        assert (await client.answer()).startswith(b"HTTP/1.1 200")
