"""Long bodies leave in pieces, so that no transport holds a second copy of one."""

from __future__ import annotations

import asyncio
import hashlib
import random
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from hookfast.deliveries.outcome import Outcome
from hookfast.sender import Sender
from hookfast.sender.stream import Stream
from tests.support.receiver import Receiver, Serve
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.anyio

KIB = 1024
LENGTHS = [64 * KIB, 64 * KIB + 1, 5_000_000, 20_000_001]


@pytest.fixture(params=["http", "https"])
def server_context(request: pytest.FixtureRequest, authority: trustme.CA) -> ssl.SSLContext | None:
    if request.param == "http":
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def body_of(length: int) -> bytes:
    return random.Random(length).randbytes(length)


async def post(sender: Sender, url: str, body: bytes) -> Outcome:
    return await sender.post(url, headers={}, body=body, timeout=60.0)


def only_stream(sender: Sender) -> Stream:
    [stream] = sender._pool._streams
    return stream


async def head_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def test_long_body_arrives_whole_and_its_connection_is_used_again(
    sender: Sender, server_context: ssl.SSLContext | None
) -> None:
    async with Receiver(ssl_context=server_context) as receiver:
        for length in LENGTHS:
            body = body_of(length)
            outcome = await post(sender, receiver.url(), body)
            assert outcome.status_code == 200
            request = receiver.requests.pop()
            assert hashlib.sha256(request.body).digest() == hashlib.sha256(body).digest()
        assert receiver.connections == 1


async def test_a_receiver_that_reads_slowly_gets_all_of_a_long_body(
    sender: Sender, server_context: ssl.SSLContext | None
) -> None:
    arrived = hashlib.sha256()

    async def read_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        left = 3_000_000
        while left:
            piece = await reader.read(min(left, 50_000))
            arrived.update(piece)
            left -= len(piece)
            await asyncio.sleep(0.001)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with Receiver(serve=read_slowly, ssl_context=server_context) as receiver:
        outcome = await post(sender, receiver.url(), body_of(3_000_000))
    assert outcome.status_code == 200
    assert arrived.digest() == hashlib.sha256(body_of(3_000_000)).digest()


@asynccontextmanager
async def unread(
    sender: Sender, server_context: ssl.SSLContext | None, length: int
) -> AsyncIterator[Stream]:
    """POST to a receiver that reads the head only, and yield the connection once it is stuck."""
    reached = asyncio.Event()

    async def read_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        reached.set()
        await asyncio.Event().wait()

    async with Receiver(serve=read_head, ssl_context=server_context) as receiver:
        sending = asyncio.create_task(post(sender, receiver.url(), body_of(length)))
        async with asyncio.timeout(PATIENCE):
            await reached.wait()
        stream = only_stream(sender)
        seen = [0]

        async def stuck() -> bool:
            seen.append(len(stream._unsent))
            await asyncio.sleep(0.05)
            return seen[-1] == len(stream._unsent) == seen[-2]

        await eventually(stuck)
        yield stream
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_transport_holds_a_piece_of_a_body_that_nobody_reads(
    sender: Sender, server_context: ssl.SSLContext | None
) -> None:
    async with unread(sender, server_context, 40_000_000) as stream:
        assert stream.sending
        assert stream._transport.get_write_buffer_size() <= 128 * KIB


async def test_cancelled_request_leaves_no_reference_to_its_body(
    sender: Sender, server_context: ssl.SSLContext | None
) -> None:
    async with unread(sender, server_context, 40_000_000) as stream:
        pass
    assert not stream.sending


async def test_idle_connection_holds_no_reference_to_the_last_body(
    sender: Sender, receiver: Receiver
) -> None:
    body = body_of(1_000_000)
    before = sys.getrefcount(body)
    await post(sender, receiver.url(), body)
    receiver.requests.clear()
    assert only_stream(sender).idle
    assert sys.getrefcount(body) == before


async def test_an_answer_before_the_end_of_a_long_body_counts_and_ends_the_connection(
    sender: Sender, server_context: ssl.SSLContext | None
) -> None:
    answer = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n"

    async def reject(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(answer)
        await writer.drain()
        await asyncio.Event().wait()

    serve: Serve = reject
    async with Receiver(serve=serve, ssl_context=server_context) as receiver:
        for connections in (1, 2):
            outcome = await post(sender, receiver.url(), body_of(40_000_000))
            assert outcome.status_code == 413
            assert receiver.connections == connections
            assert sender._pool.open_connections == 0
