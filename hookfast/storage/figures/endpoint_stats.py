"""How an endpoint has done lately, counted from its newest deliveries.

What it costs is bounded, whatever the window: an endpoint that had a million deliveries today is
told by the newest of them. Each read is a range of an index.

Of days that retention has deleted rows of nothing is counted. Their counts by day (`delivery_days`)
cannot stand in: they know no causes of failure, no exact times, and attempts by their own day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import Select, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.ids import first_id_at
from hookfast.storage.deliveries.attempts import of
from hookfast.storage.tables import Attempt, CountedDay, Delivery, DeliveryDay

_DELIVERIES = Delivery.__table__.c
_ATTEMPTS_TABLE: Table = Attempt.__table__
_ATTEMPTS = _ATTEMPTS_TABLE.c
_DAYS = DeliveryDay.__table__.c
_COUNTED = CountedDay.__table__.c

MAX_DELIVERIES = 5_000
"""Deliveries that are counted, the newest ones."""
MAX_ATTEMPTS = 20_000
"""Attempts that are counted, of the newest deliveries first."""
_AT_ONCE = 500  # delivery ids of one statement: few enough that both planners use the index


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointStats:
    """Deliveries by status and attempts by result. `answered_ms` is how long each attempt took that
    was answered, ascending. `complete` says that nothing in the window was left out; else the
    counts begin at `since`."""

    since: datetime
    complete: bool
    deliveries: Counter[DeliveryStatus]
    attempts: Counter[Result]
    answered_ms: Sequence[float]


async def read(
    connection: AsyncConnection, endpoint_id: str, *, since: datetime, until: datetime
) -> EndpointStats:
    """The deliveries that were made from `since` to before `until`, and their attempts so far: as
    far back as all of them are kept."""
    stats = await _count(connection, endpoint_id, since=since, until=until)
    # afterwards: a day is made final before any of its rows go, so what was missed is known by now
    last = await connection.scalar(last_day_gone(endpoint_id, since=since, until=until))
    if last is None:
        return stats
    kept_from = datetime.combine(last + timedelta(days=1), time(), UTC)
    if kept_from < until:
        kept = await read(connection, endpoint_id, since=kept_from, until=until)
    else:
        kept = await _count(connection, endpoint_id, since=until, until=until)
    return replace(kept, complete=False)


async def _count(
    connection: AsyncConnection, endpoint_id: str, *, since: datetime, until: datetime
) -> EndpointStats:
    rows = (await connection.execute(deliveries_of(endpoint_id, since=since, until=until))).all()
    complete = len(rows) <= MAX_DELIVERIES
    rows = rows[:MAX_DELIVERIES]
    attempts: Counter[Result] = Counter()
    answered: list[float] = []
    for start in range(0, len(rows), _AT_ONCE):
        chunk = [row.id for row in rows[start : start + _AT_ONCE]]
        left = MAX_ATTEMPTS - attempts.total()
        found = (await connection.execute(attempts_of(chunk, limit=left + 1))).all()
        if len(found) > left:
            complete = False
            break
        for attempt in found:
            attempts[Result(attempt.result)] += 1
            if attempt.status_code is not None:
                answered.append(attempt.duration_ms)
    return EndpointStats(
        since=since if complete or not rows else rows[-1].created_at,
        complete=complete,
        deliveries=Counter(DeliveryStatus(row.status) for row in rows),
        attempts=attempts,
        answered_ms=sorted(answered),
    )


def last_day_gone(endpoint_id: str, *, since: datetime, until: datetime) -> Select[date]:
    """The last day of a window on which the endpoint had something and of which rows may be gone;
    nothing for a window that is kept whole."""
    return (
        select(_DAYS.day)
        .join(CountedDay.__table__, _COUNTED.day == _DAYS.day)
        .where(
            _DAYS.endpoint_id == endpoint_id,
            _DAYS.day >= since.astimezone(UTC).date(),
            _DAYS.day <= (until - timedelta.resolution).astimezone(UTC).date(),
            _COUNTED.final,
        )
        .order_by(_DAYS.day.desc())
        .limit(1)
    )


def deliveries_of(endpoint_id: str, *, since: datetime, until: datetime) -> Select[str]:
    """The newest deliveries of a window, one more than are counted."""
    return (
        select(_DELIVERIES.id, _DELIVERIES.status, _DELIVERIES.created_at)
        .where(
            _DELIVERIES.endpoint_id == endpoint_id,
            _DELIVERIES.id >= first_id_at("dlv", since),
            _DELIVERIES.id < first_id_at("dlv", until),
        )
        .order_by(_DELIVERIES.id.desc())
        .limit(MAX_DELIVERIES + 1)
    )


def attempts_of(delivery_ids: Sequence[str], *, limit: int) -> Select[str]:
    """The attempts of these deliveries."""
    return (
        select(_ATTEMPTS.result, _ATTEMPTS.status_code, _ATTEMPTS.duration_ms)
        .where(of(delivery_ids))
        .limit(limit)
    )
