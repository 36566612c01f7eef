"""Stored circuits. Every transition is a function of `hookfast.endpoints.circuit` on a locked row.

What a circuit means for one delivery is `admission`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Table, bindparam, case, func, null, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import Cause, Circuit, EndpointState, Gate, State
from hookfast.endpoints.outage import WORKFLOW_TYPE, CircuitInput, workflow_id
from hookfast.storage.tables import Delivery, Endpoint, EndpointHealth
from hookfast.workflow_request import WorkflowRequest

_HEALTH: Table = EndpointHealth.__table__
_H = _HEALTH.c
_ENDPOINTS: Table = Endpoint.__table__
_E = _ENDPOINTS.c
_DELIVERIES: Table = Delivery.__table__
_D = _DELIVERIES.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A circuit with what is to be known of its endpoint. `overrides` is its own policy."""

    endpoint_id: str
    tenant_id: str
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
_OWNED = select(
    _E.id.label("the_endpoint_id"),
    _E.tenant_id,
    _E.url,
    _E.state.label("endpoint_state"),
    _E.state_reason,
    _E.deleted_at,
    _E.timeout_seconds,
    _E.rate_limit_per_second,
    _E.circuit.label("overrides"),
    _HEALTH,
).join_from(_ENDPOINTS, _HEALTH, _E.id == _H.endpoint_id)
_ONE = _OWNED.where(_E.id == bindparam("id"))
_DIRTY = (_H.consecutive_failures > 0) | (_H.circuit != State.CLOSED.value)
_LOCKED = (
    _OWNED.where(
        _E.id.in_(bindparam("ids", expanding=True))
        | (_E.id.in_(bindparam("if_dirty", expanding=True)) & _DIRTY)
    )
    # in the order of their ids: two processes that lock the same rows lock them in one order
    .order_by(_E.id)
    .with_for_update(of=_HEALTH)
)


async def get(connection: AsyncConnection, endpoint_id: str) -> Owned | None:
    """An endpoint's circuit; None when the endpoint never failed (or does not exist)."""
    rows = await connection.execute(_ONE, {"id": endpoint_id})
    row = rows.mappings().first()
    return None if row is None else _owned(row)


async def lock(
    connection: AsyncConnection, endpoint_ids: Iterable[str], *, if_dirty: Iterable[str] = ()
) -> list[Owned]:
    """The circuits of these endpoints, and of those in `if_dirty` that a success would change,
    locked until the transaction ends. Endpoints that do not exist are left out."""
    ids = sorted(endpoint_ids)
    if ids:
        await _add_missing(connection, ids)
    rows = await connection.execute(_LOCKED, {"ids": ids, "if_dirty": sorted(if_dirty)})
    return [_owned(row) for row in rows.mappings()]


async def store(
    connection: AsyncConnection, endpoint_id: str, after: Circuit, *, now: datetime
) -> None:
    """Write a locked circuit."""
    values = {name: getattr(after, name) for name in _STORED}
    values["circuit"] = after.state.value
    if after.workflow_started:
        values["workflow_started_at"] = func.coalesce(_H.workflow_started_at, now)
    else:
        values["workflow_started_at"] = None
    await connection.execute(update(_HEALTH).where(_H.endpoint_id == endpoint_id).values(values))


async def change(
    connection: AsyncConnection,
    endpoint_id: str,
    transition: Callable[[Owned], Circuit],
    *,
    now: datetime,
) -> tuple[Owned, Circuit] | None:
    """Apply `transition` to one locked circuit and store what it gives; returns the circuit before
    and after, or None when there is no such endpoint."""
    locked = await lock(connection, [endpoint_id])
    if not locked:
        return None
    before = locked[0]
    after = transition(before)
    if after != before.circuit:
        await store(connection, endpoint_id, after, now=now)
    return before, after


async def count_let_go(connection: AsyncConnection, endpoint_id: str) -> None:
    """Count held deliveries that left without an attempt; `circuit` counts those with one."""
    await connection.execute(
        update(_HEALTH)
        .where(_H.endpoint_id == endpoint_id, _H.circuit == State.DRAINING.value)
        .values(drained=_H.drained + 1)
    )


async def _add_missing(connection: AsyncConnection, endpoint_ids: Sequence[str]) -> None:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    there = await connection.execute(select(_H.endpoint_id).where(_H.endpoint_id.in_(endpoint_ids)))
    if missing := sorted(set(endpoint_ids) - set(there.scalars())):
        await connection.execute(
            dialect.insert(_HEALTH).on_conflict_do_nothing(index_elements=["endpoint_id"]),
            [{"endpoint_id": endpoint_id, "consecutive_failures": 0} for endpoint_id in missing],
        )


def _owned(row: Any) -> Owned:
    values = {name: row[name] for name in _STORED}
    cause = values.pop("cause")
    return Owned(
        endpoint_id=row["the_endpoint_id"],
        tenant_id=row["tenant_id"],
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

_GATES = (
    select(
        _E.id,
        _E.state,
        _E.deleted_at,
        _E.updated_at,
        _E.rate_limit_per_second,
        _H.circuit,
        _H.probe_delivery_id,
        _H.drain_rate,
    )
    .join_from(_ENDPOINTS, _HEALTH, _E.id == _H.endpoint_id, isouter=True)
    .where(_E.id.in_(bindparam("ids", expanding=True)))
)


@dataclass(frozen=True, slots=True)
class Seen:
    """An endpoint's gate, and when the endpoint itself was last changed."""

    gate: Gate
    updated_at: datetime


async def gates(connection: AsyncConnection, endpoint_ids: Iterable[str]) -> dict[str, Seen]:
    """The gates of these endpoints, as they are now."""
    rows = await connection.execute(_GATES, {"ids": sorted(endpoint_ids)})
    return {row["id"]: Seen(_gate(row), row["updated_at"]) for row in rows.mappings()}


def _gate(row: Any) -> Gate:
    return Gate(
        endpoint_state=_state_of(row["state"], row["deleted_at"]),
        state=State.CLOSED if row["circuit"] is None else State(row["circuit"]),
        probe_delivery_id=row["probe_delivery_id"],
        drain_rate=row["drain_rate"],
        rate_limit_per_second=row["rate_limit_per_second"],
    )


async def claim_probe(
    connection: AsyncConnection, delivery_id: str, endpoint_id: str, *, until: datetime
) -> bool:
    """Be the probe of a half-open circuit until then; False when another is. The same as
    `circuit.claim_probe`, in a statement whose condition is its lock."""
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
            # the workflow knows of those it chose
            workflow_started_at=case(
                (_H.probe_delivery_id.is_(None), null()), else_=_H.workflow_started_at
            ),
        )
    )
    return claimed.rowcount == 1


# -- what is held -------------------------------------------------------------------------------

_HELD = (_D.status == DeliveryStatus.HELD.value) & (_D.status != "delivered")


async def count_held(connection: AsyncConnection, endpoint_id: str) -> int:
    """How many deliveries wait for this endpoint."""
    rows = await connection.execute(
        select(func.count()).select_from(_DELIVERIES).where(_D.endpoint_id == endpoint_id, _HELD)
    )
    return rows.scalar_one()


async def holding(connection: AsyncConnection, tenant_id: str) -> list[str]:
    """The endpoints of a tenant, deleted ones too, for which deliveries wait; in order."""
    waits = select(_D.id).where(_D.endpoint_id == _E.id, _HELD).exists()
    rows = await connection.execute(
        select(_E.id).where(_E.tenant_id == tenant_id, waits).order_by(_E.id)
    )
    return list(rows.scalars())


async def unreleased_ids(connection: AsyncConnection, endpoint_id: str, *, limit: int) -> list[str]:
    """The oldest held deliveries that the circuit has not let go."""
    statement = select(_D.id).where(_D.endpoint_id == endpoint_id, _HELD, ~_D.released)
    return list((await connection.execute(statement.order_by(_D.id).limit(limit))).scalars())


async def _held_ids(
    connection: AsyncConnection, endpoint_id: str, *, after: str | None, limit: int
) -> list[str]:
    """The oldest held deliveries beyond the id `after`."""
    statement = select(_D.id).where(_D.endpoint_id == endpoint_id, _HELD)
    if after is not None:
        statement = statement.where(_D.id > after)
    rows = await connection.execute(statement.order_by(_D.id).limit(limit))
    return list(rows.scalars())


async def next_probe(connection: AsyncConnection, owned: Owned) -> str | None:
    """The delivery to probe with: the oldest held one that has not been a probe since the last one
    was, so that one delivery the receiver cannot stand does not keep the circuit open."""
    later = await _held_ids(connection, owned.endpoint_id, after=owned.circuit.probed_last, limit=1)
    found = later or await _held_ids(connection, owned.endpoint_id, after=None, limit=1)
    return found[0] if found else None


# -- asking for the workflow --------------------------------------------------------------------

_ASKED_AT_ONCE = 1_000


async def request_workflow(connection: AsyncConnection, *, overdue_since: datetime) -> int:
    """Have the workflows of circuits that have not moved since then started or woken: they were
    lost with Temporal's own data, or are waiting for a person, which a look does not change.
    Returns how many; those beyond a thousand are for the next time."""
    unmoved = await connection.execute(
        select(_H.endpoint_id)
        .where(
            _H.circuit != "closed",
            _H.workflow_started_at < overdue_since,
            or_(_H.next_probe_at.is_(None), _H.next_probe_at < overdue_since),
        )
        .limit(_ASKED_AT_ONCE)
        # PostgreSQL only: what somebody holds moves, and is not waited for in an order of its own
        .with_for_update(skip_locked=True)
    )
    ids = list(unmoved.scalars())
    if ids:
        await connection.execute(
            update(_HEALTH).where(_H.endpoint_id.in_(ids)).values(workflow_started_at=None)
        )
    return len(ids)


# What is different after every transition that a circuit's workflow has to know of.
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
    """Circuits that ask for their workflow (see `hookfast.dispatch.workflow_starter`)."""

    async def find(self, connection: AsyncConnection, *, limit: int) -> list[WorkflowRequest]:
        """Circuits that changed since their workflow was last told, in the order of their ids: that
        is how they are marked, and how others lock them."""
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
                summary=f"episode {row.episode}: {row.url.partition('?')[0][:120]}",
            )
            for row in rows
        ]

    async def mark(
        self, connection: AsyncConnection, wanted: Sequence[WorkflowRequest], *, now: datetime
    ) -> None:
        """Their workflows look now. One that changed since it was read keeps asking."""
        for one in wanted:
            unchanged = [
                column.is_(None) if value is None else column == value
                for column, value in zip(_VERSION, one.key, strict=True)
            ]
            await connection.execute(
                update(_HEALTH)
                .where(*unchanged, _H.workflow_started_at.is_(None))
                .values(workflow_started_at=now)
            )
