"""Enabling, disabling, pausing and resuming endpoints: changes the endpoint's row and its circuit,
and notifies its owners, in one transaction.

The endpoint's row is changed before its circuit is locked, here and everywhere else: two processes
that change the same endpoint wait for each other in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial

from sqlalchemy import Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.audit import SYSTEM, AuditedChange, differences
from hookfast.endpoints.circuit import Cause, Circuit, EndpointState, State, closed, release_all
from hookfast.storage.audit import audit_log
from hookfast.storage.circuits import circuits
from hookfast.storage.circuits.circuits import EndpointCircuit
from hookfast.storage.database.after_commit import after_commit
from hookfast.storage.owners import notifications
from hookfast.storage.tables import Endpoint
from hookfast.telemetry import instruments

_ENDPOINTS: Table = Endpoint.__table__
_E = _ENDPOINTS.c


async def lock(connection: AsyncConnection, endpoint_ids: Iterable[str]) -> None:
    """Lock these endpoints' rows until the transaction ends."""
    await connection.execute(
        select(_E.id).where(_E.id.in_(sorted(endpoint_ids))).order_by(_E.id).with_for_update()
    )


async def disable(
    connection: AsyncConnection,
    endpoint_id: str,
    *,
    cause: Cause,
    reason: str,
    last_error: str | None = None,
    now: datetime,
) -> bool:
    """Disable an endpoint and release its held deliveries, which then end as dead letters. Returns
    False if it was already disabled or deleted. The audit log records it, except when a person
    requested it: then the caller records it, who knows the person. `last_error` is that of the
    attempt that disables it, if its health does not have that yet."""

    def release(locked: EndpointCircuit) -> Circuit:
        circuit = locked.circuit
        if last_error is not None:
            circuit = replace(circuit, last_error=last_error)
        return release_all(circuit, cause, now=now)

    if not await _set(
        connection,
        endpoint_id,
        EndpointState.DISABLED,
        unless=(EndpointState.DISABLED,),
        reason=reason,
        now=now,
    ):
        return False
    after_commit(connection, partial(instruments.CIRCUIT_CHANGES.add, change="disabled"))
    changed = await circuits.change(connection, endpoint_id, release, now=now)
    if changed is not None:
        before, after = changed
        await notifications.endpoint_disabled(connection, before, after, reason=reason, now=now)
        if cause is not Cause.DISABLED:
            disabled = AuditedChange(
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


async def release_held(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> None:
    """Release the held deliveries of a deleted endpoint, which then end undelivered."""
    if await circuits.count_held(connection, endpoint_id):
        await _release_held(connection, endpoint_id, now=now)


async def release_held_of_tenant(
    connection: AsyncConnection, tenant_id: str, *, now: datetime
) -> None:
    """Release the held deliveries of a tenant's deleted endpoints, which then end undelivered."""
    for endpoint_id in await circuits.endpoints_with_held(connection, tenant_id):
        await _release_held(connection, endpoint_id, now=now)


async def _release_held(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> None:
    await circuits.change(
        connection,
        endpoint_id,
        lambda locked: release_all(locked.circuit, Cause.DISABLED, now=now),
        now=now,
    )


async def enable(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> bool:
    """Enable a disabled endpoint with a reset circuit, or a paused one as `resume` does. Returns
    False if it was already enabled."""
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
        lambda locked: closed(
            replace(
                release_all(locked.circuit, Cause.RESUMED, now=now),
                consecutive_failures=0,
                first_failure_at=None,
            ),
            held=held,
        ),
        now=now,
    )
    if changed is not None:
        await notifications.endpoint_enabled(connection, changed[0], now=now)
    return True


async def pause(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> bool:
    """Hold every delivery to an endpoint until it is resumed. Returns False if not enabled."""
    return await _set(
        connection,
        endpoint_id,
        EndpointState.PAUSED,
        unless=(EndpointState.PAUSED, EndpointState.DISABLED),
        reason="Paused by request.",
        now=now,
    )


async def resume(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> bool:
    """Send to a paused endpoint again: drain its held deliveries at a rising rate, or probe it now
    if its circuit is open. Returns False if it was not paused."""
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

    def resumed(locked: circuits.EndpointCircuit) -> Circuit:
        if locked.circuit.state in (State.OPEN, State.HALF_OPEN):
            return replace(locked.circuit, next_probe_at=now, workflow_started=False)
        released = release_all(locked.circuit, Cause.RESUMED, now=now)
        # A drain that was paused is closed by its workflow, which also notifies the owners.
        return released if locked.circuit.state is State.DRAINING else closed(released, held=held)

    await circuits.change(connection, endpoint_id, resumed, now=now)
    return True


async def probe_now(connection: AsyncConnection, endpoint_id: str, *, now: datetime) -> bool:
    """Probe an open circuit now instead of on schedule. Returns False if it is not open."""

    def probed_now(locked: circuits.EndpointCircuit) -> Circuit:
        is_open = locked.circuit.state in (State.OPEN, State.HALF_OPEN)
        if not is_open or locked.endpoint_state is not EndpointState.ENABLED:
            return locked.circuit
        return replace(locked.circuit, next_probe_at=now, workflow_started=False)

    changed = await circuits.change(connection, endpoint_id, probed_now, now=now)
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
