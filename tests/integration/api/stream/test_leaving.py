"""A client that leaves gives back the slot of its stream or waiting poll at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from api.routes import poll
from hookfast.settings.settings import Settings
from tests.integration.api.stream.conftest import Served, serving
from tests.support.api_client import OPERATOR_KEY, development_settings
from tests.support.waiting import PATIENCE, within

pytestmark = pytest.mark.anyio

CLIENTS = 20


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    settings = development_settings(database_url, tmp_path)
    return settings.model_copy(update={"max_streams": 4 * CLIENTS})


async def ask(served: Served, path: str, key: str) -> asyncio.StreamWriter:
    """Send a request on a connection of its own."""
    _, port = served.url.rsplit(":", 1)
    _, writer = await asyncio.open_connection("127.0.0.1", int(port))
    writer.write(request(path, key))
    return writer


def request(path: str, key: str) -> bytes:
    return f"GET /v1{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode()


@pytest.fixture
async def path(served: Served) -> str:
    """The path of a poll that waits for longer than the tests do."""
    tenant, _ = await served.tenant()
    return f"{await served.polled(tenant)}?wait=30"


async def test_polls_of_clients_that_left_give_back_their_slots_and_read_nothing(
    served: Served, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when the wait is over, which is after 30 s, and not after another read of the feed, for
    which all of them would queue."""
    reads = 0
    read = poll._Poll.read

    async def counted(self: Any, after: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(self, after)

    monkeypatch.setattr(poll._Poll, "read", counted)
    monkeypatch.setattr(poll, "_READ_AGAIN_SECONDS", 60.0)
    writers = [await ask(served, path, OPERATOR_KEY) for _ in range(CLIENTS)]
    await within(PATIENCE, served.until_taken(CLIENTS))
    for number, writer in enumerate(writers):
        if number % 2:
            writer.close()
        else:
            writer.transport.abort()
    await within(15, served.until_taken(0))
    assert reads == CLIENTS


@pytest.mark.parametrize("kind", ["poll", "stream"])
async def test_client_that_sent_its_next_request_already_gives_back_its_slot_too(
    served: Served, path: str, kind: str
) -> None:
    """The server reads nothing while a request waits for the response to the one before, so it
    would not notice that the client leaves."""
    path = path if kind == "poll" else "/stream"
    writer = await ask(served, path, OPERATOR_KEY)
    await within(PATIENCE, served.until_taken(1))
    writer.write(request("/events", OPERATOR_KEY))
    await writer.drain()
    writer.close()
    await within(15, served.until_taken(0))


async def test_next_request_ends_a_waiting_poll_and_both_are_answered(
    served: Served, path: str
) -> None:
    _, port = served.url.rsplit(":", 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    writer.write(request(path, OPERATOR_KEY) + request("/events", OPERATOR_KEY))
    async with asyncio.timeout(PATIENCE):
        for _ in range(2):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            assert b'"data":[]' in (await reader.readexactly(length)).replace(b" ", b"")
    # the connection is as good as new
    writer.write(request(path, OPERATOR_KEY))
    await within(PATIENCE, served.until_taken(1))
    writer.close()
    await within(15, served.until_taken(0))


async def test_shutdown_ends_a_waiting_poll_with_an_empty_page(settings: Settings) -> None:
    async with serving(settings) as served:
        tenant, _ = await served.tenant()
        path = await served.polled(tenant)
        waiting = asyncio.create_task(served.operator.get(path, params={"wait": 30}))
        await within(PATIENCE, served.until_taken(1))
        served.server.should_exit = True
        async with asyncio.timeout(PATIENCE):
            answer = await waiting
        assert answer.json()["data"] == []
