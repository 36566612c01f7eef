"""The platform in a storm: registers endpoints, and emits events until each is accepted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any, Final

import httpx2

from bench.chaos.evidence import Evidence
from bench.chaos.service import Service

DELAYS: Final = (1, 2, 4, 8, 15)
"""Seconds between the attempts of a delivery."""

_PLAN = {"delays_seconds": list(DELAYS), "jitter": 0.1, "retry_on": "all"}
_CIRCUIT = {"failure_threshold": 5, "min_span_seconds": 1, "probe_delays_seconds": [1, 2, 4]}
_ENDPOINTS: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "steady": (35, {}),
    "flaky": (15, {"timeout_seconds": 3}),
    "slow": (10, {"timeout_seconds": 8}),  # too long for the fast lane
    "moody": (20, {}),
    "leaving": (10, {}),
    "limited": (10, {"rate_limit_per_second": 20, "max_in_flight": 3}),
    # its circuit stays closed, so that its deliveries become dead letters
    "hopeless": (
        4,
        {
            "retry_plan": {"delays_seconds": [1, 2], "retry_on": "transient"},
            "circuit": {"failure_threshold": 1000},
        },
    ),
}
"""Each endpoint's share of the events, and its own settings."""
_ORDERED: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "ordered": (80, {"ordered": True, "retry_plan": {"delays_seconds": [1, 1, 1, 2, 4]}}),
    "moody": (20, {"ordered": True}),  # its circuit opens: held deliveries keep their order
}
"""The same with `--ordered`: each key's events are emitted one after the other."""
_EVERYONE = 5
"""The share of the events that two endpoints get."""
_AT_ONCE = 16
_AGAIN_AFTER = (0.1, 1.0)


class Emitter:
    """Emits this many events evenly over a period."""

    def __init__(
        self,
        service: Service,
        evidence: Evidence,
        *,
        seed: str,
        events: int,
        seconds: float,
        keys: int = 0,
    ) -> None:
        self._service = service
        self._evidence = evidence
        self._random = random.Random(f"emitter {seed}")
        self._seed = seed
        self._events = events
        self._seconds = seconds
        self._keys = keys
        self._kinds = _ORDERED if keys else _ENDPOINTS
        self._tenant = ""
        self.endpoints: dict[str, str] = {}
        """Ids, by name."""

    async def register(self) -> None:
        """Register the tenant, its endpoints and its event types."""
        self._tenant = (await self._create("/v1/tenants", {"name": "Chaos"}))["id"]
        for name in (*self._kinds, "everyone"):
            answer = await self._service.client.put(f"/v1/event-types/chaos.{name}.sent", json={})
            answer.raise_for_status()
        for name, (_, options) in self._kinds.items():
            also = ["chaos.everyone.sent"] if name in ("steady", "moody") else []
            endpoint = await self._create(
                "/v1/endpoints",
                {
                    "url": f"{self._service.receiver}/{name}",
                    "tenant_id": self._tenant,
                    "events": [f"chaos.{name}.sent", *also],
                    "verification": "none",
                    "retry_plan": _PLAN,
                    "circuit": _CIRCUIT,
                    **options,
                },
            )
            self.endpoints[name] = endpoint["id"]

    async def run(self) -> None:
        """Emit until every event is accepted."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        shares = {name: share for name, (share, _) in self._kinds.items()} | {"everyone": _EVERYONE}
        names = self._random.choices(list(shares), list(shares.values()), k=self._events)
        numbered = list(enumerate(names))
        numbers = iter(numbered)

        async def emit_one_after_the_other(
            events: Iterable[tuple[int, str]], key: str | None
        ) -> None:
            for number, name in events:
                due = begun + number * self._seconds / self._events
                await asyncio.sleep(max(0.0, due - loop.time()))
                if key is not None:
                    self._evidence.keys[number] = key
                await self._emit(number, name, key)

        async with asyncio.TaskGroup() as group:
            for first in range(self._keys):
                of_key = numbered[first :: self._keys]
                group.create_task(emit_one_after_the_other(of_key, f"key {first}"))
            for _ in range(0 if self._keys else _AT_ONCE):
                group.create_task(emit_one_after_the_other(numbers, None))

    async def _emit(self, number: int, name: str, key: str | None) -> None:
        event = {"type": f"chaos.{name}.sent", "tenant_id": self._tenant, "data": {"n": number}}
        if key is not None:
            event["ordering_key"] = key
        while True:
            try:
                answer = await self._service.client.post(
                    "/v1/events",
                    json=event,
                    headers={"Idempotency-Key": f"chaos-{self._seed}-{number}"},
                )
            except httpx2.HTTPError:
                pass
            else:
                if answer.status_code == 202:
                    accepted = answer.json()
                    self._evidence.accepted[accepted["id"]] = accepted["deliveries"]
                    return
                if answer.status_code < 500:
                    raise RuntimeError(f"An event was refused: {answer.text}")
            await asyncio.sleep(self._random.uniform(*_AGAIN_AFTER))

    async def _create(self, path: str, form: dict[str, Any]) -> Any:
        answer = await self._service.client.post(path, json=form)
        if answer.status_code != 201:
            raise RuntimeError(f"POST {path}: {answer.text}")
        return answer.json()
