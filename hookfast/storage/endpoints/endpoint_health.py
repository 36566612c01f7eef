"""How an endpoint fares: counted, and its circuit moved, where its attempts are recorded.

A success writes nothing when there is nothing to heal: so the row of a healthy endpoint, however
busy, is never one that every worker waits for.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.endpoints.circuit import AttemptResult, Policy, State, after_attempt
from hookfast.storage.circuits import circuits
from hookfast.storage.owners import announcements


async def count(
    connection: AsyncConnection,
    results: Iterable[tuple[str, AttemptResult]],
    *,
    policy: Policy,
    now: datetime,
) -> bool:
    """Count these results, each with its endpoint's id, in the order the attempts began; whether a
    circuit changed in a way its workflow has to be told of."""
    by_endpoint: dict[str, list[AttemptResult]] = {}
    for endpoint_id, result in sorted(results, key=lambda pair: pair[1].at):
        by_endpoint.setdefault(endpoint_id, []).append(result)
    failing = {
        endpoint_id
        for endpoint_id, found in by_endpoint.items()
        if not all(result.succeeded for result in found)
    }
    asks = False
    fine = by_endpoint.keys() - failing
    for owned in await circuits.lock(connection, failing, if_dirty=fine):
        after = owned.circuit
        own_policy = policy.overridden(owned.overrides)
        for result in by_endpoint[owned.endpoint_id]:
            after = after_attempt(after, result, policy=own_policy, now=now)
        if after != owned.circuit:
            await circuits.store(connection, owned.endpoint_id, after, now=now)
            await announcements.circuit_changed(
                connection, owned, after, policy=own_policy, now=now
            )
            asks = asks or (after.state is not State.CLOSED and not after.workflow_started)
    return asks
