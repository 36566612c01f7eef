"""`hookfast endpoints poll`, and the documented consumer, which is killed at any time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.service_process import environment, free_ports
from tests.integration.cli.conftest import TYPE, Run
from tests.support.api_client import OPERATOR_KEY
from tests.support.api_server import ApiServer
from tests.support.forked_command import start_forked
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "poller.py"


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: commands see only the API, and take long to start."""
    return sqlite_url


async def emit(client: httpx2.AsyncClient, tenant: str, n: int) -> str:
    form = {"type": TYPE, "tenant_id": tenant, "data": {"n": n}}
    return str((await client.post("/events", json=form)).json()["id"])


async def test_waiting_events_are_printed_until_acknowledged(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str
) -> None:
    created = await hookfast(
        "endpoints", "create", "--poll", "--tenant", tenant, "--events", "order.**"
    )
    assert created.code == 0, created.err
    endpoint = created.out.split()[1]
    assert "secret" not in created.error_text
    events = [await emit(client, tenant, n) for n in range(3)]
    for options in ((), ("--ack", "--limit", "2")):
        shown = await hookfast("endpoints", "poll", endpoint, *options)
        assert shown.code == 0, shown.err
        assert [line.split()[-1] for line in shown.out.splitlines()] == events
    nothing = await hookfast("endpoints", "poll", endpoint)
    assert (nothing.out, nothing.error_text) == ("", "No events wait.")
    again = await hookfast("endpoints", "poll", endpoint, "--cursor", "start", "--json")
    assert [item["event_id"] for item in again.json["data"]] == events
    neither = await hookfast("endpoints", "create", "--tenant", tenant)
    assert (neither.code, "--poll" in neither.error_text) == (2, True)


def page(*items: dict[str, Any], cursor: str) -> bytes:
    """Return a response of the API with these items."""
    found = {"data": items, "next_cursor": cursor, "done": True, "acknowledged": None, "gap": None}
    return answer("200 OK", json.dumps(found))


def answer(status: str, body: str, content_type: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def item(n: int, **members: Any) -> dict[str, Any]:
    facts = {"message_id": f"evt_{n}", "type": TYPE, "created_at": "2026-01-02T03:04:05Z"}
    return facts | {"event": {"data": {"n": n}}, "request": None, "delivery": None} | members


@asynccontextmanager
async def ailing(*answers: bytes) -> AsyncIterator[tuple[str, list[str]]]:
    """Yield the URL of a service that sends these bytes, one per connection, and then lets callers
    wait; and the list of requests."""
    said, requests = iter(answers), list[str]()
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            requests.append(head.split()[1].decode())
            given = next(said, None)
            if given is None:
                await over.wait()
            writer.write(given or b"")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests
    finally:
        over.set()
        server.close()


BUSY = {"title": "Busy", "status": 503, "code": "unavailable", "detail": "The database is away."}


async def test_follow_survives_a_restart_of_the_service(tmp_path: Path) -> None:
    answers = (
        page(item(1), cursor="one"),
        b"",
        answer("503 Service Unavailable", json.dumps(BUSY), "application/problem+json"),
        answer("502 Bad Gateway", "<h1>Nobody is there</h1>", "text/html"),
        page(item(2), cursor="two"),
    )
    async with ailing(*answers) as (url, requests):
        process = await start_forked(
            ("endpoints", "poll", "ep_" + "1" * 32, "--follow", "--ack"),
            folder=tmp_path,
            env=environment() | {"HOOKFAST_URL": url, "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY},
        )
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            lines = [(await process.stdout.readline()).decode() for _ in range(2)]
            while len(requests) < 6:  # noqa: ASYNC110 - what was printed is acknowledged
                await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()
    assert [line.split()[-1] for line in lines] == ["evt_1", "evt_2"]
    notes = " ".join(said.decode().split())
    assert notes.count("Trying again in ") == 3
    assert "Server disconnected without sending a response. Trying" in notes
    assert "The database is away. Trying" in notes
    assert "502 Bad Gateway" in notes
    *_, again, last = requests
    assert all("cursor=one" in one and "ack=forward" in one for one in (requests[1], again))
    assert "cursor=two" in last


async def test_follow_fails_if_the_service_never_answered(hookfast: Run) -> None:
    [port] = free_ports(1)
    nobody = {"HOOKFAST_URL": f"http://127.0.0.1:{port}"}
    ended = await hookfast("endpoints", "poll", "ep_" + "1" * 32, "--follow", env=nobody)
    assert ended.code == 1
    assert "There is no Hookfast at" in ended.error_text


async def test_the_documented_consumer_outlasts_half_an_answer_and_books_raw_requests(
    tmp_path: Path,
) -> None:
    raw = {"content_type": "application/json", "headers": [], "body": "e30="}
    whole = page(item(1), item(2, event=None, request=raw, payload="raw"), cursor="one")
    async with ailing(whole[:-20], b"", whole) as (url, requests):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(EXAMPLE), "ep_1", str(tmp_path / "books.db")),
            env=environment() | {"HOOKFAST_URL": url, "HOOKFAST_API_KEY": OPERATOR_KEY},
        )
        try:
            async with asyncio.timeout(PATIENCE):
                while len(requests) < 4:
                    assert process.returncode is None, "it ended by itself"
                    await asyncio.sleep(0.01)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    booked = sqlite3.connect(tmp_path / "books.db").execute("SELECT data FROM booked").fetchall()
    assert booked == [('{"n": 1}',), ("e30=",)]


async def test_the_documented_consumer_books_each_event_once_however_often_it_is_killed(
    served: ApiServer,
    client: httpx2.AsyncClient,
    tenant: str,
    tmp_path: Path,
    service_environment: dict[str, str],
) -> None:
    form = {"mode": "poll", "tenant_id": tenant, "events": ["**"]}
    endpoint = (await client.post("/endpoints", json=form)).json()["id"]
    key = (await client.post(f"/tenants/{tenant}/api-keys", json={"name": "consumer"})).json()
    environment = service_environment | {"HOOKFAST_API_KEY": key["key"]}
    books = tmp_path / "books.db"

    @asynccontextmanager
    async def consumer() -> AsyncIterator[None]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(EXAMPLE), endpoint, str(books)),
            env=environment,
            stdout=asyncio.subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            assert process.returncode is None, "it ended by itself"
            process.kill()
            await process.wait()

    async def booked(count: int) -> list[str]:
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(
                    sqlite3.OperationalError
                ):  # the database does not exist yet
                    rows = sqlite3.connect(books).execute("SELECT data FROM booked").fetchall()
                    if len(rows) >= count:
                        return [row[0] for row in rows]
                await asyncio.sleep(0.01)

    events = [await emit(client, tenant, n) for n in range(12)]
    for killed_after in (1, 4, 12):  # within a page, and while it waits for the next
        async with consumer():
            await booked(killed_after)
    async with consumer():
        events.append(await emit(client, tenant, 12))  # while it waits for the next page
        rows = await booked(13)
    assert len(rows) == len(events)
    seen = sqlite3.connect(books).execute("SELECT message_id FROM seen").fetchall()
    assert sorted(one[0] for one in seen) == sorted(events)
