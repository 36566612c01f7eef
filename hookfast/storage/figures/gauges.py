"""The values of the gauges that are read from the database, in four statements.

Deliveries that wait and dead letters are read from what was counted with them. Each other value
counts a range of an index with little else in it (not started, not closed), and counting stops at
100,000: a scrape stays cheap when things are at their worst.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Select,
    func,
    literal,
    null,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.endpoints.circuit import State
from hookfast.owners.notice import NoticeStatus
from hookfast.storage.counting.reading import Scope
from hookfast.storage.database.planner_hints import Implied, Residual, constant
from hookfast.storage.figures import waiting, workers
from hookfast.storage.figures.waiting import Waiting
from hookfast.storage.tables import Delivery, EndpointHealth, Notice, WorkerHeartbeat

_D = Delivery.__table__.c
_H = EndpointHealth.__table__.c
_N = Notice.__table__.c
_W = WorkerHeartbeat.__table__.c

MAX_COUNT: Final = 100_000
"""Counting rows stops at this value."""
LATE: Final = timedelta(seconds=60)
"""An attempt that is this late counts as past due: timers and task queues take seconds."""
MAX_LINES: Final = 10_000
"""Endpoints and urgencies whose first outbox row is read: 30 ms on SQLite, 75 on PostgreSQL."""
_OLDEST_OF = 1_000
_PENDING = _N.status == constant(NoticeStatus.PENDING.value)

_CIRCUITS = (State.OPEN, State.HALF_OPEN, State.DRAINING)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeValues:
    """The values of the gauges at one moment. `waiting` is exact, every other count is at most
    `MAX_COUNT`. `circuits` has every state, 0 included. `oldest_waits` is how long the outbox has
    waited (`OLDEST`), `mail_late` how late the most overdue notice is."""

    outbox: int
    oldest_waits: timedelta
    past_due: int
    waiting: Waiting
    circuits: Mapping[State, int]
    notices: int
    mail_late: timedelta
    workers: int


async def read_gauges(
    connection: AsyncConnection,
    *,
    now: datetime,
    mail_gather: timedelta,
    mail_digest_every: timedelta,
) -> GaugeValues:
    """Read the values. A notice is due when it has gathered for `mail_gather`, and its owner has
    got no mail of its kind for `mail_digest_every`."""
    numbers: dict[str, dict[str, int]] = defaultdict(dict)
    for name, label, number in await connection.execute(counts(now)):
        numbers[name][label] = number
    oldest: datetime | None = (await connection.execute(OLDEST)).scalar_one()
    due = [
        max(first + mail_gather, last + mail_digest_every if last is not None else first)
        for first, last in await connection.execute(NOTICES_BY_KIND)
    ]
    return GaugeValues(
        outbox=numbers["outbox"][""],
        oldest_waits=_since(oldest, now=now),
        past_due=numbers["past_due"][""],
        waiting=await waiting.read(connection, Scope()),
        circuits={state: numbers["circuits"][state.value] for state in _CIRCUITS},
        notices=numbers["notices"][""],
        mail_late=_since(min(due, default=None), now=now),
        workers=numbers["workers"][""],
    )


def _since(moment: datetime | None, *, now: datetime) -> timedelta:
    return timedelta(0) if moment is None else max(timedelta(0), now - moment)


def counts(now: datetime) -> CompoundSelect[str, str, int]:
    """Return the statement that counts: rows of name, label, number."""
    return union_all(
        _count("outbox", "", _D.started_at.is_(None)),
        _count("past_due", "", _D.next_attempt_at.is_not(None), _D.next_attempt_at < now - LATE),
        *(_count("circuits", one.value, *_is_in(one)) for one in _CIRCUITS),
        _count("notices", "", _PENDING),
        _count("workers", "", _W.seen_at > now - workers.ALIVE_FOR),
    )


def _count(name: str, label: str, *conditions: ColumnElement[bool]) -> Select[str, str, int]:
    rows = select(literal(1)).where(*conditions).limit(MAX_COUNT).subquery()
    return select(
        literal(name).label("name"),
        literal(label).label("label"),
        func.count().label("number"),
    ).select_from(rows)


def _is_in(state: State) -> tuple[ColumnElement[bool], ...]:
    return Implied(_H.circuit != constant("closed")), _H.circuit == constant(state.value)


def _oldest() -> Select[Any]:
    """Return the statement `OLDEST`. It skips through the outbox's index, from the first row of an
    endpoint and urgency to that of the next, and never reads the rows between them."""
    line = (_D.urgency, _D.tenant_id, _D.endpoint_id)
    waiting = select(_D.id).where(_D.started_at.is_(None)).order_by(*line, _D.id).limit(1)
    here = Delivery.__table__.alias("here").c
    heads = select(
        waiting.scalar_subquery().label("id"), null().cast(here.updated_at.type).label("since")
    ).cte("heads", recursive=True)
    # Residual: compared with columns that have a type, SQLite would search by the urgency only
    after = tuple_(*(Residual(here[column.name]) for column in line))
    following = waiting.where(tuple_(*line) > after).scalar_subquery()
    heads = heads.union_all(select(following, here.updated_at).where(here.id == heads.c.id))
    return select(func.min(select(heads.c.since).limit(MAX_LINES).subquery().c.since))


OLDEST = _oldest()
"""Selects since when the outbox has waited: the least `updated_at` of the rows that relays take
next, which have the smallest id of their endpoint and urgency. Of the `MAX_LINES` most urgent ones.

`updated_at` is the last change of a delivery. A row that was put back without a change, as a probe
of its endpoint's circuit or because its workflow was lost, seems to have waited since then."""

_SOME = select(_N.id).where(_PENDING).limit(MAX_COUNT).subquery()
_LONGEST = select(_SOME.c.id).order_by(_SOME.c.id).limit(_OLDEST_OF)
_SENT = Notice.__table__.alias("sent").c
_LAST = (
    select(func.max(_SENT.sent_at))
    .where(_SENT.owner_hash == _N.owner_hash, _SENT.kind == _N.kind, _SENT.sent_at.is_not(None))
    .scalar_subquery()
)
NOTICES_BY_KIND = (
    select(func.min(_N.created_at), _LAST)
    .where(_PENDING, _N.id.in_(_LONGEST))
    .group_by(_N.owner_hash, _N.kind)
)
"""Selects for each owner and kind, which share one mail: since when the oldest notice has waited,
and when the owner last got such a mail. Of the oldest thousand notices by id."""
