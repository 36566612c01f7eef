"""An API process and its hostile clients: they declare and stall, or do not read."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil

from tests.e2e.processes import OPERATOR_KEY, running
from tests.e2e.service_process import NO_TLS
from tests.e2e.traffic import until_answers
from tests.integration.api.inbound import SECRET
from tests.support.memory_group import MemoryGroup
from tests.support.waiting import PATIENCE

MIB = 1024 * 1024
TYPE = "order.invoice.paid"


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


@asynccontextmanager
async def api_process(
    env: Mapping[str, str], log: Path, *, group: MemoryGroup | None = None
) -> AsyncIterator[Service]:
    """Run an API process on the port `HOOKFAST_PORT`, with one event type."""
    command: tuple[str, ...] = (sys.executable, "-m", "hookfast.cli", "api")
    if group is not None:
        command = group.joined(*command)
    port = int(env["HOOKFAST_PORT"])
    async with (
        running(*command, env=env, log=log) as process,
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


@asynccontextmanager
async def connections(
    count: int, *, receive_buffer: int | None = None, address: str = "127.0.0.1"
) -> AsyncIterator[list[socket.socket]]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.setblocking(False)
            one.bind((address, 0))
            if receive_buffer is not None:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        yield sockets
    finally:
        for one in sockets:
            one.close()


async def send(one: socket.socket, data: bytes, port: int) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_connect(one, ("127.0.0.1", port))
    await loop.sock_sendall(one, data)


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: x.test", *lines, "", "")).encode()
