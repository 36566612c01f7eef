"""The figures of the overview page: the results of a window's deliveries, and what needs attention.

The cost is bounded, however many deliveries there are. Each step of a window is a range of an
index, of which at most `MAX_READ` deliveries are read; if a step has more, the rest is estimated
from the share of the step that those cover, and `estimated` is set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    case,
    func,
    select,
    true,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import EndpointState
from hookfast.endpoints.health import Health
from hookfast.ids import time_of
from hookfast.storage.database.planner_hints import undelivered
from hookfast.storage.deliveries.deliveries import DeliveryFilter, split_conditions
from hookfast.storage.endpoints.derived_health import IS_CLOSED, IS_STOPPED, IS_UNHEALTHY, health_of
from hookfast.storage.figures import sample
from hookfast.storage.tables import Delivery, Endpoint, EndpointHealth

MAX_READ = 2_000
"""The most deliveries that are read of one step, the oldest first."""
MAX_TIMED = 60
"""The most deliveries of one step whose duration is read."""
MAX_WAITING = 100_000
"""Counting waiting deliveries stops here; higher numbers are shown as "more than"."""
_OLDEST_OF = 1_000

_DELIVERIES: Table = Delivery.__table__
_D = _DELIVERIES.c
_E = Endpoint.__table__.c
_HEALTH: Table = EndpointHealth.__table__
_H = _HEALTH.c

WAITING = (
    DeliveryStatus.PENDING,
    DeliveryStatus.RETRYING,
    DeliveryStatus.HELD,
    DeliveryStatus.PAUSED,
)
_DEAD = (DeliveryStatus.DEAD, DeliveryStatus.GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The deliveries created from `start` to before `end`, counted by their result so far."""

    start: datetime
    end: datetime
    delivered: int = 0
    failed: int = 0
    cancelled: int = 0
    open: int = 0
    estimated: bool = False
    seconds: Sequence[float] = ()
    """How long some of the delivered ones took, from when they were due, ascending."""

    @property
    def total(self) -> int:
        """The number of all deliveries of the step."""
        return self.delivered + self.failed + self.cancelled + self.open


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    """An endpoint that is not healthy. `reason` says why, in words; `next_probe_at` is set while
    its circuit is open."""

    endpoint_id: str
    url: str
    description: str
    health: Health
    since: datetime | None
    reason: str | None
    next_probe_at: datetime | None


async def steps(
    connection: AsyncConnection,
    edges: Sequence[datetime],
    chosen: DeliveryFilter,
    *,
    now: datetime,
    most: int = MAX_READ,
) -> list[Step]:
    """Return the steps between each two of these times, the oldest first, without `seconds`. They
    count the deliveries that match the filter, whose own times are ignored; at most `most` of a
    step are read. The last step may end after `now`."""
    ranges = list(pairwise(edges))
    if not ranges:
        return []
    found: list[list[_Counted]] = [[] for _ in ranges]
    rows = await connection.execute(steps_statement(ranges, chosen, most=most))
    for index, status, number, matching, last in rows:
        found[index].append(_Counted(status, number, int(matching), last))
    return [
        _step(start, end, counted, now=now, most=most)
        for (start, end), counted in zip(ranges, found, strict=True)
    ]


def steps_statement(
    ranges: Sequence[tuple[datetime, datetime]], chosen: DeliveryFilter, *, most: int
) -> Select[int, str, int, int, str]:
    """Return the statement of `steps`: (index of the step, status, number of deliveries read,
    number of those that match, id of the newest). The limit is on the rows of the index's range,
    so that a filter that few of them match does not read them all."""
    timeless = replace(chosen, since=None, until=None)
    return _steps(len(ranges), timeless, most).params(sample.times_of(ranges, "dlv"))


@lru_cache(maxsize=16)  # a megabyte each
def _steps(count: int, chosen: DeliveryFilter, most: int) -> Select[int, str, int, int, str]:
    indexed, others = split_conditions(chosen)
    matches = case((and_(true(), *others), 1), else_=0)
    parts = []
    for index in range(count):
        some = (
            select(_D.id, _D.status, matches.label("matches"))
            .where(*sample.created_in(index, _D.id), *indexed)
            .order_by(_D.id)
            .limit(most)
            .subquery()
        )
        parts.append(
            select(
                some.c.status,
                func.count().label("number"),
                func.sum(some.c.matches).label("matching"),
                func.max(some.c.id).label("last"),
            ).group_by(some.c.status)
        )
    return sample.of_each(parts)


async def seconds(
    connection: AsyncConnection, edges: Sequence[datetime], *, tenant_id: str | None
) -> list[list[float]]:
    """Return how long deliveries took, from when they were due to when they were delivered,
    ascending: those of each step's newest deliveries that were delivered."""
    ranges = list(pairwise(edges))
    if not ranges:
        return []
    durations: list[list[float]] = [[] for _ in ranges]
    for index, created_at, deliver_at, finished_at in await connection.execute(
        seconds_statement(ranges, tenant_id=tenant_id)
    ):
        due = max(created_at, deliver_at or created_at)
        durations[index].append(max(0.0, (finished_at - due).total_seconds()))
    return [sorted(each) for each in durations]


def seconds_statement(
    ranges: Sequence[tuple[datetime, datetime]], *, tenant_id: str | None
) -> Select[int, datetime, datetime, datetime]:
    """Return the statement of `seconds`. It filters a step's newest deliveries by status, so that a
    step without delivered ones is not read to its beginning."""
    times = sample.times_of(ranges, "dlv")
    return _seconds(len(ranges), tenant_id).params(times)


@lru_cache(maxsize=16)  # a megabyte each
def _seconds(count: int, tenant_id: str | None) -> Select[int, datetime, datetime, datetime]:
    parts = []
    of_tenant = () if tenant_id is None else (_D.tenant_id == tenant_id,)
    for index in range(count):
        some = (
            select(_D.status, _D.created_at, _D.deliver_at, _D.finished_at)
            .where(*sample.created_in(index, _D.id), *of_tenant)
            .order_by(_D.id.desc())
            .limit(MAX_TIMED)
            .subquery()
        )
        parts.append(
            select(some.c.created_at, some.c.deliver_at, some.c.finished_at).where(
                some.c.status == DeliveryStatus.DELIVERED.value, some.c.finished_at.is_not(None)
            )
        )
    return sample.of_each(parts)


async def waiting(
    connection: AsyncConnection, *, tenant_id: str | None
) -> dict[DeliveryStatus, int]:
    """Count the waiting deliveries by status, and the dead letters. Each number is at most
    `MAX_WAITING`, which means that many or more."""
    numbers = {}
    for status in (*WAITING, *_DEAD):
        some = select(_D.id).where(*_waiting(status, tenant_id)).limit(MAX_WAITING).subquery()
        counted = await connection.execute(select(func.count()).select_from(some))
        numbers[status] = counted.scalar_one()
    return numbers


async def oldest(connection: AsyncConnection, *, tenant_id: str | None) -> datetime | None:
    """Return when the oldest delivery was created that is still kept; None if there is none."""
    statement = select(_D.created_at).order_by(_D.id).limit(1)
    if tenant_id is not None:
        statement = statement.where(_D.tenant_id == tenant_id)
    return (await connection.execute(statement)).scalar_one_or_none()


async def oldest_held(connection: AsyncConnection, *, tenant_id: str | None) -> datetime | None:
    """Return since when the oldest held delivery has waited; None if none is held. Only the oldest
    by id are read: a later one can hardly have waited longer."""
    some = (
        select(_D.waiting_since)
        .where(*_waiting(DeliveryStatus.HELD, tenant_id))
        .order_by(_D.id)
        .limit(_OLDEST_OF)
        .subquery()
    )
    since: datetime | None = await connection.scalar(select(func.min(some.c.waiting_since)))
    return since


async def attention_items(
    connection: AsyncConnection, *, tenant_id: str | None, limit: int
) -> list[AttentionItem]:
    """Return at most `limit` endpoints that are not healthy: first those whose circuit is not
    closed, then failing ones, then paused and disabled ones, each with the latest change first."""
    live: list[ColumnElement[bool]] = [_E.deleted_at.is_(None)]
    if tenant_id is not None:
        live.append(_E.tenant_id == tenant_id)
    columns = (
        _E.id,
        _E.url,
        _E.description,
        _E.state,
        _E.state_reason,
        _E.updated_at,
        _H.circuit,
        _H.opened_at,
        _H.consecutive_failures,
        _H.first_failure_at,
        _H.last_error,
        _H.next_probe_at,
    )
    enabled = _E.state == EndpointState.ENABLED.value
    joined = select(*columns).join_from(Endpoint.__table__, _HEALTH, _E.id == _H.endpoint_id)
    open_ones = joined.where(~IS_CLOSED, enabled, *live)
    failing = joined.where(
        IS_UNHEALTHY,
        IS_CLOSED,
        _H.first_failure_at.is_not(None),
        enabled,
        *live,
    )
    stopped = (
        select(*columns)
        .join_from(Endpoint.__table__, _HEALTH, _E.id == _H.endpoint_id, isouter=True)
        .where(IS_STOPPED, *live)
    )
    rows: list[Any] = []
    for statement in (
        open_ones.order_by(_H.opened_at.desc()),
        failing.order_by(_H.first_failure_at.desc()),
        stopped.order_by(_E.updated_at.desc()),
    ):
        if len(rows) < limit:
            found = await connection.execute(statement.limit(limit - len(rows)))
            rows += found.mappings()
    return [_attention_item(row) for row in rows]


def _waiting(status: DeliveryStatus, tenant_id: str | None) -> list[ColumnElement[bool]]:
    conditions = [*undelivered(_D.status, status.value)]
    if tenant_id is not None:
        conditions.append(_D.tenant_id == tenant_id)
    return conditions


@dataclass(frozen=True, slots=True)
class _Counted:
    """The deliveries of a step that were read and have one status: how many, how many of them
    match the filter, and the id of the newest."""

    status: str
    number: int
    matching: int
    newest: str


def _step(
    start: datetime, end: datetime, counted: Sequence[_Counted], *, now: datetime, most: int
) -> Step:
    read = sum(each.number for each in counted)
    scale = 1.0
    until = time_of(max((each.newest for each in counted), default=""))
    if read >= most and until is not None:
        scale = sample.scale(until - start, max(until, min(end, now)) - start)

    def number(*statuses: DeliveryStatus) -> int:
        return round(scale * sum(each.matching for each in counted if each.status in statuses))

    return Step(
        start=start,
        end=end,
        delivered=number(DeliveryStatus.DELIVERED),
        failed=number(*_DEAD),
        cancelled=number(DeliveryStatus.CANCELLED),
        open=number(*WAITING),
        estimated=scale > 1,
    )


def _attention_item(row: Any) -> AttentionItem:
    health = health_of(row["state"], row["circuit"], row["consecutive_failures"])
    is_stopped = health in (Health.PAUSED, Health.DISABLED)
    since = row["first_failure_at"] if health is Health.FAILING else row["opened_at"]
    return AttentionItem(
        endpoint_id=row["id"],
        url=row["url"],
        description=row["description"],
        health=health,
        since=row["updated_at"] if is_stopped else since or row["updated_at"],
        reason=row["state_reason"] if is_stopped else row["last_error"],
        next_probe_at=row["next_probe_at"] if health is Health.CIRCUIT_OPEN else None,
    )
