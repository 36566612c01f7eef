"""An endpoint's recent statistics, counted from its newest deliveries.

The cost is bounded, whatever the window: for an endpoint with a million deliveries today, only the
newest are counted. Each read is a range of an index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.storage.database.keyset import created_between
from hookfast.storage.deliveries.attempts import where_delivery_in
from hookfast.storage.figures import sample
from hookfast.storage.tables import Attempt, Delivery

_DELIVERIES = Delivery.__table__.c
_ATTEMPTS_TABLE: Table = Attempt.__table__
_ATTEMPTS = _ATTEMPTS_TABLE.c

MAX_DELIVERIES = 5_000
"""The most deliveries that are counted, the newest first."""
MAX_ATTEMPTS = 20_000
"""The most attempts that are counted, those of the newest deliveries first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointStats:
    """An endpoint's deliveries by status and attempts by result. `answered_ms` has the duration of
    each attempt that got a response, ascending. `complete`: everything in the window was counted;
    otherwise the counts begin at `since`."""

    since: datetime
    complete: bool
    deliveries: Counter[DeliveryStatus]
    attempts: Counter[Result]
    answered_ms: Sequence[float]


async def read(
    connection: AsyncConnection, endpoint_id: str, *, since: datetime, until: datetime
) -> EndpointStats:
    """Count the deliveries created from `since` to before `until`, and their attempts so far."""
    newest = (
        select(_DELIVERIES.id, _DELIVERIES.status, _DELIVERIES.created_at)
        .where(
            _DELIVERIES.endpoint_id == endpoint_id,
            *created_between(_DELIVERIES.id, "dlv", since, until),
        )
        .order_by(_DELIVERIES.id.desc())
        .limit(MAX_DELIVERIES + 1)
    )
    rows = (await connection.execute(newest)).all()
    complete = len(rows) <= MAX_DELIVERIES
    rows = rows[:MAX_DELIVERIES]
    attempts: Counter[Result] = Counter()
    answered: list[float] = []
    for chunk in sample.id_chunks([row.id for row in rows]):
        left = MAX_ATTEMPTS - attempts.total()
        of_chunk = (await connection.execute(attempts_of(chunk, limit=left + 1))).all()
        if len(of_chunk) > left:
            complete = False
            break
        for attempt in of_chunk:
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


def attempts_of(delivery_ids: Sequence[str], *, limit: int) -> Select[str]:
    """Select the attempts of these deliveries."""
    return (
        select(
            _ATTEMPTS.delivery_id,
            _ATTEMPTS.started_at,
            _ATTEMPTS.result,
            _ATTEMPTS.status_code,
            _ATTEMPTS.duration_ms,
        )
        .where(where_delivery_in(delivery_ids))
        .limit(limit)
    )
