"""How many connections a server has, and which it closes for a new one."""

from __future__ import annotations

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from hookfast.connections.closings import Reason
from hookfast.telemetry import instruments
from tests.integration.connections.conftest import REQUEST, Serve

pytestmark = pytest.mark.anyio

PART = b"GET /ok HTTP/1.1\r\nHost:"


def closed(reason: Reason) -> float:
    return instruments.CONNECTIONS_CLOSED.total(reason=reason.value)


async def test_slow_starters_of_one_site_leave_other_sites_working(serve: Serve) -> None:
    before = closed(Reason.MADE_ROOM_STARTING)
    async with serve(total=100, per_client=50) as server:
        with capture_logs() as lines:
            starters = [await server.site.connect() for _ in range(300)]
            for starter in starters:
                starter.send(PART)
            users = [await server.other.connect() for _ in range(40)]
            for user in users:
                assert await user.is_open()
        assert all([await starter.is_closed() for starter in starters[:250]])
        assert closed(Reason.MADE_ROOM_STARTING) - before == 250
        assert [await user.is_open() for user in users] == [True] * 40
    # one line, however many were closed; the others are counted in the next, a minute later
    assert [(line["reason"], line["client"], line["limit"]) for line in lines] == [
        ("made_room_starting", "127.0.0.2", 50)
    ]


async def test_oldest_starters_are_closed_first_then_the_longest_idle(serve: Serve) -> None:
    async with serve(total=5) as server:
        idle = [await server.site.connect() for _ in range(2)]
        for client in reversed(idle):  # the first is idle for less time than the second
            assert await client.is_open()
        busy = await server.site.connect()
        busy.send(REQUEST.replace(b"/ok", b"/wait"))
        starting = [await server.site.connect() for _ in range(2)]
        starting[1].send(PART)
        await asyncio.sleep(0.05)  # all five are in their phases
        order = [starting[0], starting[1], idle[1], idle[0]]
        for victim in order:
            new = await server.other.connect()
            assert await new.is_open()  # and idle from now on
            assert await victim.is_closed()
        server.app.finish.set()
        assert (await busy.answer()).startswith(b"HTTP/1.1 200")


async def test_request_in_progress_is_never_closed_for_another_connection(serve: Serve) -> None:
    before = closed(Reason.FULL)
    async with serve(total=3) as server:
        busy = [await server.site.connect() for _ in range(3)]
        for client in busy:
            client.send(REQUEST.replace(b"/ok", b"/wait"))
        await asyncio.sleep(0.05)
        for _ in range(5):
            refused = await server.other.connect()
            answer = await refused.ask()
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"\r\nconnection: close" in head
            assert b"\r\nretry-after: 5" in head
            assert b"\r\ncontent-type: application/problem+json" in head
            assert json.loads(body)["code"] == "overloaded"
            assert await refused.is_closed()
        assert closed(Reason.FULL) - before == 5
        server.app.finish.set()
        for client in busy:
            assert (await client.answer()).startswith(b"HTTP/1.1 200")
        assert await (await server.other.connect()).is_open()  # an idle one made room


async def test_unread_answer_counts_as_in_progress(serve: Serve) -> None:
    """A slow reader must not lose the rest of its answer because others connect."""
    async with serve(total=2) as server:
        reader = await server.site.connect(receive_buffer=4_096)
        reader.send(REQUEST.replace(b"/ok", b"/big"))
        await reader.reader.readexactly(1)
        for _ in range(3):
            assert await (await server.other.connect()).is_open()
        rest = await reader.answer()
        assert len(rest.partition(b"\r\n\r\n")[2]) == 4_000_000


async def test_unread_answer_counts_as_in_progress_also_if_the_next_request_begins(
    serve: Serve,
) -> None:
    async with serve(total=2) as server:
        reader = await server.site.connect(receive_buffer=4_096)
        reader.send(REQUEST.replace(b"/ok", b"/big"))
        await reader.reader.readexactly(1)
        reader.send(PART)
        for _ in range(3):
            assert await (await server.other.connect()).is_open()
        assert len((await reader.answer()).partition(b"\r\n\r\n")[2]) == 4_000_000
        reader.send(b" a\r\n\r\n")
        assert (await reader.answer()).startswith(b"HTTP/1.1 200")


async def test_full_site_is_refused_and_others_are_not(serve: Serve) -> None:
    async with serve(total=10, per_client=2) as server:
        for _ in range(2):
            (await server.site.connect()).send(REQUEST.replace(b"/ok", b"/wait"))
        await asyncio.sleep(0.05)
        assert (await (await server.site.connect()).ask()).startswith(b"HTTP/1.1 503")
        assert await (await server.other.connect()).is_open()


async def test_connections_of_trusted_proxies_have_only_the_limit_of_all(serve: Serve) -> None:
    async with serve(
        per_client=1, site_of=lambda peer: None if peer == "127.0.0.2" else peer
    ) as server:
        proxied = [await server.site.connect() for _ in range(5)]
        assert [await client.is_open() for client in proxied] == [True] * 5
        direct = [await server.other.connect() for _ in range(2)]
        assert await direct[1].is_open()
        assert await direct[0].is_closed()


async def test_refused_connections_that_send_nothing_are_closed_too(serve: Serve) -> None:
    async with serve(total=1) as server:
        (await server.site.connect()).send(REQUEST.replace(b"/ok", b"/wait"))
        await asyncio.sleep(0.05)
        for refused in [await server.other.connect() for _ in range(100)]:
            assert (await refused.answer()).startswith(b"HTTP/1.1 503")
            assert await refused.is_closed()


async def test_connections_that_end_by_themselves_make_room(serve: Serve) -> None:
    async with serve(total=2, per_client=2) as server:
        for _ in range(20):
            client = await server.site.connect()
            client.send(REQUEST.replace(b"/ok", b"/wait"))
            await asyncio.sleep(0.02)
            client.writer.transport.abort()
            await asyncio.sleep(0.02)
        assert server.app.began == server.app.left == 20
