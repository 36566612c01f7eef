"""The memory for bodies of a real server: bodies that stall, answers that nobody reads, and bodies
that are sent from the database in parts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import delete, func, select

from api.http import arriving_body, request_body, response_body
from api.routes import stream
from api.stream.hub import StreamHub
from hookfast import byte_budget
from hookfast.byte_budget import ByteBudget
from hookfast.settings.settings import Settings
from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.feed.cursor import START
from hookfast.storage.feed.feed import FeedFilter
from hookfast.storage.tables import Event, InboxEntry
from tests.support.api_client import OPERATOR_KEY
from tests.support.api_server import api_server
from tests.support.raw_http import exchange
from tests.support.seed import seed_endpoint
from tests.support.seed_inbox import seed_entry, seed_source
from tests.support.waiting import PATIENCE, within

pytestmark = pytest.mark.anyio

SHARED = 1_000_000
"""What all claims may hold together in these servers, without the one that has the turn."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server with little memory for bodies, on a database with an inbox entry of 900 kB."""

    port: int
    budget: ByteBudget
    database: Database
    inbox_id: str
    body: bytes

    def head(self, method: str, path: str, *lines: str) -> bytes:
        first = f"{method} {path} HTTP/1.1"
        key = f"Authorization: Bearer {OPERATOR_KEY}"
        return "\r\n".join((first, "Host: hookfast.test", key, *lines, "", "")).encode()

    def post(self, length: int) -> bytes:
        lines = ("Content-Type: application/json", "Connection: close", f"Content-Length: {length}")
        return self.head("POST", "/v1/tenants", *lines)

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}/v1",
            headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
            timeout=PATIENCE,
            trust_env=False,
        )

    async def get_body(self) -> httpx2.Response:
        async with self.client() as client:
            return await client.get(f"/inbox/{self.inbox_id}/body")

    async def until_used(self, low: int, high: int = 2**40) -> None:
        while not low <= self.budget.used <= high:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)


@pytest.fixture
async def server(database: Database, database_url: str, tmp_path: Path) -> AsyncIterator[Server]:
    settings = Settings(
        home=tmp_path,
        database_url=database_url,
        operator_key=OPERATOR_KEY,
        max_event_bytes=500_000,
        max_batch_bytes=500_000,
        max_inbox_bytes=1_000_000,
        max_body_memory=2 * SHARED,
    )
    async with api_server(settings) as running:
        [server] = running.uvicorn.servers
        for listener in server.sockets:  # what the kernel takes of an answer is not in our memory
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
        await seed_endpoint(database, "http://127.0.0.1:4/")
        async with httpx2.AsyncClient(trust_env=False) as client:
            listed = await client.get(
                f"http://127.0.0.1:{running.port}/v1/tenants",
                headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
            )
        tenant = listed.json()["data"][0]["id"]
        source = await seed_source(database, tenant, keyring=running.context.keyring)
        body = bytes(range(256)) * 3_600
        inbox_id = await seed_entry(database, source, tenant, body=body)
        yield Server(running.port, running.context.bodies, database, inbox_id, body)


async def _held(server: Server, sent: int, *, length: int = 400_000) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(server.post(length) + b" " * sent)
    await writer.drain()
    return writer


async def test_body_that_stops_arriving_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arriving_body, "STALL_SECONDS", 0.1)
    for sent in (b"{", b" " * 200_000):
        answer = await exchange(server.port, server.post(400_000), sent)
        assert answer.startswith("HTTP/1.1 408"), answer
        assert "Nothing of the body arrived for 0.1 seconds." in answer
    assert server.budget.used == 0


async def test_declared_length_reserves_nothing(server: Server) -> None:
    held = [await _held(server, 1) for _ in range(50)]
    answer = await exchange(server.port, server.post(400_000), b" " * 400_000)
    assert answer.startswith("HTTP/1.1 422"), answer  # it was read: it is no tenant
    for writer in held:
        writer.close()


async def test_stalled_bodies_make_room_for_others(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_budget, "_SLOW_SECONDS", 0.2)
    async with AsyncExitStack() as stack:
        for _ in range(3):  # two shares, and the turn
            writer = await _held(server, 399_999)
            stack.callback(writer.close)
        await within(PATIENCE, server.until_used(1_199_997))
        for _ in range(3):
            answer = await exchange(server.port, server.post(400_000), b" " * 400_000)
            assert answer.startswith("HTTP/1.1 422"), answer
    await within(PATIENCE, server.until_used(0, 0))


async def test_refused_body_is_read_on_within_bounds(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "_LINGER_BYTES", 100_000)
    monkeypatch.setattr(request_body, "_LINGER_SECONDS", PATIENCE)
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(server.post(2**40))

    async def send_on() -> None:
        while True:
            writer.write(b" " * 65_536)
            await writer.drain()

    with pytest.raises(ConnectionError):
        await within(PATIENCE, send_on())
    writer.close()


async def test_stored_body_is_sent_in_parts_and_whole(server: Server) -> None:
    answer = await server.get_body()
    assert answer.content == server.body
    assert answer.headers["content-length"] == str(len(server.body))
    await within(PATIENCE, server.until_used(0, 0))


async def test_answers_that_nobody_reads_are_bounded_and_make_room(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_body, "_PART_BYTES", 200_000)
    monkeypatch.setattr(byte_budget, "_SLOW_SECONDS", 0.2)
    request = server.head("GET", f"/v1/inbox/{server.inbox_id}/body")
    sockets = [_unread(server.port, request) for _ in range(30)]
    try:
        await within(PATIENCE, server.until_used(800_000))
        assert server.budget.used <= SHARED + 200_000
        # those that are read go on: those that are not make room
        assert (await server.get_body()).content == server.body
    finally:
        for one in sockets:
            one.close()
    await within(PATIENCE, server.until_used(0, 0))


async def test_streams_that_nobody_reads_are_bounded_and_make_room(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads the events since a time by itself."""
    monkeypatch.setattr(stream, "_PIECE_BYTES", 1)  # a piece fits beside a page
    async with server.client() as client:
        await client.put("/event-types/order.invoice.paid", json={})
        for number in range(8):
            event = {"type": "order.invoice.paid", "data": f"{number}" + "x" * 90_000}
            emitted = await client.post("/events", json=event)
            assert emitted.status_code == 202, emitted.text
        request = server.head("GET", "/v1/stream?since=2026-01-01T00:00:00Z")
        sockets = [_unread(server.port, request) for _ in range(20)]
        try:
            await within(PATIENCE, server.until_used(600_000))
            read = 0
            async with client.stream("GET", "/stream?since=2026-01-01T00:00:00Z") as answer:
                async for line in answer.aiter_lines():
                    assert server.budget.used <= 2 * SHARED
                    read += line == "event: event"
                    if read == 8:
                        break
        finally:
            for one in sockets:
                one.close()
    await within(PATIENCE, server.until_used(0, 0))


async def test_streams_that_wait_for_room_keep_no_others_from_reading(server: Server) -> None:
    async with server.client() as client:
        await client.put("/event-types/order.invoice.paid", json={})
        event = {"type": "order.invoice.paid", "data": "x" * 50_000}
        assert (await client.post("/events", json=event)).status_code == 202
    bell = doorbell_for(server.database)
    hub = StreamHub(server.database, bell)
    budget = ByteBudget(2 * SHARED, largest=SHARED)

    async def read(owner: str) -> int:
        with budget.claim("stream", owner) as memory:
            page = await hub.page(FeedFilter(tenant_id=None), START, memory=memory)
            return len(page.events)

    with budget.claim("others", "full") as others, budget.claim("turn") as turn:
        others.count(600_000)
        await turn.grow(900_000)
        waiting = [asyncio.create_task(read("full")) for _ in range(2)]
        assert await within(PATIENCE, read("modest")) == 1
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
    await bell.close()


def _unread(port: int, request: bytes) -> socket.socket:
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
    one.connect(("127.0.0.1", port))
    one.sendall(request)
    return one


async def test_answer_for_which_there_is_no_room_is_503(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_budget, "WAIT_SECONDS", 0.05)
    with server.budget.claim("test") as one, server.budget.claim("test") as turn:
        await one.grow(870_000)
        await turn.grow(500_000)
        answer = await server.get_body()
        assert answer.status_code == 503
        assert answer.json()["code"] == "overloaded"
        assert answer.headers["retry-after"] == "1"
    assert (await server.get_body()).status_code == 200


async def test_long_answer_from_memory_for_which_there_is_no_room_is_503(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_budget, "SHORT_WAIT_SECONDS", 0.05)
    url = f"http://127.0.0.1:{server.port}/docs/assets/swagger-ui-bundle.js"
    async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
        with server.budget.claim("test") as one, server.budget.claim("test") as turn:
            await one.grow(870_000)
            await turn.grow(500_000)
            answer = await client.get(url)
            assert answer.status_code == 503
            assert answer.headers["content-type"] == "application/problem+json"
            assert (await client.get(f"http://127.0.0.1:{server.port}/healthz")).is_success
        assert (await client.get(url)).status_code == 200


async def test_change_whose_answer_finds_no_room_is_not_reported_as_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_budget, "SHORT_WAIT_SECONDS", 0.05)
    events = [{"type": "order.invoice.paid", "data": {"number": one}} for one in range(200)]
    async with server.client() as client:
        await client.put("/event-types/order.invoice.paid", json={})
        answer = await client.post("/events/batch", json={"events": events})
        assert answer.status_code == 202, answer.text
        assert len(answer.content) > byte_budget.SMALL_BYTES
        with server.budget.claim("test") as one, server.budget.claim("test") as turn:
            await one.grow(870_000)
            await turn.grow(500_000)
            with pytest.raises(httpx2.TransportError):
                await client.post("/events/batch", json={"events": events})
    async with server.database.read() as connection:
        stored = await connection.scalar(select(func.count()).select_from(Event.__table__))
    assert stored == 2 * len(events)


async def test_entry_deleted_while_its_body_is_sent_cuts_the_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_body, "_PART_BYTES", 20_000)
    unread = _unread(server.port, server.head("GET", f"/v1/inbox/{server.inbox_id}/body"))
    reader, writer = await asyncio.open_connection(sock=unread)
    await reader.readuntil(b"\r\n\r\n")
    async with server.database.write() as connection:
        await connection.execute(
            delete(InboxEntry.__table__).where(InboxEntry.__table__.c.id == server.inbox_id)
        )
    received = bytearray()

    async def read_on() -> None:
        while data := await reader.read(65_536):
            received.extend(data)

    with suppress(ConnectionError):
        await within(PATIENCE, read_on())
    assert len(received) < len(server.body)
    writer.close()
