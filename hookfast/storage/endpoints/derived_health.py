"""The health of stored endpoints (`hookfast.endpoints.health`): of some endpoints, and as the
filter of a list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

from sqlalchemy import ColumnElement, Select, Table, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.endpoints.circuit import EndpointState, State
from hookfast.endpoints.health import Health, derive_health
from hookfast.storage.database.planner_hints import Implied, constant
from hookfast.storage.tables import Endpoint, EndpointHealth

_ENDPOINTS: Table = Endpoint.__table__
_E = _ENDPOINTS.c
_HEALTH: Table = EndpointHealth.__table__
_H = _HEALTH.c

IS_CLOSED: ColumnElement[bool] = _H.circuit == constant("closed")
IS_STOPPED: ColumnElement[bool] = _E.state != constant("enabled")
"""With the condition that the endpoint is not deleted, the predicate of `ix_endpoints_stopped`."""
IS_UNHEALTHY: ColumnElement[bool] = or_(~IS_CLOSED, _H.first_failure_at.is_not(None))
"""The predicate of `ix_endpoint_health_unhealthy`. An endpoint has a first failure exactly while it
has consecutive failures."""


def health_of(state: str, circuit: str | None, consecutive_failures: int | None) -> Health:
    """Return the health by the columns of an endpoint and of its circuit. An endpoint that never
    failed has no circuit."""
    return derive_health(
        EndpointState(state),
        State.CLOSED if circuit is None else State(circuit),
        consecutive_failures=consecutive_failures or 0,
    )


async def read(connection: AsyncConnection, endpoints: Iterable[Endpoint]) -> dict[str, Health]:
    """Return the health of these endpoints, by id."""
    state_of = {endpoint.id: endpoint.state for endpoint in endpoints}
    if not state_of:
        return {}
    circuits = await connection.execute(
        select(_H.endpoint_id, _H.circuit, _H.consecutive_failures).where(
            _H.endpoint_id.in_(sorted(state_of))
        )
    )
    circuit_of = {row.endpoint_id: (row.circuit, row.consecutive_failures) for row in circuits}
    return {
        endpoint_id: health_of(state, *circuit_of.get(endpoint_id, (None, None)))
        for endpoint_id, state in state_of.items()
    }


async def read_one(connection: AsyncConnection, endpoint: Endpoint) -> Health:
    """Return the health of one endpoint."""
    return (await read(connection, [endpoint]))[endpoint.id]


def select_with_health(health: Health, *, tenant_id: str | None) -> tuple[Select[Any], Any]:
    """Return the statement that selects the endpoints with this health, deleted ones too, and the
    column by whose index they are read in order.

    Of a tenant (whose condition the caller adds), its endpoints are read, each with its circuit. Of
    all tenants, only endpoints that are stopped, or not healthy, are read, if that is the question.
    """
    if health in (Health.PAUSED, Health.DISABLED):
        stopped = in_state(health.value, tenant_id=tenant_id)
        return select(_ENDPOINTS).where(*stopped), _E.id
    enabled = _E.state == constant("enabled")
    if health is Health.HEALTHY:
        never_failed = _H.endpoint_id.is_(None)
        recovered = IS_CLOSED & _H.first_failure_at.is_(None)
        statement = select(_ENDPOINTS).outerjoin(_HEALTH, _E.id == _H.endpoint_id)
        return statement.where(enabled, or_(never_failed, recovered)), _E.id
    statement = select(_ENDPOINTS).join(_HEALTH, _E.id == _H.endpoint_id)
    statement = statement.where(enabled, *_circuit_with(health))
    if tenant_id is not None:
        return statement, _E.id
    return statement.where(Implied(IS_UNHEALTHY.self_group())), _H.endpoint_id


def in_state(state: str, *, tenant_id: str | None) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that endpoints are in a state. Of all tenants, paused and disabled ones
    are found by their index; of one tenant, its endpoints are read."""
    chosen = _E.state == constant(EndpointState(state).value)
    is_indexed = tenant_id is None and state != EndpointState.ENABLED
    return (Implied(IS_STOPPED), chosen) if is_indexed else (chosen,)


def _circuit_with(health: Health) -> tuple[ColumnElement[bool], ...]:
    match health:
        case Health.CIRCUIT_OPEN:
            return (_H.circuit.in_((constant("open"), constant("half_open"))),)
        case Health.DRAINING:
            return (_H.circuit == constant("draining"),)
        case Health.FAILING:
            return IS_CLOSED, _H.first_failure_at.is_not(None)
        case Health.HEALTHY | Health.PAUSED | Health.DISABLED:
            raise ValueError("Endpoints with this health are not found by their circuit.")
        case _:
            assert_never(health)
