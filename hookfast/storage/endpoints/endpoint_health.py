"""The health of endpoints: counts the results of attempts, and moves circuits, while attempts are
recorded.

A success of a healthy endpoint writes nothing, so workers never wait for its row, however busy it
is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.facts import AttemptEnded
from hookfast.endpoints.circuit import Policy, State, after_attempt
from hookfast.storage.circuits import circuits
from hookfast.storage.owners import notifications


async def count(
    connection: AsyncConnection,
    attempts: Iterable[tuple[str, str, AttemptEnded]],
    *,
    policy: Policy,
    now: datetime,
    left_hold: Collection[str] = (),
) -> bool:
    """Count the results of these attempts, each with the ids of its endpoint and its delivery, in
    the order in which they began. `left_hold` are the deliveries that were held until then. Returns
    whether a circuit changed so that it requests its workflow."""
    by_endpoint: dict[str, list[tuple[str, AttemptEnded]]] = {}
    failing: set[str] = set()
    for endpoint_id, delivery_id, ended in sorted(attempts, key=lambda one: one[2].started_at):
        by_endpoint.setdefault(endpoint_id, []).append((delivery_id, ended))
        if not ended.outcome.healthy:
            failing.add(endpoint_id)
    requested = False
    held = set(left_hold)
    succeeding = by_endpoint.keys() - failing
    for locked in await circuits.lock(connection, failing, if_dirty=succeeding):
        after = locked.circuit
        own_policy = policy.with_overrides(locked.overrides)
        for delivery_id, ended in by_endpoint[locked.endpoint_id]:
            after = after_attempt(
                after,
                ended,
                delivery_id=delivery_id,
                policy=own_policy,
                now=now,
                was_held=delivery_id in held,
            )
            held.discard(delivery_id)  # by its first attempt
        if after != locked.circuit:
            await circuits.store(connection, locked, after, now=now)
            await notifications.circuit_changed(
                connection, locked, after, policy=own_policy, now=now
            )
            requested |= after.state is not State.CLOSED and not after.workflow_started
    return requested
