"""The health of endpoints: counts the results of attempts, and moves circuits, while attempts are
recorded.

A success of a healthy endpoint writes nothing, so workers never wait for its row, however busy it
is.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.endpoints.circuit import AttemptResult, Policy, State, after_attempt
from hookfast.storage.circuits import circuits
from hookfast.storage.owners import notifications


async def count(
    connection: AsyncConnection,
    results: Iterable[tuple[str, AttemptResult]],
    *,
    policy: Policy,
    now: datetime,
) -> bool:
    """Count these results, each with its endpoint's id, in the order in which the attempts began.
    Returns whether a circuit changed so that it requests its workflow."""
    by_endpoint: dict[str, list[AttemptResult]] = {}
    for endpoint_id, result in sorted(results, key=lambda pair: pair[1].at):
        by_endpoint.setdefault(endpoint_id, []).append(result)
    failing = {
        endpoint_id
        for endpoint_id, found in by_endpoint.items()
        if not all(result.succeeded for result in found)
    }
    requested = False
    succeeding = by_endpoint.keys() - failing
    for locked in await circuits.lock(connection, failing, if_dirty=succeeding):
        after = locked.circuit
        own_policy = policy.with_overrides(locked.overrides)
        for result in by_endpoint[locked.endpoint_id]:
            after = after_attempt(after, result, policy=own_policy, now=now)
        if after != locked.circuit:
            await circuits.store(connection, locked, after, now=now)
            await notifications.circuit_changed(
                connection, locked, after, policy=own_policy, now=now
            )
            requested |= after.state is not State.CLOSED and not after.workflow_started
    return requested
