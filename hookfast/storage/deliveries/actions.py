"""What people and jobs ask of deliveries. A wish is committed before anybody is told: its delivery
changes in the caller's transaction and goes into the outbox, and the relay wakes its workflow."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Literal

from sqlalchemy import Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.life import Action, Life
from hookfast.deliveries.messages import ReceivedSignals, Urgency
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import EndpointState
from hookfast.errors import Conflict, NotFound
from hookfast.storage.circuits.circuits import gates
from hookfast.storage.deliveries import lives
from hookfast.storage.deliveries.lives import Change
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c

UserAction = Literal["pause", "resume", "resend", "cancel"]
"""What a person may ask of a delivery."""


async def request(
    connection: AsyncConnection, delivery_id: str, action: UserAction, *, now: datetime
) -> Change:
    """Do as a person asks. Raises NotFound, and Conflict where the wish makes no sense: the
    delivery has ended, or its endpoint is disabled or deleted."""
    locked = await lives.lock(connection, [delivery_id])
    if delivery_id not in locked:
        raise NotFound(f"There is no delivery {delivery_id}.")
    one = locked[delivery_id]
    if action == "resend":
        await _refuse_unless_sendable(connection, one.endpoint_id)
    elif one.life.phase.ended:
        raise _finished(one.life, action)
    changes = await lives.apply(
        connection, [(delivery_id, Action(action))], now=now, wake=Urgency.PERSON, locked=locked
    )
    return changes[delivery_id]


async def request_many(
    connection: AsyncConnection,
    delivery_ids: Collection[str],
    action: Action,
    *,
    among: Collection[DeliveryStatus] = (),
    now: datetime,
) -> list[Change]:
    """Do the same with many deliveries, for a job; those for which it makes no sense stay as they
    are, and so do those that are by now in no status of `among` (empty: any). A resend is a gentle
    one, and leaves out endpoints that are sent nothing."""
    locked = await lives.lock(connection, delivery_ids)
    if among:
        locked = {key: one for key, one in locked.items() if one.life.status in among}
    if action is Action.RESEND_YIELDING:
        seen = await gates(connection, {one.endpoint_id for one in locked.values()})
        locked = {
            one.delivery_id: one
            for one in locked.values()
            if not seen[one.endpoint_id].gate.endpoint_state.over
        }
    facts = [(delivery_id, action) for delivery_id in locked]
    urgency = Urgency.RETRY if action is Action.ASK_AGAIN else Urgency.JOB
    changes = await lives.apply(connection, facts, now=now, wake=urgency, locked=locked)
    return list(changes.values())


async def apply_signals(
    connection: AsyncConnection, delivery_id: str, signals: ReceivedSignals, *, now: datetime
) -> Change:
    """Do as signals say that were made by hand, each of them once however often this is repeated.
    Raises NotFound."""
    locked = await lives.lock(connection, [delivery_id])
    if delivery_id not in locked:
        raise NotFound(f"There is no delivery {delivery_id}.")
    before = (
        await connection.execute(select(_C.signals_applied).where(_C.id == delivery_id))
    ).scalar_one()
    run_id, _, count = (before or ":0").rpartition(":")
    new = signals.count - (int(count) if run_id == signals.run_id else 0)
    if new <= 0:  # repeated, or late (its worker was frozen): what later steps marked stays
        return (await lives.apply(connection, [], now=now, locked=locked))[delivery_id]
    facts = [(delivery_id, action) for action in signals.actions[-new:]]
    changes = await lives.apply(connection, facts, now=now, locked=locked)
    mark = f"{signals.run_id}:{signals.count}"
    await connection.execute(
        update(_DELIVERIES).where(_C.id == delivery_id).values(signals_applied=mark)
    )
    return changes[delivery_id]


async def _refuse_unless_sendable(connection: AsyncConnection, endpoint_id: str) -> None:
    """Nothing would be sent, and a delivery that had arrived would begin again only to die."""
    state = (await gates(connection, [endpoint_id]))[endpoint_id].gate.endpoint_state
    if state is EndpointState.DISABLED:
        raise Conflict(
            "The endpoint is disabled; nothing would be sent. Enable it first.",
            code="endpoint_disabled",
        )
    if state is EndpointState.DELETED:
        raise Conflict(
            "The endpoint is deleted; nothing is sent to it any more.", code="endpoint_disabled"
        )


def _finished(life: Life, action: UserAction) -> Conflict:
    return Conflict(
        f"The delivery has ended as {life.status}; there is nothing to {action}. "
        "`resend` sends it again.",
        code="delivery_finished",
    )
