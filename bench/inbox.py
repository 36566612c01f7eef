"""The cost of receiving requests, beside less work and beside emitting: `make inbox-bench`.

verify       `POST /in/…` with a wrong signature: body read, HMAC, 401; nothing is stored
received     `POST /in/…` with a new request each time: stored in the inbox, emitted, 202
repeated     the same request repeatedly: a duplicate, 200
emitted      `POST /v1/events` with the same payload

All go to the API of one `hookfast up`, in turns, so that changes in the machine's speed affect all.
Requests are prepared beforehand and sent over kept connections, so that the load generator takes
little of the cores that it shares.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import uvloop
from rich.console import Console
from rich.table import Table

from bench.delivery.events import create_tenant
from bench.parts import OPERATOR_KEY, Bench, running_bench, spent_since

SECRET = "the-secret-of-the-benchmark-0123456789"  # noqa: S105 - of nothing but this
console = Console()


@dataclass
class Side:
    """One kind of request: how to create it, its expected status, and the measurements."""

    name: str
    make: Callable[[], bytes]
    status: int
    rates: list[float] = field(default_factory=list)
    millis: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


class Requests:
    """Creates requests of one size to one source."""

    def __init__(self, source: str, size: int) -> None:
        self._source = source
        self._payload = {"action": "opened", "pad": "x" * size}

    def received(self) -> bytes:
        body = json.dumps(self._payload | {"n": uuid.uuid4().hex}).encode()
        return self._github(body, uuid.uuid4().hex, SECRET)

    def repeated(self) -> bytes:
        return self._github(json.dumps(self._payload).encode(), "the-same", SECRET)

    def wrongly_signed(self) -> bytes:
        return self._github(json.dumps(self._payload).encode(), "none", "wrong")

    def emitted(self) -> bytes:
        event = {"type": "bench.thing.made", "data": self._payload | {"n": uuid.uuid4().hex}}
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}", "Content-Type": "application/json"}
        return _request("/v1/events", headers, json.dumps(event).encode())

    def _github(self, body: bytes, delivery: str, secret: str) -> bytes:
        mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "bench",
            "X-GitHub-Delivery": delivery,
            "X-Hub-Signature-256": f"sha256={mac}",
        }
        return _request(f"/in/{self._source}", headers, body)


def _request(path: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(
        (f"POST {path} HTTP/1.1", "Host: bench", *lines, f"Content-Length: {len(body)}", "", "")
    )
    return head.encode() + body


async def _measure(bench: Bench, side: Side, *, count: int, connections: int) -> None:
    """Measure one round: `count` requests over these connections, each with one in progress."""
    waiting = iter([side.make() for _ in range(count)])
    before = bench.cpu_now()
    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(_send(bench, waiting, side))
    seconds = time.perf_counter() - begun
    spent = spent_since(before, bench.cpu_now())
    side.rates.append(count / seconds)
    side.cpu.append(sum(spent.get(name, 0.0) for name in ("api", "postgresql")) / count * 1000)


async def _send(bench: Bench, waiting: Iterator[bytes], side: Side) -> None:
    address = urlsplit(bench.api)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        for request in waiting:
            begun = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head[9:12])
            lowered = head.lower()
            at = lowered.index(b"content-length:") + len(b"content-length:")
            body = await reader.readexactly(int(lowered[at : lowered.index(b"\r\n", at)]))
            side.millis.append((time.perf_counter() - begun) * 1000)
            if status != side.status:
                raise SystemExit(f"{side.name}: {status} {body.decode()}")
    finally:
        writer.close()


async def _prepare(bench: Bench) -> str:
    """Create a tenant, its source and an event type. Return the source's id."""
    tenant = await create_tenant(bench, "Bench")
    await bench.client.put(f"{bench.api}/v1/event-types/bench.thing.made", json={})
    form = {"tenant_id": tenant, "name": "x", "provider": "github"}
    answer = await bench.client.post(f"{bench.api}/v1/sources", json=form | {"secrets": [SECRET]})
    answer.raise_for_status()
    return str(answer.json()["id"])


def _report(sides: Sequence[Side], title: str) -> None:
    table = Table(title=title)
    for name in ("", "requests/s", "p50 ms", "p95 ms", "p99 ms", "CPU ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for side in sides:
        cuts = statistics.quantiles(side.millis, n=100)
        table.add_row(
            side.name,
            f"{statistics.median(side.rates):,.0f}",
            *(f"{cut:.1f}" for cut in (cuts[49], cuts[94], cuts[98])),
            f"{statistics.median(side.cpu):.2f}",
        )
    console.print(table)


async def _main(arguments: argparse.Namespace) -> None:
    database = "PostgreSQL" if arguments.postgresql else "SQLite"
    with tempfile.TemporaryDirectory(prefix="hookfast-bench-") as home:
        async with running_bench(Path(home), postgresql=arguments.postgresql) as bench:
            requests = Requests(await _prepare(bench), arguments.size)
            sides = [
                Side("verify", requests.wrongly_signed, 401),
                Side("received", requests.received, 202),
                Side("repeated", requests.repeated, 200),
                Side("emitted", requests.emitted, 202),
            ]
            warm_up = Side("warm-up", requests.repeated, 202)
            await _measure(bench, warm_up, count=1, connections=1)
            for number in range(arguments.rounds):
                console.print(f"round {number + 1} of {arguments.rounds} …", style="dim")
                for side in sides:
                    await _measure(
                        bench, side, count=arguments.count, connections=arguments.connections
                    )
    _report(
        sides,
        f"{database}, {arguments.size:,} bytes, {arguments.connections} connections, "
        f"{os.cpu_count()} cores; CPU of the API and the database",
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.inbox", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of all four")
    parser.add_argument("--count", type=int, default=2000, help="requests a round and side")
    parser.add_argument("--connections", type=int, default=32, help="requests at once")
    parser.add_argument("--size", type=int, default=8_000, help="bytes of the payload")
    parser.add_argument("--postgresql", action="store_true", help="instead of SQLite")
    uvloop.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
