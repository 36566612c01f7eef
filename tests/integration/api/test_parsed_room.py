"""Memory for parsed bodies is reserved only by routes that parse them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from hookfast import byte_budget
from tests.support.api_client import OPERATOR_KEY, development_settings
from tests.support.api_server import api_server
from tests.support.waiting import PATIENCE, within

pytestmark = pytest.mark.anyio

TYPE = "order.invoice.paid"


class Slow:
    """A receiver that agrees to the first verification at once, and to others on release."""

    def __init__(self) -> None:
        self.url = ""
        self.waiting = 0
        self.go = asyncio.Event()
        self._agreed = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        if self._agreed:
            self.waiting += 1
            await self.go.wait()
        self._agreed = True
        [challenge] = [line for line in lines if line.lower().startswith("x-hook-challenge:")]
        writer.write(f"HTTP/1.1 200 OK\r\n{challenge}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    async def until_waiting(self, count: int) -> None:
        while self.waiting < count:  # noqa: ASYNC110 - counted by connections
            await asyncio.sleep(0.02)


@asynccontextmanager
async def slow_receiver() -> AsyncIterator[Slow]:
    slow = Slow()
    server = await asyncio.start_server(slow.serve, "127.0.0.1", 0)
    slow.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    async with server:
        yield slow
        slow.go.set()


@pytest.fixture
async def client(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server with memory for 4 MB of parsed bodies."""
    monkeypatch.setattr(byte_budget, "WAIT_SECONDS", 0.1)
    settings = development_settings(sqlite_url, tmp_path)
    settings = settings.model_copy(update={"max_body_memory": 1_000_000})
    async with (
        api_server(settings) as server,
        httpx2.AsyncClient(
            base_url=f"{server.url}/v1",
            headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
            timeout=PATIENCE,
            trust_env=False,
        ) as client,
    ):
        await client.put(f"/event-types/{TYPE}", json={})
        yield client


async def emit(client: httpx2.AsyncClient, count: int) -> httpx2.Response:
    """Emit an event of `count` objects, each of which takes some 300 bytes when parsed."""
    return await client.post(
        "/events/batch", json={"events": [{"type": TYPE, "data": [{}] * count}]}
    )


async def test_body_of_a_route_without_one_takes_no_parsing_memory(
    client: httpx2.AsyncClient,
) -> None:
    """Other requests succeed, no matter how long that route takes."""
    async with slow_receiver() as slow:
        tenant = (await client.post("/tenants", json={"name": "Acme"})).json()["id"]
        form = {"tenant_id": tenant, "url": slow.url, "events": [TYPE]}
        endpoint = (await client.post("/endpoints", json=form)).json()["id"]
        path = f"/endpoints/{endpoint}/verify"
        verifying = asyncio.create_task(client.post(path, content=b"{" * 20_000))
        await within(PATIENCE, slow.until_waiting(1))
        emitted = await emit(client, 4_000)
        assert emitted.status_code == 202, emitted.text
        slow.go.set()
        assert (await verifying).status_code == 200


async def test_parsed_body_keeps_its_memory_until_the_response(
    client: httpx2.AsyncClient,
) -> None:
    async with slow_receiver() as slow:
        tenant = (await client.post("/tenants", json={"name": "Acme"})).json()["id"]
        form = {"tenant_id": tenant, "url": slow.url, "events": [TYPE]}
        assert (await client.post("/endpoints", json=form)).status_code == 201
        # 0.6 MB each: two are within seven eighths of the shared 2 MB, the third has the turn
        form["metadata"] = {"a": [{}] * 2_000}
        making = [asyncio.create_task(client.post("/endpoints", json=form)) for _ in range(3)]
        await within(PATIENCE, slow.until_waiting(3))
        refused = await emit(client, 4_000)  # 1.2 MB
        assert refused.status_code == 503, refused.text
        assert refused.json()["code"] == "overloaded"
        assert (await emit(client, 500)).status_code == 202
        slow.go.set()
        assert [(await each).status_code for each in making] == [201, 201, 201]
        assert (await emit(client, 12_000)).status_code == 202
