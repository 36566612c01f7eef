"""The figures of the overview page: the results of a window's deliveries, and what needs attention.

The cost is bounded, however many deliveries there are. Each step of a window is a range of an
index, of which at most `MAX_READ` deliveries are read; if a step has more, the rest is estimated
from the share of the step that those cover, and `estimated` is set. Whole past days come from
`delivery_days` if they were counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    case,
    func,
    literal,
    literal_column,
    select,
    true,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.endpoints.circuit import EndpointState, State
from hookfast.ids import time_of
from hookfast.storage.database.keyset import created_between
from hookfast.storage.database.planner_hints import Implied
from hookfast.storage.deliveries.deliveries import DeliveryFilter, split_conditions
from hookfast.storage.tables import Delivery, Endpoint, EndpointHealth

MAX_READ = 2_000
"""The most deliveries that are read of one step, the oldest first."""
MAX_TIMED = 60
"""The most deliveries of one step whose duration is read."""
MAX_WAITING = 100_000
"""Counting waiting deliveries stops here; higher numbers are shown as "more than"."""

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
    """An endpoint that needs attention: its circuit is not closed, or it is paused or disabled."""

    endpoint_id: str
    url: str
    description: str
    state: str
    state_reason: str | None
    circuit: State
    since: datetime | None
    last_error: str | None
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
    for place, status, number, matching, last in rows:
        found[place].append(_Counted(status, number, int(matching), last))
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
    indexed, others = split_conditions(chosen)
    matches = case((and_(true(), *others), 1), else_=0)
    parts = []
    for place, (start, end) in enumerate(ranges):
        some = (
            select(_D.id, _D.status, matches.label("matches"))
            .where(*created_between(_D.id, "dlv", start, end), *indexed)
            .order_by(_D.id)
            .limit(most)
            .subquery()
        )
        parts.append(
            select(
                literal(place, literal_execute=True).label("place"),
                some.c.status.label("status"),
                func.count().label("number"),
                func.sum(some.c.matches).label("matching"),
                func.max(some.c.id).label("last"),
            ).group_by(some.c.status)
        )
    every = union_all(*parts).subquery()
    c = every.c
    return select(c.place, c.status, c.number, c.matching, c.last)


async def seconds(
    connection: AsyncConnection, edges: Sequence[datetime], *, tenant_id: str | None
) -> list[list[float]]:
    """Return how long deliveries took, from when they were due to when they were delivered,
    ascending: those of each step's newest deliveries that were delivered."""
    ranges = list(pairwise(edges))
    if not ranges:
        return []
    durations: list[list[float]] = [[] for _ in ranges]
    for place, created_at, deliver_at, finished_at in await connection.execute(
        seconds_statement(ranges, tenant_id=tenant_id)
    ):
        due = max(created_at, deliver_at or created_at)
        durations[place].append(max(0.0, (finished_at - due).total_seconds()))
    return [sorted(each) for each in durations]


def seconds_statement(
    ranges: Sequence[tuple[datetime, datetime]], *, tenant_id: str | None
) -> Select[int, datetime, datetime, datetime]:
    """Return the statement of `seconds`. It filters a step's newest deliveries by status, so that a
    step without delivered ones is not read to its beginning."""
    parts = []
    for place, (start, end) in enumerate(ranges):
        some = (
            select(_D.status, _D.created_at, _D.deliver_at, _D.finished_at)
            .where(*_created(start, end, tenant_id))
            .order_by(_D.id.desc())
            .limit(MAX_TIMED)
            .subquery()
        )
        parts.append(
            select(
                literal(place, literal_execute=True).label("place"),
                some.c.created_at,
                some.c.deliver_at,
                some.c.finished_at,
            ).where(
                some.c.status == DeliveryStatus.DELIVERED.value, some.c.finished_at.is_not(None)
            )
        )
    every = union_all(*parts).subquery()
    return select(every.c.place, every.c.created_at, every.c.deliver_at, every.c.finished_at)


async def waiting(
    connection: AsyncConnection, *, tenant_id: str | None
) -> dict[DeliveryStatus, int]:
    """Count the waiting deliveries by status, and the dead letters. Each number is at most
    `MAX_WAITING`, which means that many or more."""
    numbers = {}
    for status in (*WAITING, *_DEAD):
        rows = await connection.execute(waiting_statement(status, tenant_id=tenant_id))
        numbers[status] = rows.scalar_one()
    return numbers


def waiting_statement(status: DeliveryStatus, *, tenant_id: str | None) -> Select[int]:
    """Return the statement of `waiting`, for one status other than `delivered`."""
    conditions: list[ColumnElement[bool]] = [
        Implied(_D.status != literal_column("'delivered'")),
        # literal: no planner matches a bound parameter with a partial index
        _D.status == literal_column(f"'{status.value}'"),
    ]
    if tenant_id is not None:
        conditions.append(_D.tenant_id == tenant_id)
    some = select(_D.id).where(*conditions).limit(MAX_WAITING).subquery()
    return select(func.count()).select_from(some)


async def attention_items(
    connection: AsyncConnection, *, tenant_id: str | None, limit: int
) -> list[AttentionItem]:
    """Return at most `limit` endpoints that need attention: first those whose circuit is not
    closed, then paused and disabled ones, each with the latest change first."""
    # The circuits first, by their partial index, then the endpoints' own state.
    open_ones = select(_H.endpoint_id).where(_H.circuit != "closed")
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
        _H.last_error,
        _H.next_probe_at,
    )
    joined = select(*columns).join_from(Endpoint.__table__, _HEALTH, _E.id == _H.endpoint_id)
    failing = joined.where(_H.circuit != "closed", *live).order_by(_H.opened_at.desc())
    rows = list((await connection.execute(failing.limit(limit))).mappings())
    stopped = (
        select(*columns)
        .join_from(Endpoint.__table__, _HEALTH, _E.id == _H.endpoint_id, isouter=True)
        .where(_E.state != EndpointState.ENABLED.value, _E.id.not_in(open_ones), *live)
        .order_by(_E.updated_at.desc())
        .limit(limit)
    )
    rows += (await connection.execute(stopped)).mappings()
    return [_attention_item(row) for row in rows[:limit]]


async def count_open_circuits(connection: AsyncConnection, *, tenant_id: str | None) -> int:
    """Return how many circuits are not closed."""
    statement = (
        select(func.count())
        .select_from(_HEALTH)
        .join(Endpoint.__table__, _E.id == _H.endpoint_id)
        .where(_H.circuit != "closed", _E.deleted_at.is_(None))
    )
    if tenant_id is not None:
        statement = statement.where(_E.tenant_id == tenant_id)
    return (await connection.execute(statement)).scalar_one()


async def has_endpoint(connection: AsyncConnection, *, tenant_id: str | None) -> bool:
    """Whether any endpoint exists."""
    statement = select(_E.id).where(_E.deleted_at.is_(None)).limit(1)
    if tenant_id is not None:
        statement = statement.where(_E.tenant_id == tenant_id)
    return (await connection.execute(statement)).first() is not None


def _created(start: datetime, end: datetime, tenant_id: str | None) -> list[ColumnElement[bool]]:
    found = created_between(_D.id, "dlv", start, end)
    if tenant_id is not None:
        found.append(_D.tenant_id == tenant_id)
    return found


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
        # The counted deliveries cover this share of the step; the rest is assumed to be like them.
        share = (until - start) / (max(until, min(end, now)) - start)
        scale = 1 / min(1.0, max(share, 1e-6))

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


def _attention_item(row: object) -> AttentionItem:
    values = dict(row)  # type: ignore[call-overload] # a row mapping
    circuit = State.CLOSED if values["circuit"] is None else State(values["circuit"])
    opened = values["opened_at"] if circuit is not State.CLOSED else None
    return AttentionItem(
        endpoint_id=values["id"],
        url=values["url"],
        description=values["description"],
        state=values["state"],
        state_reason=values["state_reason"],
        circuit=circuit,
        since=opened or values["updated_at"],
        last_error=values["last_error"],
        next_probe_at=values["next_probe_at"] if circuit is State.OPEN else None,
    )
