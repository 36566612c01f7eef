"""Clients that declare and stall, that send all but the last byte, or that do not read their
answers: an API process keeps its memory, and the others keep their service."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx2
import pytest

from tests.e2e.hostile_clients import MIB, TYPE, Service, api_process, connections, head, send
from tests.e2e.processes import environment
from tests.e2e.service_process import NO_TLS, free_ports
from tests.integration.api.inbound import signed
from tests.support.waiting import PATIENCE

# alone: others may not take the time that events may take
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.timeout(600),
]

INBOX_BYTES = 3_700_000


@pytest.fixture
async def service(database_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    [port] = free_ports(1)
    env = environment(tmp_path, database_url, "127.0.0.1:1", HOOKFAST_PORT=str(port))
    async with api_process(env, tmp_path / "api.log") as service:
        yield service


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
    async with connections(500, receive_buffer=4_096) as sockets:
        request = head("GET", path, f"Authorization: Bearer {key}")
        await asyncio.gather(*(send(one, request, service.port) for one in sockets))
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
        request = head(
            "POST",
            "/v1/events/batch",
            f"Authorization: Bearer {attackers[number % 2]}",
            "Content-Type: application/json",
            f"Content-Length: {16 * MIB}",
        )
        await send(one, request + b"[" * (1, 100_000, 1_000_000)[number % 3], service.port)

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
        request = head("POST", f"/in/{sources[number % 2]}", f"Content-Length: {size}")
        await send(one, request + b"x" * (size - 1), service.port)

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
        async with connections(300) as sockets:
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
