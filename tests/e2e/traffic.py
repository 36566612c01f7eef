"""Events that flow through an API process while something is broken, with what its caller saw."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from tests.e2e.processes import api
from tests.e2e.service_process import free_ports
from tests.e2e.test_temporal_away import EVENT, register
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE, eventually

LONG = 5 * PATIENCE
"""Seconds after which these tests give up waiting: for several processes on a busy machine."""
_PAUSE_SECONDS = 0.2
_LISTS = ("/v1/events", "/v1/deliveries", "/v1/dead-letters")


@dataclass
class Traffic:
    """Events that were emitted, by idempotency keys that are repeated until they are accepted.
    `accepted` has the event of each key; `took`, how long each emit took, in seconds; `refused`,
    how many answers were 503 with a time to come again; `faults`, all answers that are neither."""

    client: httpx2.AsyncClient
    receiver: Receiver
    log: Path
    accepted: dict[str, str] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)
    refused: int = 0
    faults: list[str] = field(default_factory=list)
    stopped: bool = False

    def stop(self) -> None:
        """Emit no more."""
        self.stopped = True

    async def flow(self) -> None:
        """Emit and list until stopped or cancelled."""
        number = 0
        while not self.stopped:
            number += 1
            while not await self.emit(f"traffic-{number}"):  # noqa: ASYNC110 - a service recovers
                await asyncio.sleep(_PAUSE_SECONDS)
            for path in _LISTS:
                answer = await self.client.get(path, params={"limit": 200})
                if answer.status_code != 200:
                    self._note(answer)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def emit(self, key: str) -> bool:
        """Emit an event with this key, and return whether it was accepted."""
        begun = time.monotonic()
        answer = await self.client.post("/v1/events", json=EVENT, headers={"Idempotency-Key": key})
        self.took.append(time.monotonic() - begun)
        if answer.status_code != 202:
            self._note(answer)
            return False
        self.accepted[key] = answer.json()["id"]
        return True

    async def until_accepted(self, more: int) -> None:
        """Wait until this many more events are accepted."""
        wanted = len(self.accepted) + more

        async def accepted() -> bool:
            return len(self.accepted) >= wanted

        await eventually(accepted, timeout=LONG)

    async def until_delivered(self) -> None:
        """Wait until the receiver has every accepted event."""

        async def delivered() -> bool:
            return self.delivered >= set(self.accepted.values())

        await eventually(delivered, timeout=LONG)

    @property
    def delivered(self) -> set[str]:
        """The ids of the events that the receiver got."""
        return {json.loads(request.body)["id"] for request in self.receiver.requests}

    def _note(self, answer: httpx2.Response) -> None:
        if answer.status_code == 503 and int(answer.headers.get("retry-after", "0")) > 0:
            self.refused += 1
        else:
            self.faults.append(f"{answer.status_code} {answer.text}")


@asynccontextmanager
async def traffic(env: Mapping[str, str], tmp_path: Path) -> AsyncIterator[Traffic]:
    """Run an API, and let events flow through it to a receiver until the block ends."""
    [port] = free_ports(1)
    log = tmp_path / "api.log"
    async with (
        Receiver() as receiver,
        api({**env, "HOOKFAST_PORT": str(port)}, log) as client,
    ):
        await until_answers(client, "/healthz")
        await register(client, receiver.url("/ok"))
        flowing = Traffic(client, receiver, log)
        task = asyncio.create_task(flowing.flow())
        try:
            yield flowing
        finally:
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()  # raises the error that ended the traffic


async def until_answers(client: httpx2.AsyncClient, path: str, status: int = 200) -> None:
    """Wait until a GET is answered with this status."""

    async def answers() -> bool:
        with contextlib.suppress(httpx2.TransportError):
            return (await client.get(path)).status_code == status
        return False

    await eventually(answers, timeout=LONG)


def lines_of(log: Path) -> Counter[str]:
    """Count a log's lines of level `warning` and above, by their sentence."""
    said: Counter[str] = Counter()
    for line in log.read_text().splitlines():
        if line.startswith("{"):
            read = json.loads(line)
            if read["level"] not in ("debug", "info"):
                said[read["event"]] += 1
    return said
