"""Failing endpoints, their circuits, and ways to wait for both."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Table, select

from hookfast.endpoints.limits import Granted, LimitDecision, Limits, LimitState, decide
from hookfast.endpoints.outage import OutageState, workflow_id
from hookfast.storage.circuits import circuits
from hookfast.storage.deliveries import permits
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Attempt, Notice
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT
from tests.support.receiver import Request
from tests.support.waiting import PATIENCE, eventually

QUICK = {
    "failure_threshold": 3,
    "min_span_seconds": 0,
    "probe_delays_seconds": [0.5, 0.5, 30],
}
"""A circuit that opens and probes at once, and then leaves a test 30 s to look at it."""
ON_REQUEST = QUICK | {"probe_delays_seconds": [600]}
"""A circuit that is only probed when a test requests it."""

_ATTEMPTS: Table = Attempt.__table__
_NOTICES: Table = Notice.__table__


async def circuit(stack: Stack, endpoint: str) -> Any:
    """Return the endpoint's stored circuit; None if the endpoint never failed."""
    async with stack.database.read() as connection:
        owned = await circuits.get(connection, endpoint)
    return None if owned is None else owned.circuit


async def until_circuit(stack: Stack, endpoint: str, *states: str) -> Any:
    """Wait until the endpoint's circuit is in one of these states, and return it."""

    async def reached() -> Any:
        now = await circuit(stack, endpoint)
        return now if now is not None and now.state in states else None

    return await eventually(reached)


async def broken(stack: Stack, **options: Any) -> tuple[str, list[str]]:
    """Create an endpoint whose circuit is open; return it and the three deliveries that failed."""
    stack.receiver.routes["/hook"] = "/status/500"
    options = {"plan": PATIENT, "circuit": QUICK, "owner_emails": ["ops@example.com"]} | options
    endpoint = await stack.endpoint("/hook", **options)
    failed = await stack.deliver_together(endpoint, 3)
    await stack.until_all(failed, "retrying")
    await until_circuit(stack, endpoint, "open", "half_open")
    return endpoint, failed


async def hold(stack: Stack, endpoint: str, count: int = 1) -> list[str]:
    """Create deliveries and wait until they are held; return their ids."""
    deliveries = await stack.deliver_together(endpoint, count)
    await stack.until_all(deliveries, "held")
    return deliveries


async def count_held(stack: Stack, endpoint: str) -> int:
    """Return how many deliveries are held for this endpoint."""
    async with stack.database.read() as connection:
        return await circuits.count_held(connection, endpoint)


async def until_workflow_waits(stack: Stack, endpoint: str, *, seconds: int) -> None:
    """Wait until the circuit's workflow does nothing but wait for a timer of at least this long."""
    workflow = stack.client.get_workflow_handle(workflow_id(endpoint))

    async def waits() -> bool:
        last = (await workflow.fetch_history()).events[-1].timer_started_event_attributes
        return round(last.start_to_fire_timeout.ToTimedelta().total_seconds(), -1) >= seconds

    await eventually(waits)


async def until_over(stack: Stack, endpoint: str) -> OutageState:
    """Wait until the endpoint's outage is over, and return its workflow's final state."""
    handle = stack.client.get_workflow_handle(workflow_id(endpoint), result_type=OutageState)
    async with asyncio.timeout(PATIENCE):
        state: OutageState = await handle.result()
    assert state.state == "closed"
    assert (await circuit(stack, endpoint)).state == "closed"
    assert await count_held(stack, endpoint) == 0
    return state


def times_sent(stack: Stack, deliveries: list[str]) -> list[int]:
    """Return how often each of these deliveries arrived at the receiver."""
    return [len(stack.receiver.requests_for(delivery)) for delivery in deliveries]


async def recorded_attempts(stack: Stack, endpoint: str) -> list[tuple[str, int]]:
    """Return the delivery and number of every recorded attempt to this endpoint, sorted."""
    async with stack.database.read() as connection:
        rows = await connection.execute(
            select(_ATTEMPTS.c.delivery_id, _ATTEMPTS.c.number).where(
                _ATTEMPTS.c.endpoint_id == endpoint
            )
        )
        return sorted((row.delivery_id, row.number) for row in rows)


async def triggers(stack: Stack, endpoint: str, trigger: str) -> Counter[str]:
    """Count the attempts with this trigger, by delivery to this endpoint."""
    async with stack.database.read() as connection:
        rows = await connection.execute(
            select(_ATTEMPTS.c.delivery_id).where(
                _ATTEMPTS.c.endpoint_id == endpoint, _ATTEMPTS.c.trigger == trigger
            )
        )
        return Counter(rows.scalars())


async def recover(stack: Stack, endpoint: str, behaviour: str = "/ok") -> None:
    """Let the receiver answer with this behaviour, and request a probe now."""
    stack.receiver.routes["/hook"] = behaviour
    await stack.change_endpoint(endpoint_state.probe_now, endpoint)


def record_slots(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """Return a list to which every permit of this process adds the time of its request."""
    slots: list[datetime] = []

    def recorded(*args: Any, **options: Any) -> tuple[LimitDecision, LimitState]:
        decision, state = decide(*args, **options)
        if isinstance(decision, Granted):
            slots.append(decision.at)
        return decision, state

    monkeypatch.setattr(permits, "decide", recorded)
    return slots


def assert_within_rate(requests: Iterable[Request], rate: int, slots: list[datetime]) -> None:
    """Check that the requests had slots within `rate` per second, and that none came before its
    slot. A busy event loop can start a request long after its slot, but never before."""
    spacing = Limits(rate_per_second=rate).spacing
    assert all(later - earlier >= spacing for earlier, later in pairwise(slots))
    times = sorted(request.at for request in requests)
    assert len(times) <= len(slots)  # a permit may go unused
    assert all(slot.timestamp() <= at for slot, at in zip(slots, times, strict=False))


async def notices(stack: Stack, endpoint: str) -> list[tuple[str, str]]:
    """Return the kind and the address of every notice about this endpoint, sorted."""
    async with stack.database.read() as connection:
        rows = await connection.execute(
            select(_NOTICES.c.kind, _NOTICES.c.email).where(_NOTICES.c.endpoint_id == endpoint)
        )
        return sorted((row.kind, row.email) for row in rows)
