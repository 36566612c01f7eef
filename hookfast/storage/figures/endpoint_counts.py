"""Counts endpoints by their health, at a bounded cost.

Of a tenant, its newest `MAX_COUNTED` endpoints are read. Of all tenants, the endpoints that are not
healthy are read by the indexes that have only them, so that none is missed however many endpoints
there are; the others are healthy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Select, Table, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.endpoints.circuit import EndpointState
from hookfast.endpoints.health import DISABLED_BY_REQUEST, Health
from hookfast.storage.endpoints.derived_health import IS_STOPPED, IS_UNHEALTHY, health_of
from hookfast.storage.tables import Endpoint, EndpointHealth

MAX_COUNTED: Final = 10_000
"""Counting stops at this number of endpoints, and at this number that are not healthy."""

_ENDPOINTS: Table = Endpoint.__table__
_E = _ENDPOINTS.c
_HEALTH: Table = EndpointHealth.__table__
_H = _HEALTH.c
_LIVE = _E.deleted_at.is_(None)
_ASKED = (_E.state_reason == literal(DISABLED_BY_REQUEST, literal_execute=True)).label("asked")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCounts:
    """The number of endpoints with each health. `by_request`: of the disabled ones, those that a
    person disabled. `complete`: all endpoints are counted."""

    by_health: Mapping[Health, int] = field(default_factory=Counter)
    by_request: int = 0
    complete: bool = True

    @property
    def total(self) -> int:
        """The number of all counted endpoints."""
        return sum(self.by_health.values())

    @property
    def down(self) -> int:
        """The number of endpoints that get nothing although nobody asked for it."""
        stopped = (self.by_health.get(each, 0) for each in (Health.CIRCUIT_OPEN, Health.DISABLED))
        return sum(stopped) - self.by_request


async def read(connection: AsyncConnection, *, tenant_id: str | None) -> EndpointCounts:
    """Count the endpoints of a tenant, or all endpoints."""
    by_health: Counter[Health] = Counter()
    by_request = 0
    if tenant_id is not None:
        for state, asked, circuit, fails, number in await connection.execute(of_tenant(tenant_id)):
            by_health[health_of(state, circuit, int(bool(fails)))] += number
            by_request += number if asked else 0
        complete = by_health.total() < MAX_COUNTED
        return EndpointCounts(by_health=by_health, by_request=by_request, complete=complete)
    for circuit, fails, number in await connection.execute(UNHEALTHY_ENDPOINTS):
        by_health[health_of(EndpointState.ENABLED, circuit, int(bool(fails)))] += number
    for state, asked, number in await connection.execute(STOPPED_ENDPOINTS):
        by_health[health_of(state, None, None)] += number
        by_request += number if asked else 0
    total = (await connection.execute(ALL_ENDPOINTS)).scalar_one()
    by_health[Health.HEALTHY] += max(0, total - by_health.total())
    complete = total < MAX_COUNTED
    return EndpointCounts(by_health=by_health, by_request=by_request, complete=complete)


def of_tenant(tenant_id: str) -> Select[str, bool | None, str | None, bool | None, int]:
    """Select a tenant's endpoints by state, whether a person disabled them, circuit, and whether
    they have failures."""
    some = (
        select(_E.id, _E.state, _ASKED)
        .where(_E.tenant_id == tenant_id, _LIVE)
        .order_by(_E.id.desc())
        .limit(MAX_COUNTED)
        .subquery()
    )
    fails = (_H.consecutive_failures > 0).label("fails")
    return (
        select(some.c.state, some.c.asked, _H.circuit, fails, func.count())
        .join_from(some, _HEALTH, some.c.id == _H.endpoint_id, isouter=True)
        .group_by(some.c.state, some.c.asked, _H.circuit, fails)
    )


SOME_UNHEALTHY = (
    select(_H.endpoint_id, _H.circuit, (_H.consecutive_failures > 0).label("fails"))
    .where(IS_UNHEALTHY)
    .order_by(_H.endpoint_id.desc())
    .limit(MAX_COUNTED)
    .subquery()
)
"""The circuits that are not closed, or have failures."""
UNHEALTHY_ENDPOINTS = (
    select(SOME_UNHEALTHY.c.circuit, SOME_UNHEALTHY.c.fails, func.count())
    .join_from(SOME_UNHEALTHY, _ENDPOINTS, SOME_UNHEALTHY.c.endpoint_id == _E.id)
    .where(_E.state == EndpointState.ENABLED.value, _LIVE)
    .group_by(SOME_UNHEALTHY.c.circuit, SOME_UNHEALTHY.c.fails)
)
"""Selects the enabled endpoints that fail or have a circuit that is not closed."""

_STOPPED = select(_E.state, _ASKED).where(IS_STOPPED, _LIVE).limit(MAX_COUNTED).subquery()
STOPPED_ENDPOINTS = select(_STOPPED.c.state, _STOPPED.c.asked, func.count()).group_by(
    _STOPPED.c.state, _STOPPED.c.asked
)
"""Selects the paused and disabled endpoints, by state and whether a person disabled them."""

_SOME = select(_E.id).where(_LIVE).limit(MAX_COUNTED).subquery()
ALL_ENDPOINTS = select(func.count()).select_from(_SOME)
"""Selects the number of all endpoints."""
