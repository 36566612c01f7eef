"""Reads gauges: what was added up, and the entries that were not yet, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    BindParameter,
    CompoundSelect,
    Select,
    Text,
    bindparam,
    cast,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.counting.folding import DEAD_BY, EVERYTHING
from hookfast.storage.counting.reading import Scope, owned
from hookfast.storage.tables import FigureEntry, Gauge, GaugeTotal

_E = FigureEntry.__table__.c
_G = Gauge.__table__.c
_T = GaugeTotal.__table__.c


async def read(connection: AsyncConnection, scope: Scope) -> list[Any]:
    """Return rows of `kind` and `number`, how many deliveries of each kind there are now; kinds
    with none are left out."""
    name = {"scope": scope.name, "owner": scope.name}
    return list(await connection.execute(statement(scope.owner), name))


@lru_cache
def statement(owner: str | None) -> Select[Any]:
    """Return the statement of `read`. Those of a tenant or of all are read from their totals: few
    rows, however many endpoints there are."""
    if owner == "endpoint_id":
        added = select(_G.kind, _G.number).where(*owned(_G, owner))
    else:
        added = select(_T.kind, _T.number).where(_T.scope == bindparam("scope"))
    new = select(_E.kind, _E.number).where(_E.gauge, *owned(_E, owner))
    return _summed(("kind",), added, new)


async def of_tenants(connection: AsyncConnection, tenant_ids: Sequence[str]) -> list[Any]:
    """Return rows of `tenant_id`, `kind` and `number` of these tenants, as `read` does."""
    return list(await connection.execute(OF_TENANTS, {"owners": tenant_ids}))


def _of_tenants() -> Select[Any]:
    owners: BindParameter[str] = bindparam("owners", expanding=True)
    added = select(_T.scope.label("tenant_id"), _T.kind, _T.number).where(_T.scope.in_(owners))
    new = select(_E.tenant_id, _E.kind, _E.number).where(_E.gauge, _E.tenant_id.in_(owners))
    return _summed(("tenant_id", "kind"), added, new)


def _summed(by: tuple[str, ...], added: Select[Any], new: Select[Any]) -> Select[Any]:
    rows = union_all(added, new).subquery().c
    key = [rows[name] for name in by]
    number = func.sum(rows.number)
    return select(*key, cast(number, BigInteger).label("number")).group_by(*key).having(number != 0)


OF_TENANTS: Final = _of_tenants()
"""Selects the gauges of these tenants (`owners`) by tenant and kind."""


def dead_letters(name: str, owners: tuple[str, ...]) -> CompoundSelect[Any]:
    """Return the statement of rows of `value` and `number`, to sum up: how many dead letters are
    kept with each value of this column of gauges, as text. `owners` are the columns that have the
    value of the parameter of their name. Those of a tenant, or of all, are read from totals."""
    scope = cast(bindparam("tenant_id") if owners else literal(EVERYTHING), Text)

    def dead(columns: Any) -> Select[Any]:
        chosen = (columns[owner] == bindparam(owner) for owner in owners)
        value = cast(columns[name], Text).label("value")
        return select(value, columns.number).where(columns.event_type != "", *chosen)

    if "endpoint_id" in owners:
        added = dead(_G)
    elif name in DEAD_BY:
        added = select(_T.kind, _T.number).where(_T.scope == scope + f"/{name}")
    else:
        added = select(_T.kind, _T.number).where(_T.scope == scope, _T.kind.contains(":"))
    return union_all(dead(_E).where(_E.gauge), added)
