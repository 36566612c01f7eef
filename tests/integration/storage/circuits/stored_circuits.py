"""Steps of tests on an endpoint's stored circuit, each in one transaction, as in workers. Times are
seconds after noon."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import select

from hookfast.deliveries.facts import Action, AttemptPlan, Trigger
from hookfast.deliveries.life import Phase, next_step
from hookfast.endpoints.circuit import (
    Cause,
    Circuit,
    Policy,
    State,
    closed,
    release_all,
)
from hookfast.storage.circuits import circuits
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import admission, life_rows, lives
from hookfast.storage.deliveries.life_rows import LifeChange
from hookfast.storage.endpoints import endpoint_health
from hookfast.storage.owners import notifications
from hookfast.storage.tables import Event, Notice
from tests.integration.storage.deliveries.stored_lives import NOON, at, stored_life
from tests.integration.storage.retention.ended import ended, success
from tests.support.seed import seed_delivery

HOUR = timedelta(hours=1)
POLICY = Policy()
FIRST = AttemptPlan(number=1, trigger=Trigger.FIRST, round=0, in_plan=True)
OWNERS = ["ann@example.com", "bob@example.com"]


async def record(
    database: Database, endpoint: str, *seconds: float, succeeded: bool = False
) -> bool:
    """Count attempts that began at these times, in one transaction."""
    status_code = 200 if succeeded else 503
    attempts = [(endpoint, "dlv_1", ended(FIRST, status_code, at(second))) for second in seconds]
    async with database.write() as connection:
        return await endpoint_health.count(
            connection, attempts, policy=POLICY, now=at(max(seconds))
        )


async def circuit_of(database: Database, endpoint: str) -> Circuit:
    async with database.read() as connection:
        found = await circuits.get(connection, endpoint)
    assert found is not None
    return found.circuit


async def change(
    database: Database, endpoint: str, transition: Callable[[Circuit], Circuit], second: float = 500
) -> Circuit:
    async with database.write() as connection:
        changed = await circuits.change(
            connection, endpoint, lambda locked: transition(locked.circuit), now=at(second)
        )
    assert changed is not None
    return changed[1]


async def open_circuit(database: Database, endpoint: str) -> Circuit:
    await record(database, endpoint, 0, 5, 10, 15, 20)
    return await circuit_of(database, endpoint)


async def draining(database: Database, endpoint: str) -> Circuit:
    return await change(
        database, endpoint, lambda circuit: release_all(circuit, Cause.RESUMED, now=at(500))
    )


async def held_count(database: Database, endpoint: str) -> int:
    async with database.read() as connection:
        return await circuits.count_held(connection, endpoint)


async def seed_due(database: Database, endpoint: str) -> str:
    """Store a delivery that is due. Returns its id."""
    return await seed_delivery(database, endpoint, due_at=NOON, next_attempt_at=NOON)


async def planned(database: Database, endpoint: str, delivery: str) -> AttemptPlan:
    """Return the attempt that a delivery makes next, as its worker reads it."""
    life = await stored_life(database, delivery)
    async with database.read() as connection:
        gate = (await circuits.gates(connection, [endpoint]))[endpoint].gate
    attempt = next_step(life, at(600), probe=gate.probes(delivery))
    assert isinstance(attempt, AttemptPlan), attempt
    return attempt


async def decide(
    database: Database, endpoint: str, delivery: str, attempt: AttemptPlan | None = None
) -> LifeChange | None:
    """Decide on an attempt whose endpoint's gate is closed."""
    attempt = attempt or await planned(database, endpoint, delivery)
    async with database.write() as connection:
        return await admission.decide(
            connection,
            delivery,
            endpoint,
            attempt,
            backstop=6 * HOUR,
            probe_lease=timedelta(seconds=100),
            now=at(600),
        )


async def admitted(database: Database, endpoint: str, delivery: str) -> bool:
    """Return whether an attempt is admitted although its endpoint's gate is closed. Otherwise its
    delivery is held."""
    change = await decide(database, endpoint, delivery)
    assert change is None or change.after.phase is Phase.HELD
    return change is None


async def release(database: Database, delivery: str) -> None:
    """Release a held delivery, as a drain does."""
    async with database.write() as connection:
        await lives.apply(connection, [(delivery, Action.RELEASE)], now=at(600), wake=2)


async def close(database: Database, endpoint: str, second: float = 700) -> bool:
    """Close a circuit that holds nothing, as the drain does. Returns whether it is closed."""
    async with database.write() as connection:
        [locked] = await circuits.lock(connection, [endpoint])
        after = closed(locked.circuit, held=await circuits.count_held(connection, endpoint))
        if after.state is not State.CLOSED:
            return False
        await circuits.store(connection, locked, after, now=at(second))
        await notifications.circuit_changed(
            connection, locked, after, policy=POLICY, now=at(second)
        )
        return True


async def notified(database: Database) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the notices with their owners, and the operational events, oldest first."""
    n, e = Notice.__table__.c, Event.__table__.c
    async with database.read() as connection:
        notices = await connection.execute(select(n.kind, n.email).order_by(n.created_at, n.email))
        events = await connection.execute(
            select(e.type).where(e.type.startswith("hookfast.")).order_by(e.id)
        )
        return [(row.kind, row.email) for row in notices], list(events.scalars())


def to_owners(*kinds: str) -> list[tuple[str, str]]:
    return [(kind, owner) for kind in kinds for owner in OWNERS]


async def deliver(database: Database, delivery: str) -> None:
    """Record a successful attempt."""
    async with database.write() as connection:
        life = (await life_rows.lock(connection, [delivery]))[delivery].life
        await lives.apply(connection, [(delivery, success(life, at(650)))], now=at(651))
