"""Endpoints that fail, and what a test asks of their circuits."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from sqlalchemy import Table, insert, select

from hookfast.clock import utc_now
from hookfast.endpoints.outage import OutageState, workflow_id
from hookfast.ids import new_id
from hookfast.storage.circuits import circuits
from hookfast.storage.endpoints import endpoint_state
from hookfast.storage.tables import Attempt, Delivery, Notice
from tests.integration.delivery.conftest import Stack, eventually
from tests.integration.delivery.plans import PATIENT
from tests.support.receiver import Request
from tests.support.waiting import PATIENCE

QUICK = {
    "failure_threshold": 3,
    "min_span_seconds": 0,
    "probe_delays_seconds": [0.5, 0.5, 30],
}
"""A circuit that opens and probes at once, and then leaves time to look."""
ON_REQUEST = QUICK | {"probe_delays_seconds": [600]}
"""A circuit that is probed when a test says so."""

_DELIVERIES: Table = Delivery.__table__
_ATTEMPTS: Table = Attempt.__table__
_NOTICES: Table = Notice.__table__


async def circuit(stack: Stack, endpoint: str) -> Any:
    """The endpoint's circuit as it is stored now; None where it never failed."""
    async with stack.database.read() as connection:
        owned = await circuits.get(connection, endpoint)
    return None if owned is None else owned.circuit


async def until_circuit(stack: Stack, endpoint: str, *states: str) -> Any:
    """The endpoint's circuit, once it is in one of these states."""

    async def reached() -> Any:
        now = await circuit(stack, endpoint)
        return now if now is not None and now.state in states else None

    return await eventually(reached)


async def until_all(
    stack: Stack, deliveries: Iterable[str], *statuses: str, timeout: float = PATIENCE
) -> None:
    """Return once each of these deliveries has one of these statuses."""
    missing = set(deliveries)
    async with asyncio.timeout(timeout):
        while missing:
            async with stack.database.read() as connection:
                rows = await connection.execute(
                    select(_DELIVERIES.c.id).where(_DELIVERIES.c.status.in_(statuses))
                )
                missing -= set(rows.scalars())
            # seldom where there are many: asking costs what the worker could use
            await asyncio.sleep(0.02 + len(missing) / 2_000)


async def until_attempts(stack: Stack, delivery: str, count: int) -> Any:
    """The delivery's row, once so many attempts of it are recorded."""

    async def reached() -> Any:
        row = await stack.row(delivery)
        return row if row.attempts == count else None

    return await eventually(reached)


async def broken(stack: Stack, **options: Any) -> tuple[str, list[str]]:
    """An endpoint whose circuit is open, and the three deliveries that opened it."""
    stack.receiver.routes["/hook"] = "/status/500"
    options = {"plan": PATIENT, "circuit": QUICK, "owner_emails": ["ops@example.com"]} | options
    endpoint = await stack.endpoint("/hook", **options)
    failed = [await stack.deliver(endpoint) for _ in range(3)]
    await until_all(stack, failed, "retrying")
    await until_circuit(stack, endpoint, "open", "half_open")
    return endpoint, failed


async def held(stack: Stack, endpoint: str, count: int = 1) -> list[str]:
    """So many new deliveries, once they are held."""
    deliveries = [await stack.deliver(endpoint) for _ in range(count)]
    await until_all(stack, deliveries, "held")
    return deliveries


async def count_held(stack: Stack, endpoint: str) -> int:
    """How many deliveries are held for this endpoint now."""
    async with stack.database.read() as connection:
        return await circuits.count_held(connection, endpoint)


async def deliver_many(stack: Stack, endpoint: str, count: int) -> list[str]:
    """So many deliveries of one event to this endpoint; returns their ids, oldest first."""
    first = await stack.row(await stack.deliver(endpoint))
    now = first.created_at
    pending = dict(first._mapping) | {
        "status": "pending",
        "reason": None,
        "attempts": 0,
        "retries": 0,
        "next_attempt_at": now,
        "updated_at": now,
        "leased_until": None,
        "started_at": None,
        "finished_at": None,
    }
    # a millisecond apart, so that they sort in the order in which they are listed here
    ids = [new_id("dlv", now + timedelta(milliseconds=number)) for number in range(1, count)]
    if ids:
        async with stack.database.write() as connection:
            await connection.execute(insert(_DELIVERIES), [pending | {"id": id} for id in ids])
    return [first.id, *ids]


async def until_over(stack: Stack, endpoint: str) -> OutageState:
    """The end of the endpoint's episode."""
    handle = stack.client.get_workflow_handle(workflow_id(endpoint), result_type=OutageState)
    async with asyncio.timeout(PATIENCE):
        state: OutageState = await handle.result()
    assert state.state == "closed"
    assert (await circuit(stack, endpoint)).state == "closed"
    assert await count_held(stack, endpoint) == 0
    return state


def times_sent(stack: Stack, deliveries: list[str]) -> list[int]:
    """How often each of these deliveries arrived at the receiver."""
    return [len(stack.receiver.of_message(delivery)) for delivery in deliveries]


async def sent(stack: Stack, endpoint: str) -> list[tuple[str, int]]:
    """The delivery and number of every recorded attempt to this endpoint."""
    async with stack.database.read() as connection:
        rows = await connection.execute(
            select(_ATTEMPTS.c.delivery_id, _ATTEMPTS.c.number).where(
                _ATTEMPTS.c.endpoint_id == endpoint
            )
        )
        return sorted((row.delivery_id, row.number) for row in rows)


async def triggers(stack: Stack, endpoint: str, trigger: str) -> Counter[str]:
    """How many attempts of each delivery to this endpoint had this trigger."""
    async with stack.database.read() as connection:
        rows = await connection.execute(
            select(_ATTEMPTS.c.delivery_id).where(
                _ATTEMPTS.c.endpoint_id == endpoint, _ATTEMPTS.c.trigger == trigger
            )
        )
        return Counter(rows.scalars())


async def recover(stack: Stack, endpoint: str, behaviour: str = "/ok") -> None:
    """The receiver is well again, and is asked at once."""
    stack.receiver.routes["/hook"] = behaviour
    async with stack.database.write() as connection:
        assert await endpoint_state.probe_now(connection, endpoint, now=utc_now())


def assert_within_rate(requests: Iterable[Request], rate: int, *, since: float) -> None:
    """These requests, all made after the unix time `since`, kept to so many per second."""
    times = sorted(request.at for request in requests)
    for number, at in enumerate(times, 1):
        # No tolerance: what is late cannot be too early.
        assert number <= (at - since) * rate + 1, f"{number} within {at - since:.2f} s"
    for first, at in enumerate(times):
        within = bisect_left(times, at + 1) - first
        # A request starts up to a quarter of a second after its slot where the event loop of both
        # workers, the receiver and the test is that busy; those that follow may be in time.
        assert within <= rate * 1.25, f"{within} within a second"


async def notices(stack: Stack, endpoint: str) -> list[tuple[str, str]]:
    """What was written to whom about this endpoint: kind and address, sorted."""
    async with stack.database.read() as connection:
        rows = await connection.execute(
            select(_NOTICES.c.kind, _NOTICES.c.email).where(_NOTICES.c.endpoint_id == endpoint)
        )
        return sorted((row.kind, row.email) for row in rows)
