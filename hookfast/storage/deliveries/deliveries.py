"""Statements that read `deliveries`. Every list is one range of one index, newest first.

Filters overlap: an endpoint's deliveries all belong to its tenant too. So only the narrowest given
filter uses an index, and the others check what it finds (see `Residual`): of undelivered ones, what
is in the index, so that rare ones are found without reading the rows of the others.

A failing answer is rare among all deliveries, and nearly all deliveries with one are undelivered.
So a list of failing answers without a status reads one range per status, and merges them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    Table,
    and_,
    case,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.answer import AnswerFilter
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.database.keyset import created_between, newest_first
from hookfast.storage.database.planner_hints import Implied, Residual, constant
from hookfast.storage.database.rows import fetch_all, fetch_one
from hookfast.storage.deliveries import answers
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c

# The predicates of the partial indexes.
_UNDELIVERED = Implied(_C.status != constant("delivered"))
_FAILING = _C.last_result != constant("success")

FILTERED = (
    *("event_id", "subscription_id", "endpoint_id", "tenant_id", "event_type", "status", "reason"),
)
"""The columns of a filter, the narrowest first, and then the status and why it has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """A filter of deliveries; all given conditions must hold. `answer` refers to the newest
    attempt, `since` (inclusive) and `until` (exclusive) to the delivery's creation."""

    status: DeliveryStatus | None = None
    reason: str | None = None
    event_id: str | None = None
    subscription_id: str | None = None
    endpoint_id: str | None = None
    tenant_id: str | None = None
    event_type: str | None = None
    answer: AnswerFilter | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def fails(self) -> bool:
        """Whether it selects failing answers by statuses. An event is narrower than a status."""
        return self.answer is not None and self.answer.is_failure and self.event_id is None

    @property
    def merges_statuses(self) -> bool:
        """Whether a list reads one range per status."""
        return self.fails and self.status is None


async def get(connection: AsyncConnection, delivery_id: str) -> Delivery | None:
    """Return the delivery with this id."""
    return await fetch_one(connection, select(_DELIVERIES).where(_C.id == delivery_id), Delivery)


async def list_page(
    connection: AsyncConnection, chosen: DeliveryFilter, *, after: str | None, limit: int
) -> list[Delivery]:
    """Return the newest `limit` deliveries that match, beyond the id `after`."""
    return await fetch_all(connection, page_statement(chosen, after=after, limit=limit), Delivery)


def page_statement(chosen: DeliveryFilter, *, after: str | None, limit: int) -> Select[Any]:
    """Return the statement that `list_page` executes."""
    if chosen.merges_statuses:
        return merged_page(chosen, DeliveryStatus, after=after, limit=limit)
    times = created_between(_C.id, "dlv", chosen.since, chosen.until)
    statement = select(_DELIVERIES).where(*conditions(chosen), *times)
    return newest_first(statement, _C.id, after=after, limit=limit)


def merged_page(
    chosen: DeliveryFilter, statuses: Iterable[DeliveryStatus], *, after: str | None, limit: int
) -> Select[Any]:
    """Return the statement of the newest `limit` deliveries with one of these statuses: the newest
    of each, merged."""
    pages = [
        page_statement(replace(chosen, status=status), after=after, limit=limit)
        for status in statuses
    ]
    merged = union_all(*(select(page.subquery()) for page in pages)).subquery()
    return newest_first(select(merged), merged.c.id, after=None, limit=limit)


def range_statement(chosen: DeliveryFilter, *, limit: int) -> Select[str, str, int]:
    """Return the statement that reads the oldest `limit` deliveries of the filter's range of an
    index: id, status, and 1 if it matches the whole filter, else 0. The limit is on what is read,
    so that a filter which few of them match does not read them all."""
    indexed, others = split_conditions(chosen)
    matches = case((and_(true(), *others), 1), else_=0).label("matches")
    times = created_between(_C.id, "dlv", chosen.since, chosen.until)
    statement = select(_C.id, _C.status, matches).where(*indexed, *times)
    return statement.order_by(_C.id).limit(limit)


def conditions(chosen: DeliveryFilter) -> list[ColumnElement[bool]]:
    """Return the filter's conditions except the times, written so that one index is used."""
    indexed, others = split_conditions(chosen)
    return [*indexed, *others]


def split_conditions(
    chosen: DeliveryFilter,
) -> tuple[list[ColumnElement[bool]], list[ColumnElement[bool]]]:
    """Return the conditions that make the range of the index, and those that only check its
    rows."""
    given = {name: value for name in FILTERED if (value := getattr(chosen, name)) is not None}
    indexed: list[ColumnElement[bool]] = []
    others: list[ColumnElement[bool]] = []
    if chosen.answer is not None:
        others.append(answers.delivery_matches(chosen.answer))
    if chosen.fails and chosen.status is DeliveryStatus.DELIVERED:
        indexed.append(_FAILING)
        names = {"status"}
    elif chosen.status in (None, DeliveryStatus.DELIVERED):
        # Most deliveries are delivered, so this status only checks the rows of another filter.
        names = {next((name for name in given if name != "status"), "")}
    elif "event_id" in given:
        names = {"event_id"}
    else:
        indexed.append(_UNDELIVERED)
        if "subscription_id" in given:
            indexed.append(_C.endpoint_id == _endpoint_of(given["subscription_id"]))
        has_endpoint = not given.keys().isdisjoint({"subscription_id", "endpoint_id"})
        names = {"endpoint_id" if has_endpoint else "tenant_id", "status"}
    for name, value in given.items():
        compared = constant(value) if name == "status" else value
        if name in names:
            indexed.append(_C[name] == compared)
        else:
            others.append(Residual(_C[name]) == compared)
    return indexed, others


def _endpoint_of(subscription_id: str) -> ScalarSelect[str]:
    """Return a subquery for a subscription's endpoint, which never changes: the index of
    undelivered deliveries begins with the endpoint."""
    return (
        select(_C.endpoint_id)
        .where(_C.subscription_id == subscription_id)
        .limit(1)
        .correlate(None)
        .scalar_subquery()
    )
