"""An endpoint's circuit in the database, and what a test does to it: each in one transaction, as
workers do. Times are seconds after noon."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import select, update

from hookfast.circuit import (
    Admission,
    AttemptResult,
    Cause,
    Circuit,
    Policy,
    State,
    closed,
    release_all,
)
from hookfast.storage import announcements, circuits, endpoint_health
from hookfast.storage.circuits import hold_or_send
from hookfast.storage.control_tables import Notice
from hookfast.storage.engine import Database
from hookfast.storage.tables import Delivery, Event

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
POLICY = Policy()
OWNERS = ["ann@example.com", "bob@example.com"]


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


async def record(
    database: Database, endpoint: str, *seconds: float, succeeded: bool = False
) -> bool:
    """Count an attempt that began at each of these times, in one transaction."""
    results = [
        (endpoint, AttemptResult(delivery_id="dlv_1", at=at(second), succeeded=succeeded))
        for second in seconds
    ]
    async with database.write() as connection:
        return await endpoint_health.count(connection, results, policy=POLICY, now=at(max(seconds)))


async def circuit_of(database: Database, endpoint: str) -> Circuit:
    async with database.read() as connection:
        owned = await circuits.get(connection, endpoint)
    assert owned is not None
    return owned.circuit


async def change(
    database: Database, endpoint: str, transition: Callable[[Circuit], Circuit], second: float = 500
) -> Circuit:
    async with database.write() as connection:
        changed = await circuits.change(
            connection, endpoint, lambda owned: transition(owned.circuit), now=at(second)
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


async def held(database: Database, endpoint: str) -> int:
    async with database.read() as connection:
        return await circuits.count_held(connection, endpoint)


async def ask(
    database: Database, endpoint: str, delivery: str, *, released: bool = False
) -> Admission:
    """What the attempt asks that finds its endpoint's gate shut."""
    async with database.write() as connection:
        return await hold_or_send(
            connection,
            delivery,
            endpoint,
            released=released,
            backstop=6 * HOUR,
            probe_lease=timedelta(seconds=100),
            now=at(600),
        )


async def close(database: Database, endpoint: str, second: float = 700) -> bool:
    """Close a circuit that holds nothing, as the drain does; whether it is closed."""
    async with database.write() as connection:
        [owned] = await circuits.lock(connection, [endpoint])
        after = closed(owned.circuit, held=await circuits.count_held(connection, endpoint))
        if after.state is not State.CLOSED:
            return False
        await circuits.store(connection, endpoint, after, now=at(second))
        await announcements.circuit_changed(connection, owned, after, policy=POLICY, now=at(second))
        return True


async def told(database: Database) -> tuple[list[tuple[str, str]], list[str]]:
    """Which notices there are, with their owners, and which operational events, oldest first."""
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
    d = Delivery.__table__
    async with database.write() as connection:
        await connection.execute(update(d).where(d.c.id == delivery).values(status="delivered"))
