"""The events that the benchmarks emit, and their tenants and endpoints."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from bench.parts import Bench

EVENT_TYPE = "order.invoice.paid"
BATCH = 100
_AT_ONCE = 8
"""Endpoints that are created at the same time."""


def event(
    event_type: str = EVENT_TYPE, *, sent_at: int = 0, tenant: str | None = None
) -> dict[str, Any]:
    """Return an event of 380 bytes. `sent_at` is in monotonic nanoseconds, for the sink."""
    new = {"type": event_type, "data": {"sent_at": sent_at, "filler": "x" * 300}}
    return new if tenant is None else new | {"tenant_id": tenant}


def single_body(event_type: str, *, tenant: str) -> str:
    """Return the body that emits one event. The sender replaces `{sent_at}` by the time."""
    return _timed(event(event_type, tenant=tenant))


def batch_body(event_type: str, *, tenant: str, size: int = BATCH) -> str:
    """Return the body that emits a batch of events."""
    return _timed({"events": [event(event_type, tenant=tenant)] * size})


def _timed(content: Any) -> str:
    return json.dumps(content).replace('"sent_at": 0', '"sent_at": {sent_at}')


async def create_tenant(bench: Bench, name: str) -> str:
    """Create a tenant and return its id."""
    answer = await bench.client.post(f"{bench.api}/v1/tenants", json={"name": name})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def create_endpoints(
    bench: Bench, paths: list[str], *, tenant: str, event_type: str, **form: Any
) -> list[str]:
    """Register an event type, and create endpoints that subscribe to it at these paths of the sink.
    `form` is added to each request. Return the endpoints' ids."""
    await bench.client.put(f"{bench.api}/v1/event-types/{event_type}", json={})
    slots = asyncio.Semaphore(_AT_ONCE)

    async def create(path: str) -> str:
        body = {
            "url": bench.sink + path,
            "tenant_id": tenant,
            "events": [event_type],
            "verification": "none",
            **form,
        }
        async with slots:
            answer = await bench.client.post(f"{bench.api}/v1/endpoints", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    return list(await asyncio.gather(*map(create, paths)))


async def register(bench: Bench) -> str:
    """Create a tenant with one endpoint for EVENT_TYPE, the sink. Return the tenant's id."""
    tenant = await create_tenant(bench, "Bench")
    await create_endpoints(bench, ["/product"], tenant=tenant, event_type=EVENT_TYPE)
    return tenant


async def any_with(bench: Bench, status: str) -> bool:
    """Whether any delivery has this status."""
    answer = await bench.client.get(
        f"{bench.api}/v1/deliveries", params={"status": status, "limit": 1}
    )
    assert answer.status_code == 200, answer.text
    return bool(answer.json()["data"])


async def count_waiting(bench: Bench, *, tenant: str) -> int:
    """Count the tenant's pending deliveries."""
    return sum((await _count(bench, {"status": "pending", "tenant_id": tenant})).values())


async def count_unfinished(bench: Bench) -> dict[str, int]:
    """Count the deliveries that have not ended, by status."""
    return await _count(bench, {"since": "2000-01-01T00:00:00Z"})


async def _count(bench: Bench, chosen: dict[str, str]) -> dict[str, int]:
    """Count deliveries by status. `cancel` would act on all that have not ended."""
    answer = await bench.client.post(
        f"{bench.api}/v1/deliveries/actions",
        json={"action": "cancel", "filter": chosen, "dry_run": True},
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["by_status"])
