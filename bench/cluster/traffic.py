"""The platform in front of a cluster: emits single events and batches through Caddy until each is
accepted, and notes what it saw. It repeats requests only because they have idempotency keys."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2

BATCH: Final = 100
_ENDPOINTS = 6
_FLAKY = 0.1
"""Share of the events whose endpoint fails some of them first, so that retries are due too."""
_SINGLE_CALLERS, _BATCH_CALLERS = 12, 4
_DELAYS = [1, 2, 4, 600, 600]
"""No endpoint fails more than three times. The plan is much longer than an outage, because a
delivery whose plan has passed meanwhile becomes a dead letter."""
_AGAIN_AFTER = (0.1, 0.5)
_REQUEST_SECONDS = 20.0


@dataclass(slots=True)
class Seen:
    """What the callers of one row saw. `accepted`: the deliveries of each accepted event;
    `answers`: statuses and errors, by how often; `longest`: the most seconds from the first attempt
    to emit something until it was accepted."""

    accepted: dict[str, int] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0


class Platform:
    """Emits the events of one run; `register` comes first."""

    def __init__(self, client: httpx2.AsyncClient, receiver: str, *, seed: str) -> None:
        self._client = client
        self._receiver = receiver
        self._random = random.Random(seed)
        self._types: list[str] = []
        self._tenant = ""
        self._numbers = iter(range(1_000_000_000))

    async def register(self) -> None:
        """Create a tenant with endpoints, each for its own event type."""
        self._tenant = (await self._create("/v1/tenants", {"name": "Cluster"}))["id"]
        names = [*(f"plain-{number}" for number in range(_ENDPOINTS)), "steady"]
        for name in names:
            event_type = f"cluster.{name.replace('-', '_')}.sent"
            answer = await self._client.put(f"/v1/event-types/{event_type}", json={})
            answer.raise_for_status()
            endpoint = {
                "url": f"{self._receiver}/{name}",
                "tenant_id": self._tenant,
                "events": [event_type],
                "verification": "none",
                "retry_plan": {"delays_seconds": _DELAYS, "jitter": 0.1},
                "circuit": {"failure_threshold": 1000},  # its opening would only add waiting
            }
            await self._create("/v1/endpoints", endpoint)
            self._types.append(event_type)

    async def emit(self, *, singles: int, batched: int, seconds: float) -> Seen:
        """Emit this many events, evenly over this time, until every one is accepted."""
        seen = Seen()
        sizes = [BATCH] * (batched // BATCH) + ([batched % BATCH] if batched % BATCH else [])
        begun = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for number_of_callers, batch, all_sizes in (
                (_SINGLE_CALLERS, False, [1] * singles),
                (_BATCH_CALLERS, True, sizes),
            ):
                step = seconds / max(1, len(all_sizes))
                due = iter([(begun + n * step, size) for n, size in enumerate(all_sizes)])
                for _ in range(number_of_callers):
                    group.create_task(self._emit_each(due, seen, batch=batch))
        return seen

    async def _emit_each(
        self, due: Iterator[tuple[float, int]], seen: Seen, *, batch: bool
    ) -> None:
        loop = asyncio.get_running_loop()
        for at, size in due:
            await asyncio.sleep(max(0.0, at - loop.time()))
            events = [self._event() for _ in range(size)]
            key = f"cluster-{events[0]['data']['n']}"
            if batch:
                await self._until_accepted("/v1/events/batch", {"events": events}, key, seen)
            else:
                await self._until_accepted("/v1/events", events[0], key, seen)

    def _event(self) -> dict[str, Any]:
        flaky = self._random.random() < _FLAKY
        event_type = self._types[-1] if flaky else self._random.choice(self._types[:-1])
        return {"type": event_type, "tenant_id": self._tenant, "data": {"n": next(self._numbers)}}

    async def _until_accepted(self, path: str, body: dict[str, Any], key: str, seen: Seen) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            try:
                answer = await self._client.post(
                    path, json=body, headers={"Idempotency-Key": key}, timeout=_REQUEST_SECONDS
                )
            except httpx2.HTTPError as error:
                seen.answers[type(error).__name__] += 1
            else:
                seen.answers[str(answer.status_code)] += 1
                if answer.status_code < 300:
                    seen.longest = max(seen.longest, loop.time() - begun)
                    seen.accepted |= _accepted(answer.json())
                    return
                if answer.status_code < 500:
                    raise RuntimeError(f"POST {path} was rejected: {answer.text}")
            await asyncio.sleep(self._random.uniform(*_AGAIN_AFTER))

    async def _create(self, path: str, form: dict[str, Any]) -> Any:
        answer = await self._client.post(path, json=form)
        if answer.status_code != 201:
            raise RuntimeError(f"POST {path}: {answer.text}")
        return answer.json()


def _accepted(answer: dict[str, Any]) -> dict[str, int]:
    """Return the deliveries of each accepted event. Raises RuntimeError if one was rejected."""
    if answer.get("rejected"):
        raise RuntimeError(f"Events of a batch were rejected: {answer}")
    items = answer["data"] if "rejected" in answer else [answer]
    return {item["id"]: item["deliveries"] for item in items}
