"""`POST /in/…` against a real server: many requests at once, chunks, slow bodies, and responses
sent before the body arrives."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import func, insert, select

from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Delivery, Event, InboxEntry, Subscription, SubscriptionPattern
from tests.integration.api.inbound import signed
from tests.support.api_server import api_server
from tests.support.raw_http import exchange
from tests.support.seed import seed_endpoint
from tests.support.seed_inbox import seed_source

pytestmark = pytest.mark.anyio

CAP = 4_096


@dataclass
class Server:
    """A real server with small limits, on a database with one source and one subscription."""

    port: int
    database: Database
    source: str

    async def exchange(self, *parts: bytes, pause: float = 0.0) -> str:
        return await exchange(self.port, *parts, pause=pause)

    def head(self, *lines: str, source: str | None = None) -> bytes:
        first = f"POST /in/{source or self.source} HTTP/1.1"
        return "\r\n".join((first, "Host: hookfast.test", *lines, "", "")).encode()

    async def count(self, table: type) -> int:
        async with self.database.read() as connection:
            counting = select(func.count()).select_from(table.__table__)  # type: ignore[attr-defined]
            return await connection.scalar(counting) or 0


@pytest.fixture
async def server(database: Database, database_url: str, tmp_path: Path) -> AsyncIterator[Server]:
    settings = Settings(
        home=tmp_path,
        database_url=database_url,
        max_inbox_bytes=CAP,
        max_body_seconds=timedelta(seconds=0.5),
    )
    async with api_server(settings) as running:
        keyring = running.context.keyring
        endpoint = await seed_endpoint(database, "http://127.0.0.1:4/")
        async with database.read() as connection:
            table = Subscription.__table__
            found = await connection.execute(select(table).where(table.c.endpoint_id == endpoint))
            subscription = found.one()
        async with database.write() as connection:
            pattern = {
                "pattern": "**",
                "tenant_id": subscription.tenant_id,
                "subscription_id": subscription.id,
            }
            await connection.execute(insert(SubscriptionPattern.__table__), pattern)
        source = await seed_source(database, subscription.tenant_id, keyring=keyring)
        yield Server(running.port, database, source)


def lines_of(headers: dict[str, str]) -> list[str]:
    return [f"{name}: {value}" for name, value in headers.items()]


async def test_hundred_simultaneous_duplicates_are_one_event(server: Server) -> None:
    headers, body = signed({"n": 1}, delivery="the-same")
    limits = httpx2.Limits(max_connections=100)
    async with httpx2.AsyncClient(limits=limits, timeout=30) as client:
        url = f"http://127.0.0.1:{server.port}/in/{server.source}"
        answers = await asyncio.gather(
            *(client.post(url, headers=headers, content=body) for _ in range(100))
        )
    assert Counter(answer.status_code for answer in answers) == {202: 1, 200: 99}
    assert len({answer.json()["event_id"] for answer in answers}) == 1
    for table in (InboxEntry, Event, Delivery):
        assert await server.count(table) == 1


async def test_chunked_body_is_accepted_and_limited(server: Server) -> None:
    headers, body = signed({"n": 1})
    chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:3], body[3:])]
    head = server.head("Connection: close", "Transfer-Encoding: chunked", *lines_of(headers))
    answer = await server.exchange(head, *chunks, b"0\r\n\r\n", pause=0.02)
    assert answer.startswith("HTTP/1.1 202"), answer
    endless = [b"800\r\n" + b"x" * 0x800 + b"\r\n"] * 3
    answer = await server.exchange(head, *endless)
    assert answer.startswith("HTTP/1.1 413"), answer


async def test_body_size_is_limited_by_its_declared_length(server: Server) -> None:
    for size, status in ((CAP, 202), (CAP + 1, 413)):
        headers, body = signed(b'"' + b"x" * (size - 2) + b'"')
        head = server.head("Connection: close", f"Content-Length: {size}", *lines_of(headers))
        answer = await server.exchange(head, body)
        assert answer.startswith(f"HTTP/1.1 {status}"), answer
    answer = await server.exchange(head)  # no byte of the body has to arrive first
    assert answer.startswith("HTTP/1.1 413"), answer


async def test_body_that_arrives_too_slowly_answers_408(server: Server) -> None:
    headers, body = signed({"n": 1})
    head = server.head(f"Content-Length: {len(body)}", *lines_of(headers))
    answer = await server.exchange(head, body[:3])
    assert answer.startswith("HTTP/1.1 408"), answer
    assert await server.count(InboxEntry) == 0


async def test_early_response_does_not_read_the_body_and_closes_the_connection(
    server: Server,
) -> None:
    headers, body = signed({"n": 1})
    unknown = "src_" + "0" * 32
    head = server.head(f"Content-Length: {len(body)}", *lines_of(headers), source=unknown)
    # the body never arrives; with `Expect` the server would not wait for it
    expecting = head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    answer = await server.exchange(expecting)
    assert answer.startswith("HTTP/1.1 404"), answer
    assert "connection: close" in answer.lower()
    answer = await server.exchange(head, body)
    assert answer.startswith("HTTP/1.1 404"), answer


async def test_optional_white_space_around_a_signature_is_no_part_of_it(server: Server) -> None:
    for n, around in enumerate(("{} ", "\t{}", "  {}\t ")):
        headers, body = signed({"n": n})
        padded = {name: around.format(value) for name, value in headers.items()}
        head = server.head(f"Content-Length: {len(body)}", "Connection: close", *lines_of(padded))
        answer = await server.exchange(head + body)
        assert answer.startswith("HTTP/1.1 202"), answer


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("X-Hub-Signature-256", 401, "signature_malformed"),
        ("X-GitHub-Delivery", 422, "repeated_header"),
        ("X-GitHub-Event", 422, "repeated_header"),
        ("Content-Type", 400, "bad_request"),
    ],
)
async def test_header_that_may_stand_once_and_is_repeated_is_rejected(
    server: Server, name: str, status: int, code: str
) -> None:
    headers, body = signed({})
    lines = [*lines_of(headers), f"{name}: {headers[name]}"]
    head = server.head(f"Content-Length: {len(body)}", "Connection: close", *lines)
    answer = await server.exchange(head + body)
    assert answer.startswith(f"HTTP/1.1 {status}"), answer
    assert f'"code":"{code}"' in answer.replace(": ", ":")


async def test_connection_serves_several_requests(server: Server) -> None:
    parts = []
    for n, last in ((1, False), (2, True)):
        headers, body = signed({"n": n})
        close = ["Connection: close"] if last else []
        head = server.head(*close, f"Content-Length: {len(body)}", *lines_of(headers))
        parts.append(head + body)
    answer = await server.exchange(b"".join(parts))
    assert answer.count("HTTP/1.1 202") == 2, answer


async def test_client_that_disconnects_early_stores_nothing(server: Server) -> None:
    headers, body = signed({"n": 1})
    head = server.head(f"Content-Length: {len(body)}", *lines_of(headers))
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(head + body[:3])
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    answer = await server.exchange(server.head("Connection: close", *lines_of(headers)))
    assert answer.startswith("HTTP/1.1 401"), answer  # it serves on
    assert await server.count(InboxEntry) == 0
