"""Stored circuits. Every transition is a function of `hookfast.endpoints.circuit`, applied to a
locked row. `storage.deliveries.admission` applies a circuit to a single delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Table, and_, bindparam, case, func, null, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import Cause, Circuit, EndpointState, State
from hookfast.endpoints.gate import Gate
from hookfast.endpoints.outage import WORKFLOW_TYPE, CircuitInput, workflow_id
from hookfast.endpoints.short_url import short_url
from hookfast.storage.circuits.circuit_log import log_transition
from hookfast.storage.database.after_commit import after_commit
from hookfast.storage.database.planner_hints import undelivered
from hookfast.storage.database.prepared import AnyOf, Prepared
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import Delivery, Endpoint, EndpointHealth
from hookfast.workflow_request import WorkflowRequest

_HEALTH: Table = EndpointHealth.__table__
_H = _HEALTH.c
_ENDPOINTS: Table = Endpoint.__table__
_E = _ENDPOINTS.c
_DELIVERIES: Table = Delivery.__table__
_D = _DELIVERIES.c


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCircuit:
    """A circuit with the relevant columns of its endpoint. `overrides` is the endpoint's own
    circuit policy."""

    endpoint_id: str
    tenant_id: str
    description: str
    url: str
    endpoint_state: EndpointState
    state_reason: str | None
    timeout_seconds: float
    rate_limit_per_second: float | None
    overrides: dict[str, Any]
    circuit: Circuit


_STORED = tuple(
    field.name for field in fields(Circuit) if field.name not in ("state", "workflow_started")
)
_SELECT = select(
    _E.id.label("the_endpoint_id"),
    _E.tenant_id,
    _E.description,
    _E.url,
    _E.state.label("endpoint_state"),
    _E.state_reason,
    _E.deleted_at,
    _E.timeout_seconds,
    _E.rate_limit_per_second,
    _E.circuit.label("overrides"),
    _HEALTH,
).join_from(_ENDPOINTS, _HEALTH, _E.id == _H.endpoint_id)
_ONE = _SELECT.where(_E.id == bindparam("id"))
_DIRTY = (_H.consecutive_failures > 0) | (_H.circuit != State.CLOSED.value)
_LOCKED = Prepared(
    _SELECT.where(AnyOf(_E.id, "ids") | (AnyOf(_E.id, "if_dirty") & _DIRTY))
    # by id: two processes that lock the same rows lock them in the same order
    .order_by(_E.id)
    .with_for_update(of=_HEALTH)
)


async def get(connection: AsyncConnection, endpoint_id: str) -> EndpointCircuit | None:
    """Return an endpoint's circuit, or None if the endpoint never failed or does not exist."""
    rows = await connection.execute(_ONE, {"id": endpoint_id})
    row = rows.mappings().first()
    return None if row is None else _endpoint_circuit(row)


async def lock(
    connection: AsyncConnection, endpoint_ids: Iterable[str], *, if_dirty: Iterable[str] = ()
) -> list[EndpointCircuit]:
    """Lock the circuits of these endpoints until the transaction ends, and those in `if_dirty` that
    a success would change. Endpoints that do not exist are left out."""
    ids = sorted(endpoint_ids)
    if ids:
        await _add_missing(connection, ids)
    rows = await _LOCKED.mappings(connection, {"ids": ids, "if_dirty": sorted(if_dirty)})
    return [_endpoint_circuit(row) for row in rows]


async def store(
    connection: AsyncConnection, before: EndpointCircuit, after: Circuit, *, now: datetime
) -> None:
    """Write the new state of a locked circuit, and log it after the commit."""
    values = {name: getattr(after, name) for name in _STORED}
    values["circuit"] = after.state.value
    if after.workflow_started:
        values["workflow_started_at"] = func.coalesce(_H.workflow_started_at, now)
    else:
        values["workflow_started_at"] = None
    await connection.execute(
        update(_HEALTH).where(_H.endpoint_id == before.endpoint_id).values(values)
    )
    endpoint = {"endpoint_id": before.endpoint_id, "tenant_id": before.tenant_id}
    endpoint["endpoint_url"] = short_url(before.url)
    if before.description:
        endpoint["endpoint_name"] = before.description
    after_commit(connection, partial(log_transition, before.circuit, after, endpoint=endpoint))


async def change(
    connection: AsyncConnection,
    endpoint_id: str,
    transition: Callable[[EndpointCircuit], Circuit],
    *,
    now: datetime,
) -> tuple[EndpointCircuit, Circuit] | None:
    """Lock a circuit, apply `transition` to it and store the result. Returns the circuit before and
    after, or None if the endpoint does not exist."""
    locked = await lock(connection, [endpoint_id])
    if not locked:
        return None
    before = locked[0]
    after = transition(before)
    if after != before.circuit:
        await store(connection, before, after, now=now)
    return before, after


async def count_drained(connection: AsyncConnection, endpoint_id: str) -> None:
    """Count a held delivery that was drained without an attempt. The circuit's transitions count
    those with an attempt."""
    await connection.execute(
        update(_HEALTH)
        .where(_H.endpoint_id == endpoint_id, _H.circuit == State.DRAINING.value)
        .values(drained=_H.drained + 1)
    )


async def _add_missing(connection: AsyncConnection, endpoint_ids: Sequence[str]) -> None:
    found = await connection.execute(select(_H.endpoint_id).where(_H.endpoint_id.in_(endpoint_ids)))
    if missing := sorted(set(endpoint_ids) - set(found.scalars())):
        await connection.execute(
            insert_into(connection, _HEALTH).on_conflict_do_nothing(index_elements=["endpoint_id"]),
            [{"endpoint_id": endpoint_id, "consecutive_failures": 0} for endpoint_id in missing],
        )


def _endpoint_circuit(row: Any) -> EndpointCircuit:
    values = {name: row[name] for name in _STORED}
    cause = values.pop("cause")
    return EndpointCircuit(
        endpoint_id=row["the_endpoint_id"],
        tenant_id=row["tenant_id"],
        description=row["description"],
        url=row["url"],
        endpoint_state=_state_of(row["endpoint_state"], row["deleted_at"]),
        state_reason=row["state_reason"],
        timeout_seconds=row["timeout_seconds"],
        rate_limit_per_second=row["rate_limit_per_second"],
        overrides=row["overrides"],
        circuit=Circuit(
            state=State(row["circuit"]),
            workflow_started=row["workflow_started_at"] is not None,
            cause=None if cause is None else Cause(cause),
            **values,
        ),
    )


def _state_of(state: str, deleted_at: datetime | None) -> EndpointState:
    return EndpointState(state) if deleted_at is None else EndpointState.DELETED


# -- the gate -----------------------------------------------------------------------------------

GATE = (
    *(_E.state, _E.deleted_at, _E.updated_at, _E.rate_limit_per_second),
    *(_H.circuit, _H.probe_delivery_id, _H.drain_rate, _H.next_probe_at),
)
"""The columns that `endpoint_gate` reads, in this order."""
_GATES = Prepared(
    select(_E.id, *GATE)
    .join_from(_ENDPOINTS, _HEALTH, _E.id == _H.endpoint_id, isouter=True)
    .where(AnyOf(_E.id, "ids"))
)


@dataclass(frozen=True, slots=True)
class EndpointGate:
    """An endpoint's gate, when the endpoint itself was last updated, and when its circuit is probed
    next, if it is open."""

    gate: Gate
    updated_at: datetime
    next_probe_at: datetime | None


async def gates(
    connection: AsyncConnection, endpoint_ids: Iterable[str]
) -> dict[str, EndpointGate]:
    """Return the current gates of these endpoints."""
    rows = await _GATES.rows(connection, {"ids": sorted(endpoint_ids)})
    return {endpoint_id: endpoint_gate(*values) for endpoint_id, *values in rows}


def endpoint_gate(
    state: str,
    deleted_at: datetime | None,
    updated_at: datetime,
    rate_limit_per_second: float | None,
    circuit: str | None,
    probe_delivery_id: str | None,
    drain_rate: float | None,
    next_probe_at: datetime | None,
) -> EndpointGate:
    """Return the gate in a row of `GATE`."""
    gate = Gate(
        endpoint_state=_state_of(state, deleted_at),
        state=State.CLOSED if circuit is None else State(circuit),
        probe_delivery_id=probe_delivery_id,
        drain_rate=drain_rate,
        rate_limit_per_second=rate_limit_per_second,
    )
    return EndpointGate(gate, updated_at, next_probe_at)


async def claim_probe(
    connection: AsyncConnection, delivery_id: str, endpoint_id: str, *, until: datetime
) -> bool:
    """Make a delivery the probe of a half-open circuit until then; return False if another delivery
    is the probe. Does what `circuit.claim_probe` does; the statement's condition is its lock."""
    claimed = await connection.execute(
        update(_HEALTH)
        .where(
            _H.endpoint_id == endpoint_id,
            _H.circuit == State.HALF_OPEN.value,
            or_(_H.probe_delivery_id.is_(None), _H.probe_delivery_id == delivery_id),
        )
        .values(
            probe_delivery_id=delivery_id,
            probe_until=until,
            probed_last=delivery_id,
            # the workflow already knows of a probe that it chose
            workflow_started_at=case(
                (_H.probe_delivery_id.is_(None), null()), else_=_H.workflow_started_at
            ),
        )
    )
    return claimed.rowcount == 1


# -- held deliveries ----------------------------------------------------------------------------

_HELD = and_(*undelivered(_D.status, DeliveryStatus.HELD.value))


async def count_held(connection: AsyncConnection, endpoint_id: str) -> int:
    """Return how many deliveries are held for this endpoint."""
    rows = await connection.execute(
        select(func.count()).select_from(_DELIVERIES).where(_D.endpoint_id == endpoint_id, _HELD)
    )
    return rows.scalar_one()


async def endpoints_with_held(connection: AsyncConnection, tenant_id: str) -> list[str]:
    """Return the ids of a tenant's endpoints with held deliveries, in order, deleted ones too."""
    holds = select(_D.id).where(_D.endpoint_id == _E.id, _HELD).exists()
    rows = await connection.execute(
        select(_E.id).where(_E.tenant_id == tenant_id, holds).order_by(_E.id)
    )
    return list(rows.scalars())


async def unreleased_ids(connection: AsyncConnection, endpoint_id: str, *, limit: int) -> list[str]:
    """Return the oldest held deliveries that the circuit has not released."""
    statement = select(_D.id).where(_D.endpoint_id == endpoint_id, _HELD, ~_D.released)
    return list((await connection.execute(statement.order_by(_D.id).limit(limit))).scalars())


async def _held_ids(
    connection: AsyncConnection, endpoint_id: str, *, after: str | None, limit: int
) -> list[str]:
    """Return the oldest held deliveries beyond the id `after`."""
    statement = select(_D.id).where(_D.endpoint_id == endpoint_id, _HELD)
    if after is not None:
        statement = statement.where(_D.id > after)
    rows = await connection.execute(statement.order_by(_D.id).limit(limit))
    return list(rows.scalars())


async def next_probe(connection: AsyncConnection, locked: EndpointCircuit) -> str | None:
    """Return the delivery to probe with: the oldest held one after the last probe, or else the
    oldest. A delivery that the receiver always rejects does not keep the circuit open this way."""
    endpoint_id, last = locked.endpoint_id, locked.circuit.probed_last
    later = await _held_ids(connection, endpoint_id, after=last, limit=1)
    found = later or await _held_ids(connection, endpoint_id, after=None, limit=1)
    return found[0] if found else None


# -- requests for the workflow ------------------------------------------------------------------

_MAX_REQUESTED = 1_000


async def request_stalled_workflows(connection: AsyncConnection, *, overdue_since: datetime) -> int:
    """Request the workflows of circuits that have not moved since then: the workflows were lost
    with Temporal's own data, or wait for a person, and waking these changes nothing. Returns how
    many were requested, at most 1,000 per call."""
    stalled = await connection.execute(
        select(_H.endpoint_id)
        .where(
            _H.circuit != "closed",
            _H.workflow_started_at < overdue_since,
            or_(_H.next_probe_at.is_(None), _H.next_probe_at < overdue_since),
        )
        .limit(_MAX_REQUESTED)
        # PostgreSQL only: a locked circuit is moving; waiting for it could break the lock order
        .with_for_update(skip_locked=True)
    )
    ids = list(stalled.scalars())
    if ids:
        await connection.execute(
            update(_HEALTH).where(_H.endpoint_id.in_(ids)).values(workflow_started_at=None)
        )
    return len(ids)


# At least one of these columns changes with every transition that concerns a circuit's workflow.
_VERSION = (
    _H.endpoint_id,
    _H.episode,
    _H.circuit,
    _H.cause,
    _H.probes,
    _H.probe_delivery_id,
    _H.next_probe_at,
)


class CircuitWorkflowRequests:
    """The circuits that request their workflow (see `hookfast.dispatch.workflow_starter`)."""

    async def find(self, connection: AsyncConnection, *, limit: int) -> list[WorkflowRequest]:
        """Return requests for circuits that changed since their workflow was last woken, by id: in
        this order they are marked, and locked elsewhere."""
        rows = await connection.execute(
            select(_E.url, *_VERSION)
            .join_from(_HEALTH, _ENDPOINTS, _H.endpoint_id == _E.id)
            .where(_H.circuit != "closed", _H.workflow_started_at.is_(None))
            .order_by(_H.endpoint_id)
            .limit(limit)
        )
        return [
            WorkflowRequest(
                key=tuple(row[1:]),
                workflow=WORKFLOW_TYPE,
                workflow_id=workflow_id(row.endpoint_id),
                argument=CircuitInput(row.endpoint_id),
                summary=f"episode {row.episode}: {short_url(row.url)[:120]}",
            )
            for row in rows
        ]

    async def mark(
        self, connection: AsyncConnection, requests: Sequence[WorkflowRequest], *, now: datetime
    ) -> None:
        """Mark these requests as fulfilled, unless the circuit changed since it was read."""
        for request in requests:
            unchanged = [
                column.is_(None) if value is None else column == value
                for column, value in zip(_VERSION, request.key, strict=True)
            ]
            await connection.execute(
                update(_HEALTH)
                .where(*unchanged, _H.workflow_started_at.is_(None))
                .values(workflow_started_at=now)
            )
