"""The receiver of a storm, as a process. It fails as its seed says, and records every request.

The answer to a message follows from the seed, the path and the number in the event's data, so it is
the same in every run. `python -m bench.chaos.receiver <seed>` prints its port.

| path             | what it does
|------------------|---------------------------------------------------------------------------------
| `/steady`        | 200; one in eight fails one to three times first, some take up to 3 s
| `/flaky`         | half fail one to four times (500, dropped, too slow); one in ten always fails
| `/slow`          | 0.2 to 2.5 s; one in ten keeps its first request past the timeout
| `/moody`         | 200, and 503 during an outage
| `/leaving`       | 200; one in forty gets 410 first
| `/limited`       | 200 after a moment
| `/ordered`       | 200; one in five fails one to three times first
| `/hopeless`      | 500, or 400 for one in four
| `/outage?<s>`    | GET: `/moody` is away for this many seconds
| `/calm`          | GET: from now on everything is answered with 200 at once
| `/log`           | GET: every request so far, as JSON
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import re
import sys
import time
from collections import Counter
from typing import Any

import uvloop

from bench.chaos.evidence import DROPPED, LEFT, Request

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_MESSAGE = re.compile(rb"\r\nx-hook-id: *(\S+)", re.IGNORECASE)
_ATTEMPT = re.compile(rb"\r\nx-hook-attempt: *(\d+)", re.IGNORECASE)
_SENDER = re.compile(rb"\r\nuser-agent: .*worker/(\d+)", re.IGNORECASE)
_NUMBER = re.compile(rb'"n": *(\d+)')
_LONGER_THAN_ANY_TIMEOUT = 12.0


class World:
    """Answers the requests of all endpoints, and keeps a log of them."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._calm = False
        self._away_until = 0.0
        self._seen: Counter[str] = Counter()
        self.log: list[Request] = []

    def asked(self, path: str) -> Any:
        """Return the answer to a GET of the storm."""
        name, _, argument = path.partition("?")
        match name:
            case "/outage":
                self._away_until = time.time() + float(argument)
            case "/calm":
                self._calm = True
            case "/log":
                return [dataclasses.astuple(one) for one in self.log]
        return len(self.log)

    def answer(self, path: str, message_id: str, number: int) -> tuple[int, float]:
        """Return the status for the next request of a message, and the seconds before it."""
        earlier = self._seen[message_id]
        self._seen[message_id] += 1
        if self._calm:
            return 200, 0.0
        dice = random.Random(f"{self._seed} {path} {number}")
        match path:
            case "/steady":
                if earlier < (dice.randint(1, 3) if dice.random() < 1 / 8 else 0):
                    return dice.choice((500, 503)), 0.0
                return 200, dice.uniform(0.5, 3) if dice.random() < 0.05 else 0.0
            case "/flaky":
                kind = dice.random()
                if earlier < (99 if kind < 0.1 else dice.randint(1, 4) if kind < 0.6 else 0):
                    how = random.Random(f"{self._seed} {number} {earlier}").random()
                    if how < 0.2:
                        return 200, _LONGER_THAN_ANY_TIMEOUT
                    return (DROPPED if how < 0.5 else 500), 0.0
            case "/slow":
                if earlier == 0 and dice.random() < 0.1:
                    return 200, _LONGER_THAN_ANY_TIMEOUT
                return 200, dice.uniform(0.2, 2.5)
            case "/moody":
                return (503 if time.time() < self._away_until else 200), 0.0
            case "/leaving":
                return (410 if earlier == 0 and dice.random() < 1 / 40 else 200), 0.0
            case "/limited":
                return 200, dice.uniform(0.05, 0.3)
            case "/ordered":
                if earlier < (dice.randint(1, 3) if dice.random() < 1 / 5 else 0):
                    return dice.choice((500, 503)), 0.0
            case "/hopeless":
                return (400 if dice.random() < 0.25 else 500), 0.0
        return 200, 0.0


class Connection(asyncio.Protocol):
    """One connection of a sender, or of the storm."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._buffer = b""
        self._begun = 0.0
        self._waiting: tuple[asyncio.TimerHandle, Request] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._buffer:
            self._begun = time.time()
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head, body = self._buffer[: end + 2], self._buffer[end + 4 :]
        found = _LENGTH.search(head)
        if len(body) < (int(found[1]) if found else 0):
            return
        self._buffer = b""  # a sender waits for the answer before it sends the next request
        path = head.split(b" ", 2)[1].decode()
        if head.startswith(b"GET"):
            self._write(200, json.dumps(self._world.asked(path)).encode())
        else:
            self._receive(path, head, body)

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting is not None:
            timer, request = self._waiting
            timer.cancel()
            self._note(request, LEFT)

    def _receive(self, path: str, head: bytes, body: bytes) -> None:
        message, attempt, sender, number = (
            found[1].decode() if (found := pattern.search(text)) else "0"
            for pattern, text in (
                (_MESSAGE, head),
                (_ATTEMPT, head),
                (_SENDER, head),
                (_NUMBER, body),
            )
        )
        status, delay = self._world.answer(path, message, int(number))
        request = Request(
            message, int(attempt), path, int(sender), self._begun, 0.0, status, int(number)
        )
        if delay:
            timer = asyncio.get_running_loop().call_later(delay, self._answer, request)
            self._waiting = timer, request
        else:
            self._answer(request)

    def _answer(self, request: Request) -> None:
        self._waiting = None
        self._note(request, request.status)
        if request.status == DROPPED:
            self._transport.close()
        else:
            self._write(request.status, b"")

    def _note(self, request: Request, status: int) -> None:
        noted = dataclasses.replace(request, ended=time.time(), status=status)
        self._world.log.append(noted)

    def _write(self, status: int, body: bytes) -> None:
        head = b"HTTP/1.1 %d -\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        self._transport.write(head + body)


async def _serve(seed: str) -> None:
    world = World(seed)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(world), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1]))
