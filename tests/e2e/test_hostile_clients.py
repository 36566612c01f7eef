"""Clients that declare and stall, that send all but the last byte, or that do not read their
answers: an API process keeps its memory, and the others keep their service."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.e2e.processes import OPERATOR_KEY, environment, running
from tests.e2e.service_process import NO_TLS, free_ports
from tests.e2e.traffic import until_answers
from tests.integration.api.inbound import SECRET, signed
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(600)]

MIB = 1024 * 1024
TYPE = "order.invoice.paid"
INBOX_BYTES = 3_700_000


@dataclass(frozen=True, slots=True)
class Service:
    """An API process, and an operator's client of it."""

    port: int
    process: psutil.Process
    operator: httpx2.AsyncClient

    @property
    def resident(self) -> int:
        """The memory that the process takes, in bytes."""
        return int(self.process.memory_info().rss)

    async def tenant(self, scope: str = "tenant") -> tuple[str, str]:
        """Create a tenant, and return its id and a key."""
        tenant = (await self.operator.post("/v1/tenants", json={"name": "Acme"})).json()["id"]
        form = {"name": "key", "scope": scope}
        answer = await self.operator.post(f"/v1/tenants/{tenant}/api-keys", json=form)
        return tenant, answer.json()["key"]

    async def source(self, tenant: str) -> str:
        """Create a source of GitHub's webhooks, and return its id."""
        form = {"tenant_id": tenant, "name": "GitHub", "provider": "github", "secrets": [SECRET]}
        answer = await self.operator.post("/v1/sources", json=form)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


@pytest.fixture
async def service(database_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    [port] = free_ports(1)
    env = environment(tmp_path, database_url, "127.0.0.1:1", HOOKFAST_PORT=str(port))
    command = (sys.executable, "-m", "hookfast.cli", "api")
    async with (
        running(*command, env=env, log=tmp_path / "api.log") as process,
        httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
            timeout=PATIENCE,
            trust_env=False,
            verify=NO_TLS,
        ) as operator,
    ):
        await until_answers(operator, "/healthz", 200)
        assert (await operator.put(f"/v1/event-types/{TYPE}", json={})).is_success
        yield Service(port, psutil.Process(process.pid), operator)


@pytest.mark.parametrize("what", ["body", "events", "stream", "poll", "openapi"])
async def test_answers_that_nobody_reads_take_little_memory(service: Service, what: str) -> None:
    """500 clients of one key that may read ask for stored bodies of 3.7 MB, pages of events, a
    stream of all events, a poll, or the API's description."""
    tenant, key = await service.tenant("tenant:read")
    inbox_id = await _received(service, tenant)
    for _ in range(20):
        event = {"type": TYPE, "tenant_id": tenant, "data": "x" * 200_000}
        assert (await service.operator.post("/v1/events", json=event)).status_code == 202
    form = {"tenant_id": tenant, "mode": "poll", "events": ["**"]}
    endpoint = (await service.operator.post("/v1/endpoints", json=form)).json()["id"]
    path = {
        "body": f"/v1/inbox/{inbox_id}/body",
        "events": "/v1/events?limit=200",
        "stream": "/v1/stream?since=2026-01-01T00:00:00Z",
        "poll": f"/v1/endpoints/{endpoint}/poll?cursor=start&ack=none&limit=200",
        "openapi": "/openapi.json",
    }[what]
    await _warm_up(service, path)
    idle = service.resident
    async with _connections(500, receive_buffer=4_096) as sockets:
        request = _head("GET", path, f"Authorization: Bearer {key}")
        await asyncio.gather(*(_send(one, request, service.port) for one in sockets))
        most = idle
        for _ in range(40):
            await asyncio.sleep(0.5)
            most = max(most, service.resident)
            assert (await service.operator.get("/v1/tenants")).status_code == 200
        body = await service.operator.get(f"/v1/inbox/{inbox_id}/body")  # by another caller
        assert len(body.content) == INBOX_BYTES
    assert most - idle <= 64 * MIB, f"{(most - idle) / MIB:.0f} MiB above idle"


async def _warm_up(service: Service, path: str) -> None:
    """Have the process use what it uses for such requests, such as its connections to the database
    and their caches."""

    async def read() -> None:
        async with service.operator.stream("GET", path) as answer:
            assert answer.status_code == 200
            read = 0
            async for part in answer.aiter_raw():
                read += len(part)
                if read > MIB:
                    return

    await asyncio.gather(*(read() for _ in range(20)))


async def _received(service: Service, tenant: str) -> str:
    """Send a webhook of 3.7 MB to a source of the tenant, and return its inbox entry's id."""
    source = await service.source(tenant)
    headers, body = signed(b'"' + b"x" * (INBOX_BYTES - 2) + b'"')
    async with httpx2.AsyncClient(base_url=service.operator.base_url, timeout=PATIENCE) as sender:
        received = await sender.post(f"/in/{source}", headers=headers, content=body)
    assert received.status_code == 202, received.text
    return str(received.json()["id"])


async def test_bodies_that_stall_leave_the_events_of_others_fast(service: Service) -> None:
    """Two tenants open 300 connections, declare 16 MiB each and send 1 byte, 100 kB or 1 MB."""
    attackers = [(await service.tenant("emit"))[1] for _ in range(2)]
    _, key = await service.tenant("emit")
    event = {"type": TYPE, "data": "x" * 200_000}
    idle = service.resident

    async def stall(one: socket.socket, number: int) -> None:
        head = _head(
            "POST",
            "/v1/events/batch",
            f"Authorization: Bearer {attackers[number % 2]}",
            "Content-Type: application/json",
            f"Content-Length: {16 * MIB}",
        )
        await _send(one, head + b"[" * (1, 100_000, 1_000_000)[number % 3], service.port)

    async def honest() -> int:
        answer = await service.operator.post(
            "/v1/events", json=event, headers={"Authorization": f"Bearer {key}"}
        )
        return answer.status_code

    most, slowest, statuses = await _under_attack(service, stall, honest)
    assert set(statuses) == {202}, statuses
    assert slowest < 1
    assert most - idle <= 128 * MIB, f"{(most - idle) / MIB:.0f} MiB above idle"


async def test_unsigned_bodies_that_stall_leave_signed_webhooks_alone(service: Service) -> None:
    """300 connections without a key send all but the last byte of up to 5 MB to two sources."""
    tenant, _ = await service.tenant()
    sources = [await service.source(tenant) for _ in range(3)]

    async def stall(one: socket.socket, number: int) -> None:
        size = (40_000, 1_048_000, 5_242_880)[number % 3]
        head = _head("POST", f"/in/{sources[number % 2]}", f"Content-Length: {size}")
        await _send(one, head + b"x" * (size - 1), service.port)

    sent = 0

    async def honest() -> int:
        nonlocal sent
        sent += 1
        headers, body = signed({"pad": "x" * (100, 20_000, 200_000)[sent % 3]})
        async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, verify=NO_TLS) as sender:
            url = f"http://127.0.0.1:{service.port}/in/{sources[sent % 3]}"
            answer = await sender.post(url, headers=headers, content=body)
        return answer.status_code

    _, _, statuses = await _under_attack(service, stall, honest)
    assert set(statuses) == {202}, statuses


async def _under_attack(
    service: Service,
    stall: Callable[[socket.socket, int], Awaitable[None]],
    honest: Callable[[], Awaitable[int]],
) -> tuple[int, float, list[int]]:
    """Make honest requests while 300 connections stall, for three rounds. Return the most memory
    that the process took, the seconds of the slowest request, and the statuses of all."""
    most, slowest, statuses = 0, 0.0, []
    for _ in range(3):
        async with _connections(300) as sockets:
            stalling = asyncio.gather(
                *(stall(one, number) for number, one in enumerate(sockets)),
                return_exceptions=True,  # it is refused
            )
            for _ in range(40):
                begun = time.monotonic()
                statuses.append(await honest())
                slowest = max(slowest, time.monotonic() - begun)
                most = max(most, service.resident)
                await asyncio.sleep(0.1)
            stalling.cancel()
    return most, slowest, statuses


@asynccontextmanager
async def _connections(
    count: int, *, receive_buffer: int | None = None
) -> AsyncIterator[list[socket.socket]]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.setblocking(False)
            if receive_buffer is not None:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        yield sockets
    finally:
        for one in sockets:
            one.close()


async def _send(one: socket.socket, data: bytes, port: int) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_connect(one, ("127.0.0.1", port))
    await loop.sock_sendall(one, data)


def _head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: x.test", *lines, "", "")).encode()
