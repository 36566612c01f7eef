"""Actions that people and jobs request on deliveries. An action is committed before any workflow is
notified: it changes the delivery and puts it into the outbox in the caller's transaction, and the
relay then wakes the workflow."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.actions import ACTIONS, SENDING_FACTS, ActionSpec, UserAction
from hookfast.deliveries.facts import Action
from hookfast.deliveries.life import Life
from hookfast.deliveries.messages import ReceivedSignals, Urgency
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import EndpointState
from hookfast.errors import Conflict, NotFound
from hookfast.storage.circuits.circuits import gates
from hookfast.storage.deliveries import life_rows, lives
from hookfast.storage.deliveries.life_rows import LifeChange
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c


async def request(
    connection: AsyncConnection, delivery_id: str, action: UserAction, *, now: datetime
) -> LifeChange:
    """Apply an action that a person requested. Raises NotFound, and Conflict if the action is
    impossible: the delivery has ended, or its endpoint is disabled or deleted."""
    locked = await life_rows.lock(connection, [delivery_id])
    if delivery_id not in locked:
        raise NotFound(f"There is no delivery {delivery_id}.")
    one, spec = locked[delivery_id], ACTIONS[action]
    if spec.sends:
        await _require_active_endpoint(connection, one.endpoint_id)
    elif one.life.phase.ended and not (spec.unblocks_lane and one.life.blocks_lane):
        raise _already_finished(one.life, spec)
    changes = await lives.apply(
        connection, [(delivery_id, spec.fact)], now=now, wake=Urgency.PERSON, locked=locked
    )
    return changes[delivery_id]


async def request_many(
    connection: AsyncConnection,
    delivery_ids: Collection[str],
    action: Action,
    *,
    among: Collection[DeliveryStatus] = (),
    urgency: int = Urgency.JOB,
    now: datetime,
) -> list[LifeChange]:
    """Apply a job's action to many deliveries. Those for which it is impossible stay unchanged, and
    so do those whose status is no longer in `among` (empty: any status). A resend yields to
    circuits, and skips deliveries whose endpoint is disabled or deleted."""
    locked = await life_rows.lock(connection, delivery_ids)
    if among:
        locked = {key: one for key, one in locked.items() if one.life.status in among}
    if action in SENDING_FACTS:
        current = await gates(connection, {one.endpoint_id for one in locked.values()})
        locked = {
            key: one
            for key, one in locked.items()
            if not current[one.endpoint_id].gate.endpoint_state.stopped
        }
    facts = [(delivery_id, action) for delivery_id in locked]
    changes = await lives.apply(connection, facts, now=now, wake=urgency, locked=locked)
    return list(changes.values())


async def apply_signals(
    connection: AsyncConnection, delivery_id: str, signals: ReceivedSignals, *, now: datetime
) -> LifeChange:
    """Apply the signals that someone sent to the delivery's workflow directly. Each counts once,
    however often this call is repeated. Raises NotFound."""
    locked = await life_rows.lock(connection, [delivery_id])
    if delivery_id not in locked:
        raise NotFound(f"There is no delivery {delivery_id}.")
    before = (
        await connection.execute(select(_C.signals_applied).where(_C.id == delivery_id))
    ).scalar_one()
    run_id, _, count = (before or ":0").rpartition(":")
    new = signals.count - (int(count) if run_id == signals.run_id else 0)
    if new <= 0:  # repeated, or late (its worker was frozen): keep the mark of later steps
        return (await lives.apply(connection, [], now=now, locked=locked))[delivery_id]
    facts = [(delivery_id, action) for action in signals.actions[-new:]]
    changes = await lives.apply(connection, facts, now=now, locked=locked)
    mark = f"{signals.run_id}:{signals.count}"
    await connection.execute(
        update(_DELIVERIES).where(_C.id == delivery_id).values(signals_applied=mark)
    )
    return changes[delivery_id]


async def _require_active_endpoint(connection: AsyncConnection, endpoint_id: str) -> None:
    """Raise Conflict if the endpoint is disabled or deleted. A resend would send nothing, and turn
    a successful delivery into a dead letter."""
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


def _already_finished(life: Life, action: ActionSpec) -> Conflict:
    return Conflict(
        f"The delivery has already ended as {life.status}; `{action.name}` is not possible. "
        "`resend` sends it again.",
        code="delivery_finished",
    )
