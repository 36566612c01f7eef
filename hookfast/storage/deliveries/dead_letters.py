"""Dead letters: deliveries that ended without success (`dead`, `gone`) and can be resent.

Partial indexes contain dead letters only: a list is one range of one of these indexes, and the
statistics read the dead letters but not the other deliveries.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.answer import AnswerFilter
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.storage.database.keyset import created_between, narrowest_first, newest_first
from hookfast.storage.database.planner_hints import Residual, constant
from hookfast.storage.database.rows import fetch_all
from hookfast.storage.deliveries import answers
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c

DEAD: Final = (DeliveryStatus.DEAD, DeliveryStatus.GONE)
TOP = 100
"""The statistics list this many of the most frequent endpoints, event types and reasons."""

IS_DEAD = _C.status.in_([constant(status.value) for status in DEAD])
"""Written as in the partial indexes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """A filter of dead letters; all given conditions must hold. `answer` refers to the newest
    attempt, `since` (inclusive) and `until` (exclusive) to the delivery's creation."""

    endpoint_id: str | None = None
    tenant_id: str | None = None
    event_type: str | None = None
    reason: str | None = None
    answer: AnswerFilter | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """The number of dead letters by age: less than an hour, a day, a week, and older."""

    hour: int
    day: int
    week: int
    older: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStats:
    """The number of dead letters, in total and as (value, count) pairs, most frequent first."""

    total: int
    by_endpoint: list[tuple[str, int]]
    by_event_type: list[tuple[str, int]]
    by_reason: list[tuple[str | None, int]]
    by_age: Ages


async def list_page(
    connection: AsyncConnection, chosen: DeadLetterFilter, *, after: str | None, limit: int
) -> list[Delivery]:
    """Return the newest `limit` dead letters that match, beyond the id `after`."""
    statement = select(_DELIVERIES).where(*_conditions(chosen))
    page = newest_first(statement, _C.id, after=after, limit=limit)
    return await fetch_all(connection, page, Delivery)


async def count_of_endpoint(connection: AsyncConnection, endpoint_id: str) -> int:
    """Return the number of an endpoint's dead letters."""
    chosen = DeadLetterFilter(endpoint_id=endpoint_id)
    rows = await connection.execute(
        select(func.count()).select_from(_DELIVERIES).where(*_conditions(chosen))
    )
    return rows.scalar_one()


async def stats(
    connection: AsyncConnection, chosen: DeadLetterFilter, *, now: datetime
) -> DeadLetterStats:
    """Return the statistics of the dead letters that match."""
    found = _conditions(chosen)
    ages = Ages(**(await connection.execute(ages_statement(chosen, now=now))).mappings().one())
    top: list[list[tuple[Any, int]]] = []
    for column in (_C.endpoint_id, _C.event_type, _C.reason):
        number = func.count()
        rows = await connection.execute(
            select(column, number)
            .where(*found)
            .group_by(column)
            .order_by(number.desc(), column)
            .limit(TOP)
        )
        top.append([(value, count) for value, count in rows])
    by_endpoint, by_event_type, by_reason = top
    return DeadLetterStats(
        total=ages.hour + ages.day + ages.week + ages.older,
        by_endpoint=by_endpoint,
        by_event_type=by_event_type,
        by_reason=by_reason,
        by_age=ages,
    )


def ages_statement(chosen: DeadLetterFilter, *, now: datetime) -> Select[int, int, int, int]:
    """Return the statement that counts the dead letters of each age."""
    ended = func.coalesce(_C.finished_at, _C.updated_at, type_=_C.updated_at.type)
    hour, day, week = (
        now - span for span in (timedelta(hours=1), timedelta(days=1), timedelta(days=7))
    )
    return select(
        func.count().filter(ended > hour).label("hour"),
        func.count().filter(and_(ended > day, ended <= hour)).label("day"),
        func.count().filter(and_(ended > week, ended <= day)).label("week"),
        func.count().filter(ended <= week).label("older"),
    ).where(*_conditions(chosen))


def _conditions(chosen: DeadLetterFilter) -> list[ColumnElement[bool]]:
    found = [IS_DEAD, *narrowest_first(_DELIVERIES, chosen, ("endpoint_id", "tenant_id"))]
    # neither has an index of dead letters
    found += [
        Residual(_C[name]) == value
        for name in ("event_type", "reason")
        if (value := getattr(chosen, name)) is not None
    ]
    if chosen.answer is not None:
        found.append(answers.delivery_matches(chosen.answer))
    return found + created_between(_C.id, "dlv", chosen.since, chosen.until)
