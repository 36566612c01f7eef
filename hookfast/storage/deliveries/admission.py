"""Admission of attempts by the endpoint's circuit and limits, decided under locks.

Most attempts are made on what `OutgoingLoader` has read, without a transaction. An attempt that the
circuit would stop is decided again here, with the rows of the delivery, its lane, the endpoint and
the circuit locked in this order. That makes "held" exact: a circuit closes in a transaction that
has locked its row too, so no delivery can be put on hold after its circuit last looked for one.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.clock import Clock
from hookfast.deliveries.facts import AttemptPlan, Held, Limited, Undeliverable
from hookfast.deliveries.lane import DeadLetterPolicy
from hookfast.deliveries.outcome import Reason
from hookfast.endpoints.gate import Admission, Gate, due_attempt, hold_reason
from hookfast.endpoints.limits import Granted, Limits
from hookfast.errors import NotFound
from hookfast.storage.circuits import circuits
from hookfast.storage.deliveries import life_rows, lives, permits
from hookfast.storage.deliveries.life_rows import LifeChange, Locked
from hookfast.storage.events import lanes
from hookfast.storage.tables import Endpoint, EndpointHealth

_E = Endpoint.__table__.c
_HEALTH: Table = EndpointHealth.__table__
_H = _HEALTH.c

PROBE_MARGIN = timedelta(seconds=90)
"""A probe without a result is abandoned this long after its deadline, because its worker may have
died and another worker may make the attempt."""


async def decide(
    connection: AsyncConnection,
    delivery_id: str,
    endpoint_id: str,
    attempt: AttemptPlan,
    *,
    backstop: timedelta,
    probe_lease: timedelta,
    now: datetime,
    dead_letters: DeadLetterPolicy = DeadLetterPolicy.CONTINUE,
) -> LifeChange | None:
    """Decide on an attempt that the circuit would hold, turn into a dead letter or use as a probe.
    None: it may be made. Otherwise put its delivery on hold or make it a dead letter, and return
    that change. A delivery that has moved on since it was read is left unchanged."""
    locked = await life_rows.lock(connection, [delivery_id])
    one = locked[delivery_id]
    if one.lane is not None:  # before the endpoint: it may leave its lane as a dead letter
        await lanes.lock(connection, [one.lane], now=now)
    gate = await _locked_gate(connection, endpoint_id)
    due, decision = due_attempt(one.life, gate, delivery_id, now)
    if due != attempt:
        return LifeChange(one, one.life, one.answer)
    fact: Held | Undeliverable
    match decision:
        case Admission.SEND:
            return None
        case Admission.CLAIM | Admission.PROBE if await circuits.claim_probe(
            connection, delivery_id, endpoint_id, until=now + probe_lease
        ):
            return None
        case Admission.DEAD_LETTER:
            state = gate.endpoint_state
            reason = Reason(f"endpoint_{state}")
            fact = Undeliverable(attempt, reason, f"Nothing was sent: the endpoint is {state}.")
        case _:
            held = hold_reason(gate)
            assert held is not None  # noqa: S101 - `gate.admit` holds for no other gate
            fact = Held(attempt, held, now + backstop)
    changes = await lives.apply(
        connection, [(delivery_id, fact)], now=now, locked=locked, dead_letters=dead_letters
    )
    return changes[delivery_id]


async def take_turn(
    connection: AsyncConnection,
    delivery_id: str,
    endpoint_id: str,
    attempt: AttemptPlan,
    *,
    limits: Limits,
    waited: bool,
    lease: timedelta,
    clock: Clock,
) -> Granted | LifeChange:
    """Take a permit from the endpoint's limits. `Granted` says when the attempt may start, and
    counts it as in flight. Otherwise the delivery waits for its turn without using up an attempt.
    """
    locked = await life_rows.lock(connection, [delivery_id])
    turn = await permits.acquire(
        connection,
        endpoint_id=endpoint_id,
        delivery_id=delivery_id,
        limits=limits,
        lease=lease,
        clock=clock,
        waited=waited,
    )
    if isinstance(turn, Granted):
        return turn
    limited = Limited(attempt, turn.until)
    return await _apply(connection, limited, endpoint_id, now=clock(), locked=locked[delivery_id])


async def give_up(
    connection: AsyncConnection,
    delivery_id: str,
    endpoint_id: str,
    fact: Undeliverable,
    *,
    now: datetime,
    dead_letters: DeadLetterPolicy = DeadLetterPolicy.CONTINUE,
) -> LifeChange:
    """Make a delivery a dead letter whose admitted attempt has nothing to send. Raises NotFound if
    its row is missing."""
    locked = await life_rows.lock(connection, [delivery_id])
    if delivery_id not in locked:
        raise NotFound(f"There is no delivery {delivery_id}.")
    return await _apply(
        connection,
        fact,
        endpoint_id,
        now=now,
        locked=locked[delivery_id],
        dead_letters=dead_letters,
    )


async def _apply(
    connection: AsyncConnection,
    fact: Limited | Undeliverable,
    endpoint_id: str,
    *,
    now: datetime,
    locked: Locked,
    dead_letters: DeadLetterPolicy = DeadLetterPolicy.CONTINUE,
) -> LifeChange:
    """Apply a fact about an admitted attempt that is not made."""
    one = locked.delivery_id
    changes = await lives.apply(
        connection, [(one, fact)], now=now, locked={one: locked}, dead_letters=dead_letters
    )
    if changes[one].left_hold:
        await circuits.count_drained(connection, endpoint_id)
    return changes[one]


async def _locked_gate(connection: AsyncConnection, endpoint_id: str) -> Gate:
    if connection.dialect.name == "postgresql":  # SQLite's write transactions exclude each other
        await connection.execute(
            select(_E.id).where(_E.id == endpoint_id).with_for_update(read=True)
        )
        await connection.execute(
            select(_H.endpoint_id).where(_H.endpoint_id == endpoint_id).with_for_update()
        )
    return (await circuits.gates(connection, [endpoint_id]))[endpoint_id].gate
