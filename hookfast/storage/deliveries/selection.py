"""The deliveries a job acts on: chosen by a filter, counted, and then read oldest first, a chunk at
a time, by ranges of the indexes that lists use.

A filter that names several statuses is a range for each of them, merged: an OR would read and sort
everything that fits for every chunk.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from pydantic import TypeAdapter
from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    false,
    func,
    literal,
    not_,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus, Reason
from hookfast.ids import first_id_at
from hookfast.storage.database.keyset import by_name
from hookfast.storage.database.planner_hints import Residual
from hookfast.storage.deliveries.deliveries import DeliveryFilter, conditions
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c

MAX_IDS = 1_000
"""Deliveries that can be listed one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySelection:
    """Which deliveries: those for which everything given is so.

    `statuses` empty means any. `since` is inclusive and `until` exclusive, both about creation;
    `finished_since` and `finished_until` likewise about the end. `up_to` is the newest delivery
    there was when the choice was made: later ones do not join. `without`: what others that are
    under way have chosen, each but for what they have dealt with (up to `after`).
    """

    tenant_id: str | None = None
    endpoint_id: str | None = None
    subscription_id: str | None = None
    event_id: str | None = None
    event_type: str | None = None
    statuses: tuple[DeliveryStatus, ...] = ()
    reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    finished_since: datetime | None = None
    finished_until: datetime | None = None
    ids: tuple[str, ...] | None = None
    up_to: str | None = None
    after: str | None = None
    without: tuple[DeliverySelection, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The choice that a job's row keeps. Raises pydantic's ValidationError."""
        chosen = TypeAdapter(cls).validate_python(document)
        return chosen

    def document(self) -> dict[str, Any]:
        """It as JSON, without what is not given."""
        document: dict[str, Any] = TypeAdapter(type(self)).dump_python(
            self, mode="json", exclude_defaults=True
        )
        return document

    def ranges(self) -> list[tuple[DeliveryStatus | None, list[ColumnElement[bool]]]]:
        """The ranges of an index that together are the choice, each with the one status it has
        (None: several)."""
        times = self._times()
        if self._in_one_range():
            found = self._leading() + times
            if self.statuses:
                names = [status.value for status in self.statuses]
                found.append(Residual(_C.status).in_(names))
            return [(None, found)]
        return [(status, conditions(self._filter(status)) + times) for status in self.statuses]

    def _in_one_range(self) -> bool:
        # An event or a list of ids is narrower than a status, and "delivered" is no use as one.
        return (
            not self.statuses
            or DeliveryStatus.DELIVERED in self.statuses
            or self.event_id is not None
            or self.ids is not None
        )

    def _leading(self) -> list[ColumnElement[bool]]:
        if self.ids is None:
            return conditions(self._filter(None))
        names = ("tenant_id", "endpoint_id", "subscription_id", "event_id", "event_type")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        checks = [Residual(_C[name]) == value for name, value in given.items()]
        return [_C.id.in_(self.ids), *checks]

    def _filter(self, status: DeliveryStatus | None) -> DeliveryFilter:
        return DeliveryFilter(
            status=status,
            event_id=self.event_id,
            subscription_id=self.subscription_id,
            endpoint_id=self.endpoint_id,
            tenant_id=self.tenant_id,
            event_type=self.event_type,
        )

    def _times(self) -> list[ColumnElement[bool]]:
        """Also the other things that no index leads to."""
        found: list[ColumnElement[bool]] = []
        if self.since is not None:
            found.append(_C.id >= first_id_at("dlv", self.since))
        if self.until is not None:
            found.append(_C.id < first_id_at("dlv", self.until))
        if self.up_to is not None:
            found.append(_C.id <= self.up_to)
        if self.finished_since is not None:
            found.append(_C.finished_at >= self.finished_since)
        if self.finished_until is not None:
            found.append(_C.finished_at < self.finished_until)
        if self.after is not None:
            found.append(_C.id > self.after)
        if (
            self.reason == Reason.ENDPOINT_LIMIT
        ):  # a resend in the middle of a plan has its own turn
            found.append(or_(_C.reason == self.reason, _C.resend_not_before.is_not(None)))
        elif self.reason is not None:
            found.append(_C.reason == self.reason)
        # a column that is NULL makes a condition NULL: not chosen by the other, and so not left out
        found += [not_(func.coalesce(other.condition(), false())) for other in self.without]
        return found

    def condition(self) -> ColumnElement[bool]:
        """All that a delivery has to fulfil to be chosen, where no index leads to it."""
        names = ("tenant_id", "endpoint_id", "subscription_id", "event_id", "event_type")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        found = [_C[name] == value for name, value in given.items()]
        if self.statuses:
            found.append(_C.status.in_([status.value for status in self.statuses]))
        if self.ids is not None:
            found.append(_C.id.in_(self.ids))
        return and_(true(), *found, *self._times())


async def newest_id(connection: AsyncConnection) -> str:
    """The newest delivery's id, "" where there is none: the bound of what exists now."""
    found: str | None = (await connection.execute(select(func.max(_C.id)))).scalar_one()
    return found or ""


async def count(
    connection: AsyncConnection, chosen: DeliverySelection
) -> dict[DeliveryStatus, int]:
    """How many deliveries are chosen, by their status; only statuses that occur."""
    rows = (await connection.execute(count_statement(chosen))).all()
    counted = {DeliveryStatus(status): number for status, number in rows if number}
    return {status: counted[status] for status in DeliveryStatus if status in counted}


def count_statement(chosen: DeliverySelection) -> Select[Any]:
    """The statement of `count`."""
    [first, *rest] = chosen.ranges()
    if first[0] is None:
        return select(_C.status, func.count()).where(*first[1]).group_by(_C.status)
    each = [
        select(literal(status).label("status"), func.count().label("number")).where(*found)
        for status, found in (first, *rest)
    ]
    return select(union_all(*each).subquery())


async def next_ids(
    connection: AsyncConnection, chosen: DeliverySelection, *, after: str | None, limit: int
) -> list[str]:
    """The oldest `limit` deliveries that are chosen, beyond the id `after`."""
    rows = await connection.execute(next_statement(chosen, after=after, limit=limit))
    return list(rows.scalars())


def next_statement(chosen: DeliverySelection, *, after: str | None, limit: int) -> Select[Any]:
    """The statement of `next_ids`."""
    chunks = [
        by_name(select(_C.id).where(*found), _C.id, after=after, limit=limit)
        for _, found in chosen.ranges()
    ]
    if len(chunks) == 1:
        return chunks[0]
    merged = union_all(*(select(chunk.subquery()) for chunk in chunks)).subquery()
    return by_name(select(merged.c.id), merged.c.id, after=None, limit=limit)


async def under_way(
    connection: AsyncConnection,
    delivery_ids: Collection[str],
    *,
    patience: timedelta,
    now: datetime,
) -> list[str]:
    """Those of these deliveries whose resend is still to be made, and can be before long: neither
    held, nor given a turn by their endpoint's limits that is further away than `patience`."""
    rows = await connection.execute(
        select(_C.id)
        .where(
            _C.id.in_(delivery_ids),
            _C.resend_asked_at.is_not(None),
            _C.status != DeliveryStatus.HELD.value,
            or_(_C.resend_not_before.is_(None), _C.resend_not_before < now + patience),
        )
        .order_by(_C.id)
    )
    return list(rows.scalars())
