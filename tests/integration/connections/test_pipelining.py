"""Requests that a client sends before earlier ones are answered (RFC 9112, section 9.3)."""

from __future__ import annotations

import asyncio

import pytest

from hookfast.connections.closings import Reason
from hookfast.connections.protocol import BoundedHttp
from tests.integration.connections.conftest import REQUEST, Serve
from tests.integration.connections.test_number import closed
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

WAIT = REQUEST.replace(b"/ok", b"/wait")
AHEAD = BoundedHttp.max_requests_ahead


async def test_flood_of_requests_is_closed_before_most_are_parsed(serve: Serve) -> None:
    before = closed(Reason.TOO_MANY_AHEAD)
    async with serve() as server:
        client = await server.site.connect()
        client.send(REQUEST * 5_000)
        while not await client.is_closed():
            pass
        assert closed(Reason.TOO_MANY_AHEAD) - before == 1
        assert server.app.began < 5_000
        assert await (await server.site.connect()).is_open()


async def test_flood_behind_a_waiting_request_ends_that(serve: Serve) -> None:
    async with serve() as server:
        client = await server.site.connect()
        client.send(WAIT)
        async with asyncio.timeout(PATIENCE):
            while not server.app.began:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)
            client.send(REQUEST * 1_000)
            while not server.app.left:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)
        assert server.app.began == 1


async def test_as_many_requests_as_allowed_are_answered_in_order(serve: Serve) -> None:
    async with serve() as server:
        client = await server.site.connect()
        client.send(WAIT + REQUEST * AHEAD)
        await asyncio.sleep(0.05)
        server.app.finish.set()
        for _ in range(1 + AHEAD):
            assert (await client.answer()).startswith(b"HTTP/1.1 200")
        assert await client.is_open()


@pytest.mark.parametrize(
    "large",
    [
        REQUEST.replace(b"\r\n\r\n", b"".join([b"\r\nX-F: 1"] * 100 + [b"\r\n\r\n"])),
        REQUEST.replace(b"GET", b"POST").replace(
            b"\r\n\r\n", b"\r\nContent-Length: 20000\r\n\r\n" + b"x" * 20_000
        ),
    ],
    ids=["heads", "bodies"],
)
async def test_requests_ahead_are_bounded_in_bytes(serve: Serve, large: bytes) -> None:
    """A server that counts only their number keeps 256 KiB of bodies for each connection, or heads
    that take some MiB."""
    before = closed(Reason.TOO_MANY_AHEAD)
    async with serve() as server:
        client = await server.site.connect()
        client.send(WAIT + large)
        await asyncio.sleep(0.05)
        server.app.finish.set()
        for _ in range(2):
            assert (await client.answer()).startswith(b"HTTP/1.1 200")
        server.app.finish.clear()
        client.send(WAIT + large * 2)
        assert await client.is_closed()
        assert closed(Reason.TOO_MANY_AHEAD) - before == 1


async def test_bytes_ahead_are_forgotten_with_the_answers(serve: Serve) -> None:
    large = b"POST /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n" + b"x" * 20_000
    async with serve() as server:
        client = await server.site.connect()
        for _ in range(4):
            server.app.finish.clear()
            client.send(WAIT + large)
            await asyncio.sleep(0.05)
            server.app.finish.set()
            for _ in range(2):
                assert (await client.answer()).startswith(b"HTTP/1.1 200")


async def test_waiting_request_learns_that_its_client_left_with_others_behind_it(
    serve: Serve,
) -> None:
    async with serve() as server:
        client = await server.site.connect()
        client.send(WAIT + REQUEST * 3)
        await asyncio.sleep(0.05)
        client.writer.transport.abort()
        async with asyncio.timeout(PATIENCE):
            while not server.app.left:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)
        assert server.app.began == 1


async def test_invalid_request_gets_a_problem_and_is_counted(serve: Serve) -> None:
    before = closed(Reason.INVALID)
    async with serve() as server:
        client = await server.site.connect()
        client.send(b"THIS IS NOT HTTP\r\n\r\n")
        answer = await client.answer()
        assert answer.startswith(b"HTTP/1.1 400 Bad Request")
        assert b'"code":"invalid_http"' in answer
        assert await client.is_closed()
        assert closed(Reason.INVALID) - before == 1


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
async def test_offer_of_another_protocol_is_ignored(serve: Serve, protocol: str) -> None:
    """RFC 9110, section 7.8. curl offers HTTP/2 in this way."""
    offer = f"\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n".encode()
    async with serve() as server:
        client = await server.site.connect()
        client.send(REQUEST.replace(b"\r\n\r\n", offer))
        assert (await client.answer()).startswith(b"HTTP/1.1 200")
        assert await client.is_open()
