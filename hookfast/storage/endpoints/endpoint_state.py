"""Enabling, disabling, pausing and resuming endpoints: the endpoint's row, its circuit, and who is
told, in one transaction.

The endpoint's row is changed before its circuit is locked, here and wherever both are: two
processes that change the same endpoint wait for each other in one order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.audit import SYSTEM, Change, differences
from hookfast.endpoints.circuit import Cause, Circuit, EndpointState, State, closed, release_all
from hookfast.storage.audit import audit_log
from hookfast.storage.circuits import circuits
from hookfast.storage.owners import announcements
from hookfast.storage.tables import Endpoint

_ENDPOINTS: Table = Endpoint.__table__
_E = _ENDPOINTS.c


async def lock(connection: AsyncConnection, endpoint_ids: Iterable[str]) -> None:
    """Keep others from changing these endpoints until the transaction ends."""
    await connection.execute(
        select(_E.id).where(_E.id.in_(sorted(endpoint_ids))).order_by(_E.id).with_for_update()
    )


async def disable(
    connection: AsyncConnection, endpoint_id: str, *, cause: Cause, reason: str, now: datetime
) -> bool:
    """Disable an endpoint and let go of what is held for it, which then ends as dead letters;
    False when it was disabled (or deleted) before. The audit log tells of it unless someone asked
    for it: then that is for the caller to tell, who knows who did."""
    if not await _set(
        connection,
        endpoint_id,
        EndpointState.DISABLED,
        unless=(EndpointState.DISABLED,),
        reason=reason,
        now=now,
    ):
        return False
    changed = await circuits.change(
        connection, endpoint_id, lambda owned: release_all(owned.circuit, cause, now=now), now=now
    )
    if changed is not None:
        before, after = changed
        await announcements.endpoint_disabled(connection, before, after, reason=reason, now=now)
        if cause is not Cause.DISABLED:
            disabled = Change(
                action="endpoint.disable",
                resource="endpoint",
                resource_id=endpoint_id,
                tenant_id=before.tenant_id,
                changes=differences(
                    {}, {"state": EndpointState.DISABLED.value, "state_reason": reason}
                ),
            )
            await audit_log.record(connection, disabled, actor=SYSTEM, now=now)
    return True


async def let_go(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> None:
    """An endpoint was deleted: what is held for it ends undelivered."""
    if await circuits.count_held(connection, endpoint_id):
        await _let_go(connection, endpoint_id, now=now)


async def let_go_of_tenant(connection: AsyncConnection, tenant_id: str, *, now: datetime) -> None:
    """All endpoints of a tenant were deleted: what is held for them ends undelivered."""
    for endpoint_id in await circuits.holding(connection, tenant_id):
        await _let_go(connection, endpoint_id, now=now)


async def _let_go(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> None:
    await circuits.change(
        connection,
        endpoint_id,
        lambda owned: release_all(owned.circuit, Cause.DISABLED, now=now),
        now=now,
    )


async def enable(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> bool:
    """Send to a disabled endpoint again, with a clean slate; to a paused one as `resume` does.
    False when it was enabled."""
    if await resume(connection, endpoint_id, now=now):
        return True
    if not await _set(
        connection,
        endpoint_id,
        EndpointState.ENABLED,
        unless=(EndpointState.ENABLED,),
        reason=None,
        now=now,
    ):
        return False
    held = await circuits.count_held(connection, endpoint_id)
    changed = await circuits.change(
        connection,
        endpoint_id,
        lambda owned: closed(
            replace(
                release_all(owned.circuit, Cause.RESUMED, now=now),
                consecutive_failures=0,
                first_failure_at=None,
            ),
            held=held,
        ),
        now=now,
    )
    if changed is not None:
        await announcements.endpoint_enabled(connection, changed[0], now=now)
    return True


async def pause(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> bool:
    """Hold every delivery to an endpoint until it is resumed; False unless it was enabled."""
    return await _set(
        connection,
        endpoint_id,
        EndpointState.PAUSED,
        unless=(EndpointState.PAUSED, EndpointState.DISABLED),
        reason="Paused by request.",
        now=now,
    )


async def resume(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> bool:
    """Send to a paused endpoint again: what was held goes on the ramp, or, while its circuit is
    open, it is probed now. False unless it was paused."""
    if not await _set(
        connection,
        endpoint_id,
        EndpointState.ENABLED,
        unless=(EndpointState.ENABLED, EndpointState.DISABLED),
        reason=None,
        now=now,
    ):
        return False
    held = await circuits.count_held(connection, endpoint_id)

    def resumed(owned: circuits.Owned) -> Circuit:
        if owned.circuit.state in (State.OPEN, State.HALF_OPEN):
            return replace(owned.circuit, next_probe_at=now, workflow_started=False)
        released = release_all(owned.circuit, Cause.RESUMED, now=now)
        # A drain that was paused is closed by its workflow, which tells of it.
        return released if owned.circuit.state is State.DRAINING else closed(released, held=held)

    await circuits.change(connection, endpoint_id, resumed, now=now)
    return True


async def probe_now(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> bool:
    """Probe an open circuit now instead of on schedule; False when it is not open."""

    def hurried(owned: circuits.Owned) -> Circuit:
        waits = owned.circuit.state in (State.OPEN, State.HALF_OPEN)
        if not waits or owned.endpoint_state is not EndpointState.ENABLED:
            return owned.circuit
        return replace(owned.circuit, next_probe_at=now, workflow_started=False)

    changed = await circuits.change(connection, endpoint_id, hurried, now=now)
    return changed is not None and changed[0].circuit != changed[1]


async def _set(
    connection: AsyncConnection,
    endpoint_id: str,
    state: EndpointState,
    *,
    unless: tuple[EndpointState, ...],
    reason: str | None,
    now: datetime,
) -> bool:
    changed = await connection.execute(
        update(_ENDPOINTS)
        .where(_E.id == endpoint_id, _E.state.not_in(unless), _E.deleted_at.is_(None))
        .values(state=state.value, state_reason=reason, updated_at=now)
    )
    return changed.rowcount == 1
