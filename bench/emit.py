"""The cost of emitting events for the API alone, without worker and Temporal: `make emit-bench`.

There are three ways to emit: single events over 16 kept connections, batches of 100, and single
events that become 100 deliveries each. CPU is that of the API's process and, separately, of
PostgreSQL's; times depend on other load and are not shown. `--against` names another checkout,
whose API takes turns with this one's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from bench.parts import OPERATOR_KEY, cpu_seconds, own_database, spent_since

CONNECTIONS = 16
BATCH = 100
FAN_OUT = 100
ONE, MANY = "order.invoice.paid", "order.invoice.shared"
WAYS = ("single", f"batch of {BATCH}", f"1 to {FAN_OUT}, a delivery")
console = Console()


@dataclass
class Side:
    """A running API, and the CPU milliseconds it spent on each event, by way in and process."""

    name: str
    port: int
    processes: dict[str, psutil.Process]
    spent: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    async def measure(self, way: str, body: bytes, *, path: str, requests: int, per: int) -> None:
        """Send `requests` such bodies, each worth `per` events or deliveries."""
        before = {name: cpu_seconds(process) for name, process in self.processes.items()}
        await _send(self.port, path, body, requests)
        after = {name: cpu_seconds(process) for name, process in self.processes.items()}
        for name, seconds in spent_since(before, after).items():
            each = seconds / (requests * per) * 1000
            self.spent.setdefault((way, name), []).append(each)


def sample_event(event_type: str) -> dict[str, Any]:
    data = {"invoice_id": "in_8Tx2", "amount": 129900, "currency": "EUR", "note": "x" * 200}
    return {"type": event_type, "data": data}


async def _send(port: int, path: str, body: bytes, requests: int) -> None:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {OPERATOR_KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    left = iter(range(requests))

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            content = await reader.readexactly(length)
            assert answer.startswith(b"HTTP/1.1 202"), content
        writer.close()

    await asyncio.gather(*(connection() for _ in range(min(CONNECTIONS, requests))))


@asynccontextmanager
async def running_api(
    name: str,
    checkout: Path,
    *,
    postgresql: bool,
    register: Callable[[httpx2.AsyncClient], Awaitable[None]],
) -> AsyncIterator[Side]:
    """Run the API of a checkout alone, with what `register` creates in it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="hookfast-emit-") as folder:
        home = Path(folder)
        environment = os.environ | {
            "HOOKFAST_HOME": folder,
            "HOOKFAST_PORT": str(port),
            "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY,
            "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
            "HOOKFAST_ALLOW_HTTP": "true",
            "HOOKFAST_ALLOW_UNVERIFIED": "true",
            "HOOKFAST_LOG_LEVEL": "error",
        }
        with own_database(home, environment, postgresql=postgresql) as database:
            api = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "hookfast.cli", "api"),
                env=environment,
                cwd=checkout,
                stdout=subprocess.DEVNULL,
            )
            try:
                async with _client(port) as client:
                    await register(client)
                yield Side(name, port, {"api": psutil.Process(api.pid)} | database)
            finally:
                api.terminate()
                await api.wait()


@asynccontextmanager
async def _client(port: int) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the API, once it has started."""
    async with httpx2.AsyncClient(
        base_url=f"http://127.0.0.1:{port}",
        headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
        timeout=60,
        trust_env=False,
    ) as client:
        for _ in range(600):
            try:
                if (await client.get("/healthz")).status_code == 200:
                    break
            except httpx2.TransportError:
                await asyncio.sleep(0.1)
        else:
            raise SystemExit("the API did not start")
        yield client


async def register_endpoints(client: httpx2.AsyncClient) -> None:
    """Create one subscription for events of one type, and a hundred for those of the other."""
    tenant = (await create(client, "tenants", name="Bench"))["id"]
    for event_type, endpoints in ((ONE, 1), (MANY, FAN_OUT)):
        await client.put(f"/v1/event-types/{event_type}", json={})
        for number in range(endpoints):
            await create(
                client,
                "endpoints",
                url=f"http://127.0.0.1:4/{number}",
                tenant_id=tenant,
                events=[event_type],
                verification="none",
            )


async def create(client: httpx2.AsyncClient, path: str, **members: Any) -> dict[str, Any]:
    """Create something through the API."""
    answer = await client.post(f"/v1/{path}", json=members)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def _compare(checkouts: dict[str, Path], *, count: int, rounds: int, kind: str) -> None:
    batch = json.dumps({"events": [sample_event(ONE)] * BATCH}).encode()
    loads: tuple[tuple[str, str, bytes, int, int], ...] = (
        (WAYS[0], "/v1/events", json.dumps(sample_event(ONE)).encode(), count, 1),
        (WAYS[1], "/v1/events/batch", batch, count // 20, BATCH),
        (WAYS[2], "/v1/events", json.dumps(sample_event(MANY)).encode(), count // 20, FAN_OUT),
    )
    async with AsyncExitStack() as stack:
        sides = [
            await stack.enter_async_context(
                running_api(
                    name, path, postgresql=kind == "PostgreSQL", register=register_endpoints
                )
            )
            for name, path in checkouts.items()
        ]
        for number in range(rounds + 1):
            for way, path, body, requests, per in loads:
                for side in sides:
                    await side.measure(way, body, path=path, requests=requests, per=per)
            if number == 0:  # the warm-up
                for side in sides:
                    side.spent.clear()
        _report(sides, kind)


def _report(sides: list[Side], kind: str) -> None:
    table = Table(title=f"{kind}: CPU ms an event (median, lowest)")
    for column in ("", "process", *(side.name for side in sides)):
        table.add_column(column, justify="right" if column else "left")
    for way in WAYS:
        for process in sides[0].processes:
            found = [side.spent[way, process] for side in sides]
            cells = (f"{statistics.median(each):.3f} ({min(each):.3f})" for each in found)
            table.add_row(way, process, *cells)
    console.print(table)


async def _main(arguments: argparse.Namespace) -> None:
    checkouts = {"here": Path.cwd()}
    if arguments.against is not None:
        checkouts = {"there": arguments.against.resolve()} | checkouts
    for kind in arguments.database or ["SQLite", "PostgreSQL"]:
        await _compare(checkouts, count=arguments.count, rounds=arguments.rounds, kind=kind)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.emit", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="single events a round")
    parser.add_argument("--rounds", type=int, default=3, help="turns after the warm-up")
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument("--database", action="append", choices=["SQLite", "PostgreSQL"])
    uvloop.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
