"""The health of an endpoint, as the API shows it while its receiver fails and recovers."""

from __future__ import annotations

import asyncio

import pytest

from hookfast.endpoints.health import Health
from tests.integration.delivery.circuits import ON_REQUEST
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT
from tests.integration.delivery.platform import Platform
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


async def shown_everywhere(platform: Platform, endpoint: str) -> str | None:
    """Return the endpoint's health, as its list, its page and its circuit show it. None while they
    disagree, because it changed between the requests."""
    get, mine = platform.client.get, {"tenant_id": platform.tenant_id}
    filters = {one.value: get("/endpoints", params=mine | {"health": one}) for one in Health}
    lists = dict(zip(filters, await asyncio.gather(*filters.values()), strict=True))
    found = [name for name, listed in lists.items() if listed.json()["data"]]
    one = (await get(f"/endpoints/{endpoint}")).json()["health"]
    health = (await get(f"/endpoints/{endpoint}/health")).json()["health"]
    [listed] = (await get("/endpoints", params=mine)).json()["data"]
    return one if found == [one] and listed["health"] == health == one else None


async def until_health(platform: Platform, endpoint: str, expected: Health) -> None:
    async def reached() -> bool:
        one = (await platform.client.get(f"/endpoints/{endpoint}")).json()["health"]
        return one == expected == await shown_everywhere(platform, endpoint)

    await eventually(reached)


async def test_endpoint_goes_through_every_health(stack: Stack, platform: Platform) -> None:
    stack.receiver.routes["/hook"] = "/status/500"
    created = await platform.endpoint("/hook", circuit=ON_REQUEST, retry_plan=PATIENT)
    endpoint = created["id"]
    path = f"/endpoints/{endpoint}"
    assert created["health"] == Health.HEALTHY
    await until_health(platform, endpoint, Health.HEALTHY)

    await platform.emit(1)
    await until_health(platform, endpoint, Health.FAILING)
    for number in (2, 3):
        await platform.emit(number)
    await until_health(platform, endpoint, Health.CIRCUIT_OPEN)
    changed = await platform.client.patch(path, json={"description": "till"})
    assert changed.json()["health"] == Health.CIRCUIT_OPEN

    held = await stack.deliver_together(endpoint, 15)
    await stack.until_all(held, "held")
    stack.receiver.routes["/hook"] = "/ok"
    await platform.client.post(f"{path}/resume")
    await until_health(platform, endpoint, Health.DRAINING)
    assert (await platform.client.post(f"{path}/pause")).json()["health"] == Health.PAUSED
    await until_health(platform, endpoint, Health.PAUSED)

    disabled = await platform.client.post(f"{path}/disable")
    assert disabled.json()["health"] == Health.DISABLED
    await until_health(platform, endpoint, Health.DISABLED)
    await platform.client.post(f"{path}/enable")
    await until_health(platform, endpoint, Health.HEALTHY)
