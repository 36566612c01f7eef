"""People in a storm: they steer deliveries and endpoints through the API, at random, and note what
they asked for and what they were answered."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2

from bench.chaos.evidence import Action, Evidence
from bench.chaos.service import Service

_PEOPLE = 2
_THINK = (0.1, 0.7)
_LOOKS_AT = ("pending", "retrying", "retrying", "held", "paused", "delivered", "dead", "cancelled")
_PAGE = 100
_AWAY = (1.0, 6.0)
"""Seconds that an endpoint stays paused."""


class People:
    """Run until `stop`. Afterwards `resume_everything` has them resume what they paused."""

    def __init__(
        self, service: Service, evidence: Evidence, endpoints: Mapping[str, str], *, seed: str
    ) -> None:
        self._client = service.client
        self._evidence = evidence
        self._endpoints = endpoints
        self._random = random.Random(f"people {seed}")
        self._over = False
        self._steered: set[str] = set()

    def stop(self) -> None:
        """Begin nothing more."""
        self._over = True

    async def run(self) -> None:
        """Return when they are stopped and have been answered."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_PEOPLE):
                group.create_task(self._steer())
            group.create_task(self._look_after_endpoints())

    async def resume_everything(self) -> None:
        """Resume endpoints and deliveries, and enable what was disabled. To be repeated: the API
        may not answer, and deliveries may be paused by what it was asked before."""
        for endpoint in self._endpoints.values():
            found = await self._ask("GET", f"/v1/endpoints/{endpoint}")
            if found is not None and found["state"] != "enabled":
                action = "enable" if found["state"] == "disabled" else "resume"
                await self._ask("POST", f"/v1/endpoints/{endpoint}/{action}")
        paused = await self._ask("GET", "/v1/deliveries", params={"status": "paused", "limit": 1})
        if paused is None or paused["data"]:
            form = {"action": "resume", "all": True, "rate_per_second": 1000}
            await self._ask("POST", "/v1/deliveries/actions", json=form)

    # -- deliveries ----------------------------------------------------------------------------

    async def _steer(self) -> None:
        while not self._over:
            await asyncio.sleep(self._random.uniform(*_THINK))
            status = self._random.choice(_LOOKS_AT)
            listed = await self._ask(
                "GET", "/v1/deliveries", params={"status": status, "limit": _PAGE}
            )
            if not listed or not listed["data"]:
                continue
            chosen = self._random.choice(listed["data"])["id"]
            if chosen in self._steered:
                continue  # by the other one, just now
            self._steered.add(chosen)
            await self._ask_of(chosen, self._random.choice(self._actions(status)))
            self._steered.discard(chosen)

    @staticmethod
    def _actions(status: str) -> list[str]:
        match status:
            case "paused":
                return ["resume", "resume", "resend", "cancel"]
            case "delivered" | "dead" | "cancelled":
                return ["resend"]
        return ["pause", "pause", "cancel", "cancel", "resend"]

    async def _ask_of(self, delivery_id: str, action: str) -> None:
        begun = time.time()
        status: int | None = None
        try:
            answer = await self._client.post(f"/v1/deliveries/{delivery_id}/{action}")
            status = answer.status_code
        except httpx2.HTTPError:
            pass
        if status is not None and status >= 500:
            status = None  # it may be committed all the same
        self._evidence.actions.append(Action(delivery_id, action, begun, time.time(), status))

    # -- endpoints and dead letters ------------------------------------------------------------

    async def _look_after_endpoints(self) -> None:
        acts: list[Callable[[str], Awaitable[None]]] = [self._pause, self._enable, self._redrive]
        while not self._over:
            await asyncio.sleep(self._random.uniform(*_AWAY))
            endpoint = self._random.choice(list(self._endpoints.values()))
            await self._random.choice(acts)(endpoint)

    async def _pause(self, endpoint: str) -> None:
        await self._ask("POST", f"/v1/endpoints/{endpoint}/pause")
        await asyncio.sleep(self._random.uniform(*_AWAY))
        await self._ask("POST", f"/v1/endpoints/{endpoint}/resume")

    async def _enable(self, _: str) -> None:
        """Enable the endpoints that a 410 has disabled; redrive their dead letters, or not."""
        disabled = await self._ask("GET", "/v1/endpoints", params={"state": "disabled"})
        for endpoint in disabled["data"] if disabled else ():
            form = {"redrive": self._random.random() < 0.5}
            await self._ask("POST", f"/v1/endpoints/{endpoint['id']}/enable", json=form)

    async def _redrive(self, endpoint: str) -> None:
        form = {"filter": {"endpoint_id": endpoint}}
        await self._ask("POST", "/v1/dead-letters/redrive", json=form)

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        """The answer where there is one and it is not a refusal."""
        try:
            answer = await self._client.request(method, path, **options)
        except httpx2.HTTPError:
            return None
        return answer.json() if answer.is_success else None
