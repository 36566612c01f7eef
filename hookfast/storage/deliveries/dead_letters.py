"""Dead letters: deliveries that ended without success (`dead`, `gone`) and can be resent.

A list is a range of the index of undelivered deliveries for each of the two statuses. The
statistics are read from the gauges (`hookfast.storage.counting`), by the hour in which dead letters
ended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Table,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.figures import DEAD, hour_of, minute_of, time_of_minute
from hookfast.deliveries.outcome import DeliveryStatus, Reason
from hookfast.storage.counting import gauges
from hookfast.storage.database.planner_hints import Residual, constant
from hookfast.storage.database.rows import fetch_all
from hookfast.storage.deliveries import deliveries
from hookfast.storage.deliveries.deliveries import DeliveryFilter
from hookfast.storage.tables import Delivery

_DELIVERIES: Table = Delivery.__table__
_C = _DELIVERIES.c

TOP = 100
"""The statistics list this many of the most frequent endpoints, event types and reasons."""
MOST: Final = 10_000
"""The most dead letters that are counted by their rows."""
_LIMITS: Final = (timedelta(hours=1), timedelta(days=1), timedelta(days=7))
"""The ages by which dead letters are counted."""
_BY_AGE: Final = ("age", "at")
"""The group of ages, and the gauges' column of the hours."""

IS_DEAD = _C.status.in_([constant(status.value) for status in DEAD])
"""Written as in the partial index of those that ended in a time."""


@dataclass(frozen=True, slots=True)
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
    connection: AsyncConnection, chosen: DeliveryFilter, *, after: str | None, limit: int
) -> list[Delivery]:
    """Return the newest `limit` dead letters that match, beyond the id `after`."""
    page = deliveries.merged_page(chosen, _statuses(chosen), after=after, limit=limit)
    return await fetch_all(connection, page, Delivery)


def _statuses(chosen: DeliveryFilter) -> tuple[DeliveryStatus, ...]:
    """Return the statuses that have the filter's reason, so that no range without a match is read:
    `gone` is the reason of every dead letter with this status, and of no other."""
    if chosen.reason is None:
        return DEAD
    return (DeliveryStatus.GONE if chosen.reason == Reason.GONE else DeliveryStatus.DEAD,)


async def stats(
    connection: AsyncConnection,
    *,
    endpoint_id: str | None = None,
    tenant_id: str | None = None,
    now: datetime,
) -> DeadLetterStats:
    """Return the statistics of all dead letters, or of an endpoint's or a tenant's."""
    owners = {"endpoint_id": endpoint_id, "tenant_id": tenant_id}
    owners = {name: value for name, value in owners.items() if value is not None}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for group, value, number in await connection.execute(
        stats_statement(tuple(owners)), owners | _limits(now)
    ):
        found[group][value] += number
    reasons: Counter[str] = Counter()
    for kind, number in found["kind"].items():
        reasons[kind.partition(":")[2]] += number
    return DeadLetterStats(
        total=found["age"].total(),
        by_endpoint=_frequent_first(found["endpoint_id"]),
        by_event_type=_frequent_first(found["event_type"]),
        by_reason=[(reason or None, number) for reason, number in _frequent_first(reasons)],
        by_age=_ages(found["age"], found["younger"]),
    )


@lru_cache
def stats_statement(owners: tuple[str, ...]) -> Select[Any]:
    """Return the statement of `stats`: rows of group, value and number. The groups are
    `endpoint_id`, `event_type`, `kind` and `age`, which are counted by the hour of the end, and
    `younger`: the rows of the three hours that a limit divides which ended after it."""
    groups = []
    for group, name in (*((one, one) for one in ("endpoint_id", "event_type", "kind")), _BY_AGE):
        rows = gauges.dead_letters(name, owners).subquery().c
        value = _age_of(rows.value) if group == "age" else rows.value
        # in the select list twice, as a bound parameter in GROUP BY is not the one in SELECT
        valued = select(value.label("value"), rows.number).subquery().c
        number = func.sum(valued.number)
        groups.append(
            select(literal(group).label("name"), cast(valued.value, Text), cast(number, BigInteger))
            .group_by(valued.value)
            .having(number != 0)
            .order_by(number.desc(), valued.value)
            .limit(TOP)
        )
    for index in range(len(_LIMITS)):
        groups.append(
            select(literal("younger"), literal(str(index)), func.count()).where(
                *(IS_DEAD, _C.finished_at > bindparam(f"limit_{index}")),
                _C.finished_at < bindparam(f"hour_end_{index}"),
                *(Residual(_C[name]) == bindparam(name) for name in owners),
            )
        )
    return select(*union_all(*(select(each.subquery()) for each in groups)).subquery().c)


def _age_of(hour: ColumnElement[str]) -> ColumnElement[int]:
    """Return the age of an hour: even numbers between the limits, odd ones where one divides it."""
    at, ages = cast(hour, Integer), []
    for index in range(len(_LIMITS)):
        limit = bindparam(f"hour_{index}", type_=Integer)
        ages += [(at > limit, 2 * index), (at == limit, 2 * index + 1)]
    return case(*ages, else_=2 * len(_LIMITS))


def _limits(now: datetime) -> dict[str, Any]:
    """Return the parameters of `stats_statement` that depend on the time."""
    found: dict[str, Any] = {}
    for index, length in enumerate(_LIMITS):
        hour = hour_of(minute_of(now - length))
        found[f"limit_{index}"] = now - length
        found[f"hour_{index}"] = hour
        found[f"hour_end_{index}"] = time_of_minute(hour + 60)
    return found


def _ages(counted: Mapping[str, int], younger: Mapping[str, int]) -> Ages:
    """Divide the hours that a limit divides: `counted` has them under odd numbers, and between them
    the hours that are younger or older than a limit."""
    ages = [counted.get(str(2 * index), 0) for index in range(len(_LIMITS) + 1)]
    for index in range(len(_LIMITS)):
        young = younger.get(str(index), 0)
        ages[index] += young
        ages[index + 1] += counted.get(str(2 * index + 1), 0) - young
    return Ages(*ages)


def _frequent_first(counted: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


async def count(connection: AsyncConnection, chosen: DeliveryFilter) -> int | None:
    """Return how many dead letters match; None if more than `MOST` are in the filter's time, of its
    endpoint or tenant: not all of them are read to see which match."""
    found = (await connection.execute(count_statement(chosen, limit=MOST + 1))).one()
    return None if found.read > MOST else int(found.matching)


def count_statement(chosen: DeliveryFilter, *, limit: int) -> Select[Any]:
    """Return the statement of `count`, which reads at most `limit` rows of ranges of an index."""
    ranges = (
        deliveries.range_statement(replace(chosen, status=status), limit=limit)
        for status in _statuses(chosen)
    )
    rows = union_all(*(select(each.subquery()) for each in ranges)).limit(limit).subquery()
    matching = func.coalesce(func.sum(rows.c.matches), 0)
    return select(func.count().label("read"), matching.label("matching")).select_from(rows)
