"""The sender in Python, for machines without Go; it does the same as `bench/load/send.go`.
`python -m bench.sending` reads a plan as JSON from stdin and prints its outcome as JSON
(`bench.loading`)."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import uvloop

_MOST_FAULTS = 5

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Sender:
    """Sends one plan."""

    def __init__(self, plan: dict[str, Any]) -> None:
        target = urlsplit(plan["url"])
        assert target.hostname is not None
        assert target.port is not None
        self._address = (target.hostname, target.port)
        self._head = (
            f"POST {target.path} HTTP/1.1\r\nHost: {target.netloc}\r\n"
            f"Authorization: Bearer {plan['token']}\r\nContent-Type: application/json\r\n"
        )
        self._plan = plan
        self._idle: list[_Streams] = []
        self._statuses: Counter[str] = Counter()
        self._faults: list[str] = []
        self._latencies = [0.0] * plan["count"]

    async def send(self) -> dict[str, Any]:
        """Send everything and return the outcome."""
        spent, begun = time.process_time(), time.monotonic_ns()
        await (self._open_loop(begun) if self._plan["rate"] else self._closed_loop())
        return {
            "begun": begun,
            "ended": time.monotonic_ns(),
            "latencies": self._latencies,
            "statuses": self._statuses,
            "faults": self._faults[:_MOST_FAULTS],
            "cpu_seconds": time.process_time() - spent,
        }

    async def _closed_loop(self) -> None:
        numbers = itertools.count()

        async def connection() -> None:
            while (number := next(numbers)) < self._plan["count"]:
                await self._one(number, time.monotonic_ns())

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._plan["connections"], self._plan["count"])):
                group.create_task(connection())

    async def _open_loop(self, begun: int) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._plan["count"]):
                planned = begun + int(number / self._plan["rate"] * 1e9)
                # uvloop's timers tick in milliseconds: one may fire early
                while (early := planned - time.monotonic_ns()) > 0:  # noqa: ASYNC110
                    await asyncio.sleep(early / 1e9)
                group.create_task(self._one(number, planned))

    async def _one(self, number: int, planned: int) -> None:
        bodies = self._plan["bodies"]
        body = bodies[number % len(bodies)].replace("{sent_at}", str(planned)).encode()
        head = f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode()
        status = "0"
        try:
            streams = self._idle.pop() if self._idle else await self._connected()
            status, content = await _exchange(streams, head + body)
            self._idle.append(streams)
            if status[0] != "2" or self._plan["expect"].encode() not in content:
                self._faults.append(f"{status}: {content[:300].decode(errors='replace')}")
        except (OSError, asyncio.IncompleteReadError) as problem:
            self._faults.append(repr(problem))
        self._statuses[status] += 1
        self._latencies[number] = round((time.monotonic_ns() - planned) / 1e6, 3)

    async def _connected(self) -> _Streams:
        return await asyncio.open_connection(*self._address)


async def _exchange(streams: _Streams, request: bytes) -> tuple[str, bytes]:
    reader, writer = streams
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    return head.split(b" ", 2)[1].decode(), await reader.readexactly(length)


if __name__ == "__main__":
    print(json.dumps(uvloop.run(Sender(json.load(sys.stdin)).send())))
