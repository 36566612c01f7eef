"""The limits of connections as the API has them, by its settings."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hookfast.connections.closings import Reason
from hookfast.settings.settings import Settings
from tests.integration.connections.conftest import Client, Site
from tests.integration.connections.test_number import PART, closed
from tests.support.api_client import development_settings
from tests.support.api_server import api_server
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(sqlite_url: str, tmp_path: Path) -> Settings:
    limits = {"max_connections": 100, "max_connections_per_client": 50}
    return development_settings(sqlite_url, tmp_path).model_copy(update=limits)


@asynccontextmanager
async def sites(settings: Settings) -> AsyncIterator[tuple[Site, Site]]:
    """Run the API, and return two sites of its clients."""
    opened: list[Client] = []
    async with api_server(settings) as server:
        try:
            yield (
                Site(server.port, "127.0.0.2", opened),
                Site(server.port, "127.0.0.3", opened),
            )
        finally:
            for client in opened:
                client.writer.transport.abort()


async def test_300_slow_starters_of_one_site_leave_the_api_to_others(settings: Settings) -> None:
    before = closed(Reason.MADE_ROOM_STARTING)
    async with sites(settings) as (attacker, user):
        for _ in range(300):
            (await attacker.connect()).send(PART)
        for _ in range(20):
            client = await user.connect()
            assert (await client.ask("/healthz")).startswith(b"HTTP/1.1 200")
        assert closed(Reason.MADE_ROOM_STARTING) - before == 250


async def test_trusted_proxy_may_have_more_connections_than_a_client(settings: Settings) -> None:
    trusting = settings.model_copy(update={"trusted_proxies": (ip_network("127.0.0.2/32"),)})
    async with sites(trusting) as (proxy, _):
        connections = [await proxy.connect() for _ in range(80)]
        for client in connections * 2:
            assert (await client.ask("/healthz")).startswith(b"HTTP/1.1 200")


async def test_unread_answers_of_the_api_are_closed(settings: Settings) -> None:
    before = closed(Reason.UNREAD_ANSWER)
    impatient = settings.model_copy(update={"max_unread_seconds": timedelta(seconds=1)})
    async with sites(impatient) as (attacker, _):
        with capture_logs() as lines:
            clients = [await attacker.connect(receive_buffer=4_096) for _ in range(20)]
            for client in clients:
                client.send(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

            async def all_closed() -> bool:
                return closed(Reason.UNREAD_ANSWER) - before == 20

            await eventually(all_closed)
        told = [line for line in lines if line.get("reason") == "unread_answer"]
        assert [line["client"] for line in told] == ["127.0.0.2"]
        for client in clients:
            with contextlib.suppress(ConnectionError):
                assert len(await client.reader.read(-1)) < 400_000


async def test_connection_is_used_again_after_an_answer_without_a_body(settings: Settings) -> None:
    async with sites(settings) as (client, _):
        user = await client.connect()
        for _ in range(3):
            user.send(b"HEAD /healthz HTTP/1.1\r\nHost: hookfast.test\r\n\r\n")
            head = await user.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert not head.partition(b"content-length: ")[2].startswith(b"0\r\n")
            assert (await user.ask("/healthz")).startswith(b"HTTP/1.1 200")
