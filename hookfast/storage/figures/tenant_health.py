"""The tenants that need attention: some of their deliveries are held or retried, some of their
endpoints are not healthy, or they have dead letters.

The cost is bounded, however many tenants and endpoints there are. Tenants are found by the indexes
of what is wrong: the highest numbers of held and of retrying deliveries, the endpoints that are
not healthy, and the newest dead letters. The deliveries of these tenants are counted exactly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Integer, Select, String, Table, cast, func, literal, null, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries import figures
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import EndpointState
from hookfast.endpoints.health import DISABLED_BY_REQUEST, Health
from hookfast.storage.accounts import tenants
from hookfast.storage.counting import gauges
from hookfast.storage.counting.folding import EVERYTHING
from hookfast.storage.database.planner_hints import constant
from hookfast.storage.deliveries import dead_letters
from hookfast.storage.endpoints.derived_health import IS_STOPPED, health_of
from hookfast.storage.figures.endpoint_counts import MAX_COUNTED, SOME_UNHEALTHY
from hookfast.storage.tables import Delivery, Endpoint, FigureEntry, GaugeTotal, Tenant

MAX_NUMBERS: Final = 5_000
"""The most numbers of held and retrying deliveries that are read, the highest first."""
MAX_DEAD: Final = 1_000
"""The most dead letters that are read, the newest first."""
_MOST_FOUND: Final = 32
"""The most tenants that are found by each index."""

_D = Delivery.__table__.c
_E = Endpoint.__table__.c
_NEW = FigureEntry.__table__.c
_TOTAL = GaugeTotal.__table__.c
_TENANTS: Table = Tenant.__table__
_LATE = (DeliveryStatus.HELD, DeliveryStatus.RETRYING)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantHealth:
    """What is wrong with a tenant's deliveries now. `endpoints` has the number of those that are
    not healthy, by their health, without those that a person disabled."""

    tenant_id: str
    name: str
    held: int
    retrying: int
    dead: int
    endpoints: Mapping[Health, int]

    @property
    def severity(self) -> tuple[int, int, int]:
        """How much is wrong: late deliveries, then unhealthy endpoints, then dead letters."""
        return self.held + self.retrying, sum(self.endpoints.values()), self.dead


async def read(connection: AsyncConnection, *, limit: int) -> list[TenantHealth]:
    """Return at most `limit` tenants that need attention, the most affected first; none if there is
    only one tenant."""
    if not await tenants.are_several(connection):
        return []
    found: list[dict[str, int]] = []
    for statement in (LATE, UNHEALTHY, DEAD):
        rows = await connection.execute(statement)
        found.append({tenant_id: number for tenant_id, number in rows})
    ranked = sorted(
        {tenant_id for numbers in found for tenant_id in numbers},
        key=lambda tenant_id: (*(-numbers.get(tenant_id, 0) for numbers in found), tenant_id),
    )
    names = await tenants.names_of(connection, ranked)
    shown = [tenant_id for tenant_id in ranked if tenant_id in names][:limit]
    if not shown:
        return []
    waiting: dict[str, Counter[str]] = defaultdict(Counter)
    for tenant_id, kind, number in await gauges.of_tenants(connection, shown):
        waiting[tenant_id][kind.partition(":")[0]] += number
    unhealthy: dict[str, Counter[Health]] = defaultdict(Counter)
    for row in await connection.execute(unhealthy_of(shown)):
        health = health_of(row.state, row.circuit, row.fails)
        unhealthy[row.tenant_id][health] += row.number
    counted = [
        TenantHealth(
            tenant_id=tenant_id,
            name=names[tenant_id],
            held=waiting[tenant_id][DeliveryStatus.HELD],
            retrying=waiting[tenant_id][DeliveryStatus.RETRYING],
            dead=sum(waiting[tenant_id][status] for status in figures.DEAD),
            endpoints=unhealthy[tenant_id],
        )
        for tenant_id in shown
    ]
    affected = [each for each in counted if any(each.severity)]
    return sorted(affected, key=lambda each: each.severity, reverse=True)


def _most(columns: Any, number: Any) -> Select[Any]:
    """Select the tenants of these rows with the highest sums."""
    return (
        select(columns.tenant_id, number)
        .group_by(columns.tenant_id)
        .having(number > 0)
        .order_by(number.desc())
        .limit(_MOST_FOUND)
    )


def _late() -> Select[Any]:
    kinds = [constant(status.value) for status in _LATE]
    highest = (
        select(_TOTAL.scope.label("tenant_id"), _TOTAL.number)
        .where(_TOTAL.kind.in_(kinds), _TOTAL.number > 0, _TOTAL.scope != constant(EVERYTHING))
        .order_by(_TOTAL.number.desc())
        .limit(MAX_NUMBERS)
        .subquery()
    )
    new = select(_NEW.tenant_id, _NEW.number).where(_NEW.gauge, _NEW.kind.in_(kinds))
    rows = union_all(select(highest), new).subquery().c
    return _most(rows, func.sum(rows.number))


def _unhealthy() -> Any:
    circuits = (
        select(
            _E.tenant_id,
            _E.state,
            SOME_UNHEALTHY.c.circuit,
            cast(SOME_UNHEALTHY.c.fails, Integer).label("fails"),
        )
        .join_from(SOME_UNHEALTHY, Endpoint.__table__, SOME_UNHEALTHY.c.endpoint_id == _E.id)
        .where(_E.state == EndpointState.ENABLED.value, _E.deleted_at.is_(None))
    )
    stopped = (
        select(
            _E.tenant_id,
            _E.state,
            cast(null(), String).label("circuit"),
            literal(0, literal_execute=True).label("fails"),
        )
        .where(
            IS_STOPPED,
            _E.deleted_at.is_(None),
            _E.state_reason.is_distinct_from(constant(DISABLED_BY_REQUEST)),
        )
        .limit(MAX_COUNTED)
        .subquery()
    )
    return union_all(circuits, select(stopped)).subquery().c


def _dead() -> Select[Any]:
    newest = (
        select(_D.tenant_id)
        .where(dead_letters.IS_DEAD)
        .order_by(_D.finished_at.desc())
        .limit(MAX_DEAD)
        .subquery()
    )
    # a deleted tenant's dead letters are kept
    kept = (
        select(newest.c.tenant_id)
        .join_from(newest, _TENANTS, newest.c.tenant_id == _TENANTS.c.id)
        .where(_TENANTS.c.deleted_at.is_(None))
        .subquery()
    )
    return _most(kept.c, func.count())


LATE: Final = _late()
"""Selects the tenants with the most held and retrying deliveries."""
_UNHEALTHY: Final = _unhealthy()
UNHEALTHY: Final = _most(_UNHEALTHY, func.count())
"""Selects the tenants with the most endpoints that are not healthy."""
DEAD: Final = _dead()
"""Selects the tenants with the most of the newest dead letters."""


def unhealthy_of(tenant_ids: Sequence[str]) -> Select[Any]:
    """Select the endpoints of these tenants that are not healthy, by state, circuit, and whether
    they have failures."""
    key = (_UNHEALTHY.tenant_id, _UNHEALTHY.state, _UNHEALTHY.circuit, _UNHEALTHY.fails)
    return (
        select(*key, func.count().label("number"))
        .where(_UNHEALTHY.tenant_id.in_(tenant_ids))
        .group_by(*key)
    )
