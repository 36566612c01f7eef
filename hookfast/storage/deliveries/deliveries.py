"""Reading `deliveries`. Every list is one range of one index, newest first, whatever is filtered.

Filters overlap: an endpoint's deliveries are all its tenant's too. So one of them leads, the
narrowest that was given, and the rest only check the rows it finds (see `Residual`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, Select, Table, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.ids import first_id_at
from hookfast.storage.database.keyset import newest_first
from hookfast.storage.database.planner_hints import Implied, Residual
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c

# The predicate of the partial indexes.
_UNDELIVERED = Implied(_C.status != literal_column("'delivered'"))

# What a filter may give, the narrowest first, and then the status.
_COLUMNS = ("event_id", "subscription_id", "endpoint_id", "tenant_id", "event_type", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries: those for which everything given is so. `since` is inclusive, `until`
    exclusive; both are about when the delivery was created."""

    status: DeliveryStatus | None = None
    event_id: str | None = None
    subscription_id: str | None = None
    endpoint_id: str | None = None
    tenant_id: str | None = None
    event_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def get(connection: AsyncConnection, delivery_id: str) -> Delivery | None:
    """One delivery."""
    rows = await connection.execute(select(_DELIVERIES).where(_C.id == delivery_id))
    row = rows.mappings().first()
    return None if row is None else Delivery(**row)


async def list_page(
    connection: AsyncConnection, chosen: DeliveryFilter, *, after: str | None, limit: int
) -> list[Delivery]:
    """The newest `limit` deliveries that fit, beyond the id `after`."""
    rows = await connection.execute(page_statement(chosen, after=after, limit=limit))
    return [Delivery(**row) for row in rows.mappings()]


def page_statement(chosen: DeliveryFilter, *, after: str | None, limit: int) -> Select[Any]:
    """The statement of `list_page`."""
    statement = select(_DELIVERIES).where(*conditions(chosen))
    if chosen.since is not None:
        statement = statement.where(_C.id >= first_id_at("dlv", chosen.since))
    if chosen.until is not None:
        statement = statement.where(_C.id < first_id_at("dlv", chosen.until))
    return newest_first(statement, _C.id, after=after, limit=limit)


def conditions(chosen: DeliveryFilter) -> list[ColumnElement[bool]]:
    """What a delivery has to fulfil, but for the times, so put that one index leads to it."""
    given = {name: value for name in _COLUMNS if (value := getattr(chosen, name)) is not None}
    found: list[ColumnElement[bool]] = []
    if chosen.status in (None, DeliveryStatus.DELIVERED):
        # Most are delivered, so a list of those only checks the rows that something else finds.
        leads = {next((name for name in given if name != "status"), "")}
    elif "event_id" in given:
        leads = {"event_id"}
    else:
        found.append(_UNDELIVERED)
        if "subscription_id" in given:
            found.append(_C.endpoint_id == _endpoint_of(given["subscription_id"]))
        has_endpoint = not given.keys().isdisjoint({"subscription_id", "endpoint_id"})
        leads = {"endpoint_id" if has_endpoint else "tenant_id", "status"}
    for name, value in given.items():
        column = _C[name] if name in leads else Residual(_C[name])
        # The status is literal: no planner matches a bound parameter with a partial index.
        found.append(column == (literal_column(f"'{value}'") if name == "status" else value))
    return found


def _endpoint_of(subscription_id: str) -> ScalarSelect[str]:
    """A subscription's endpoint, which never changes: the way to its undelivered deliveries."""
    return (
        select(_C.endpoint_id)
        .where(_C.subscription_id == subscription_id)
        .limit(1)
        .correlate(None)
        .scalar_subquery()
    )
