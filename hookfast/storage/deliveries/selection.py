"""The deliveries that a job acts on: selected by a filter, counted, and read in chunks, oldest
first, with the same indexes as lists.

A filter with several statuses reads one index range per status and merges them: an OR would read
and sort all matching deliveries for every chunk.
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

from hookfast.deliveries.answer import AnswerFilter, parse_answer
from hookfast.deliveries.lane import Place
from hookfast.deliveries.outcome import DeliveryStatus, Reason
from hookfast.storage.database.keyset import by_name, created_between
from hookfast.storage.database.planner_hints import Residual
from hookfast.storage.deliveries import answers
from hookfast.storage.deliveries.deliveries import DeliveryFilter, conditions
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c

MAX_IDS = 1_000
"""The most deliveries that a selection may list by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySelection:
    """A selection of deliveries; all given conditions must hold.

    Empty `statuses` means any. `answer` is the text of a filter by the newest attempt. `since`
    (inclusive) and `until` (exclusive) refer to creation, `finished_since` and `finished_until` to
    the end. `up_to` is the newest delivery at the time of the selection: later ones are not
    included. `without` has the selections of other unfinished jobs, which are excluded here, except
    what those jobs have already processed (up to `after`).
    """

    tenant_id: str | None = None
    endpoint_id: str | None = None
    subscription_id: str | None = None
    event_id: str | None = None
    event_type: str | None = None
    statuses: tuple[DeliveryStatus, ...] = ()
    reason: str | None = None
    answer: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    finished_since: datetime | None = None
    finished_until: datetime | None = None
    ids: tuple[str, ...] | None = None
    up_to: str | None = None
    after: str | None = None
    without: tuple[DeliverySelection, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read a selection from a job's row. Raises pydantic's ValidationError."""
        selection = TypeAdapter(cls).validate_python(document)
        return selection

    def document(self) -> dict[str, Any]:
        """Return the selection as a JSON object for a job's row, without default values."""
        document: dict[str, Any] = TypeAdapter(type(self)).dump_python(
            self, mode="json", exclude_defaults=True
        )
        return document

    def ranges(self) -> list[tuple[DeliveryStatus | None, list[ColumnElement[bool]]]]:
        """Return the index ranges that make up the selection, as conditions, each with its status
        (None: several statuses)."""
        times = self._times()
        if self._in_one_range():
            found = self._indexed_conditions() + times
            if self.statuses:
                names = [status.value for status in self.statuses]
                found.append(Residual(_C.status).in_(names))
            return [(None, found)]
        statuses = self.statuses or tuple(DeliveryStatus)
        return [(status, conditions(self._filter(status)) + times) for status in statuses]

    def _in_one_range(self) -> bool:
        # An event or a list of ids is narrower than a status, and most deliveries are "delivered".
        # Few of these have a failing answer, which has an index of its own.
        if self.event_id is not None or self.ids is not None:
            return True
        if self._answer is not None and self._answer.is_failure:
            return False
        return not self.statuses or DeliveryStatus.DELIVERED in self.statuses

    def _indexed_conditions(self) -> list[ColumnElement[bool]]:
        if self.ids is None:
            return conditions(self._filter(None))
        checks = [Residual(_C[name]) == value for name, value in self._given_columns()]
        return [_C.id.in_(self.ids), *checks, *self._answer_conditions()]

    @property
    def _answer(self) -> AnswerFilter | None:
        return None if self.answer is None else parse_answer(self.answer, pointer="answer")

    def _answer_conditions(self) -> list[ColumnElement[bool]]:
        if self._answer is None:
            return []
        return [answers.delivery_matches(self._answer)]

    def _given_columns(self) -> list[tuple[str, Any]]:
        names = ("tenant_id", "endpoint_id", "subscription_id", "event_id", "event_type")
        return [(name, value) for name in names if (value := getattr(self, name)) is not None]

    def _filter(self, status: DeliveryStatus | None) -> DeliveryFilter:
        return DeliveryFilter(status=status, answer=self._answer, **dict(self._given_columns()))

    def _times(self) -> list[ColumnElement[bool]]:
        """Return the conditions on times, and all others that use no index."""
        found = created_between(_C.id, "dlv", self.since, self.until)
        if self.up_to is not None:
            found.append(_C.id <= self.up_to)
        if self.finished_since is not None:
            found.append(_C.finished_at >= self.finished_since)
        if self.finished_until is not None:
            found.append(_C.finished_at < self.finished_until)
        if self.after is not None:
            found.append(_C.id > self.after)
        if self.reason == Reason.ENDPOINT_LIMIT:
            # a resend in the middle of a plan has its own turn
            found.append(or_(_C.reason == self.reason, _C.resend_not_before.is_not(None)))
        elif self.reason is not None:
            found.append(_C.reason == self.reason)
        # NULL columns make a condition NULL: the other job did not select these, so keep them
        found += [not_(func.coalesce(other.condition(), false())) for other in self.without]
        return found

    def condition(self) -> ColumnElement[bool]:
        """Return the whole selection as one condition that does not depend on an index."""
        found = [_C[name] == value for name, value in self._given_columns()]
        if self.statuses:
            found.append(_C.status.in_([status.value for status in self.statuses]))
        if self.ids is not None:
            found.append(_C.id.in_(self.ids))
        return and_(true(), *found, *self._answer_conditions(), *self._times())


async def newest_id(connection: AsyncConnection) -> str:
    """Return the newest delivery's id, or "" without deliveries: the upper bound of what exists."""
    found: str | None = (await connection.execute(select(func.max(_C.id)))).scalar_one()
    return found or ""


async def count(
    connection: AsyncConnection, chosen: DeliverySelection
) -> dict[DeliveryStatus, int]:
    """Count the selected deliveries by status. Statuses that do not occur are left out."""
    each: list[Select[*tuple[Any, ...]]] = [
        select(_C.status, func.count()).where(*found).group_by(_C.status)
        if status is None
        else select(literal(status), func.count()).where(*found)
        for status, found in chosen.ranges()
    ]
    rows = await connection.execute(union_all(*each))
    counted = {DeliveryStatus(status): number for status, number in rows if number}
    return {status: counted[status] for status in DeliveryStatus if status in counted}


async def next_ids(
    connection: AsyncConnection, chosen: DeliverySelection, *, after: str | None, limit: int
) -> list[str]:
    """Return the ids of the oldest `limit` selected deliveries, beyond the id `after`."""
    chunks = [
        by_name(select(_C.id).where(*found), _C.id, after=after, limit=limit)
        for _, found in chosen.ranges()
    ]
    statement = chunks[0]
    if len(chunks) > 1:
        merged = union_all(*(select(chunk.subquery()) for chunk in chunks)).subquery()
        statement = by_name(select(merged.c.id), merged.c.id, after=None, limit=limit)
    return list((await connection.execute(statement)).scalars())


async def resends_under_way(
    connection: AsyncConnection,
    delivery_ids: Collection[str],
    *,
    patience: timedelta,
    now: datetime,
) -> list[str]:
    """Return the deliveries whose requested resend has not been made but is expected soon: they are
    neither held nor queued in a lane, and their endpoint's limits give them a turn within
    `patience`."""
    rows = await connection.execute(
        select(_C.id)
        .where(
            _C.id.in_(delivery_ids),
            _C.resend_asked_at.is_not(None),
            _C.status != DeliveryStatus.HELD.value,
            func.coalesce(_C.place, "") != Place.QUEUED.value,
            or_(_C.resend_not_before.is_(None), _C.resend_not_before < now + patience),
        )
        .order_by(_C.id)
    )
    return list(rows.scalars())
