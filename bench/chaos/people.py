"""People in a storm, who act on deliveries and endpoints through the API at random, and record
their requests and the answers."""

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
"""How many seconds an endpoint stays paused, at least and at most."""


class People:
    """Act until `stop`. Afterwards `resume_everything` undoes the pauses."""

    def __init__(
        self, service: Service, evidence: Evidence, endpoints: Mapping[str, str], *, seed: str
    ) -> None:
        self._client = service.client
        self._evidence = evidence
        self._endpoints = endpoints
        self._random = random.Random(f"people {seed}")
        self._over = False
        self._acted_on: set[str] = set()

    def stop(self) -> None:
        """Start no more actions."""
        self._over = True

    async def run(self) -> None:
        """Act until stopped, and wait for the last answers."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_PEOPLE):
                group.create_task(self._act_on_deliveries())
            group.create_task(self._look_after_endpoints())

    async def resume_everything(self) -> None:
        """Resume endpoints and deliveries, and enable disabled endpoints. Repeat it, because the
        API may not answer, and an earlier request may still pause deliveries."""
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

    async def _act_on_deliveries(self) -> None:
        while not self._over:
            await asyncio.sleep(self._random.uniform(*_THINK))
            status = self._random.choice(_LOOKS_AT)
            listed = await self._ask(
                "GET", "/v1/deliveries", params={"status": status, "limit": _PAGE}
            )
            if not listed or not listed["data"]:
                continue
            chosen = self._random.choice(listed["data"])["id"]
            if chosen in self._acted_on:
                continue  # by the other person, just now
            self._acted_on.add(chosen)
            await self._ask_of(chosen, self._random.choice(self._actions(status)))
            self._acted_on.discard(chosen)

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
            status = None  # it may be committed nevertheless
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
        """Enable endpoints that a 410 has disabled, and sometimes redrive their dead letters."""
        disabled = await self._ask("GET", "/v1/endpoints", params={"state": "disabled"})
        for endpoint in disabled["data"] if disabled else ():
            form = {"redrive": self._random.random() < 0.5}
            await self._ask("POST", f"/v1/endpoints/{endpoint['id']}/enable", json=form)

    async def _redrive(self, endpoint: str) -> None:
        form = {"filter": {"endpoint_id": endpoint}}
        await self._ask("POST", "/v1/dead-letters/redrive", json=form)

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        """Return the answer, unless there is none or it is an error."""
        try:
            answer = await self._client.request(method, path, **options)
        except httpx2.HTTPError:
            return None
        return answer.json() if answer.is_success else None
