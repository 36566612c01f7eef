"""How many of the attempts of a time window succeeded, by the attempts' own time.

The cost is bounded. Of all tenants, the window is read in parts, each a range of the attempts' ids;
of a part with more than `MAX_READ` attempts, the rest is estimated from the first ones. Attempts
have no index by tenant, so a tenant's are found by its deliveries: the newest `MAX_DELIVERIES`, and
those that wait for a retry. If it has more, only the time that those cover is counted, and the rest
of the window is assumed to be like it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, Table, case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.ids import time_of
from hookfast.storage.database.keyset import created_between
from hookfast.storage.database.planner_hints import Residual, undelivered
from hookfast.storage.deliveries.attempts import where_delivery_in
from hookfast.storage.figures import sample
from hookfast.storage.tables import Attempt, Delivery

MAX_READ: Final = 1_000
"""The most attempts that are read of one part of a window, the oldest first."""
MAX_DELIVERIES: Final = 2_000
"""The most deliveries of a tenant whose attempts are read, the newest first."""
_PARTS: Final = 12
_RETRIED_FOR: Final = timedelta(days=4)  # the default plan takes three days

_DELIVERIES: Table = Delivery.__table__
_D = _DELIVERIES.c
_ATTEMPTS: Table = Attempt.__table__
_A = _ATTEMPTS.c
_NUMBER = func.count().label("number")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSuccess:
    """The number of attempts of a window, and how many of them succeeded."""

    total: int = 0
    succeeded: int = 0
    estimated: bool = False

    def __add__(self, other: AttemptSuccess) -> AttemptSuccess:
        return AttemptSuccess(
            total=self.total + other.total,
            succeeded=self.succeeded + other.succeeded,
            estimated=self.estimated or other.estimated,
        )

    @property
    def rate(self) -> float | None:
        """The share of the attempts that succeeded; None if there were none."""
        return self.succeeded / self.total if self.total else None


async def read(
    connection: AsyncConnection, start: datetime, end: datetime, *, tenant_id: str | None
) -> AttemptSuccess:
    """Count the attempts that began from `start` to before `end`, of a tenant or of all."""
    if start >= end:
        return AttemptSuccess()
    if tenant_id is not None:
        return await _of_tenant(connection, start, end, tenant_id=tenant_id)
    return await _of_all(connection, start, end)


async def _of_all(connection: AsyncConnection, start: datetime, end: datetime) -> AttemptSuccess:
    length = (end - start) / _PARTS
    starts = [start + index * length for index in range(_PARTS)]
    counts = []
    for since in starts:
        began = created_between(_A.id, "att", since, since + length)
        some = select(_A.id, _A.result).where(*began).order_by(_A.id).limit(MAX_READ).subquery()
        counts.append(select(_NUMBER, _successes(some.c.result), func.max(some.c.id).label("last")))
    found = AttemptSuccess()
    for index, number, succeeded, last in await connection.execute(sample.of_each(counts)):
        scale, until = 1.0, time_of(last or "")
        if number >= MAX_READ and until is not None:
            scale = sample.scale(until - starts[index], length)
        found += _scaled(number, succeeded, scale)
    return found


async def _of_tenant(
    connection: AsyncConnection, start: datetime, end: datetime, *, tenant_id: str
) -> AttemptSuccess:
    newest_first = select(_D.id).where(_D.tenant_id == tenant_id).order_by(_D.id.desc())
    newest_first = newest_first.limit(MAX_DELIVERIES)
    created = created_between(_D.id, "dlv", start - _RETRIED_FOR, end)
    newest = (await connection.scalars(newest_first.where(*created))).all()
    retrying = undelivered(_D.status, DeliveryStatus.RETRYING.value)
    waiting = await connection.scalars(newest_first.where(*retrying))
    oldest = time_of(newest[-1]) if len(newest) == MAX_DELIVERIES else None
    since = start if oldest is None else max(start, min(oldest, end))
    total = succeeded = 0
    for chunk in sample.id_chunks(sorted({*newest, *waiting})):
        began = created_between(Residual(_A.id), "att", since, end)
        counted = select(_NUMBER, _successes(_A.result)).where(where_delivery_in(chunk), *began)
        row = (await connection.execute(counted)).one()
        total += row.number
        succeeded += row.succeeded or 0
    scale = 1.0 if since == end else sample.scale(end - since, end - start)
    return _scaled(total, succeeded, scale)


def _successes(result: ColumnElement[str]) -> ColumnElement[int]:
    return func.sum(case((result == Result.SUCCESS.value, 1), else_=0)).label("succeeded")


def _scaled(number: int, succeeded: int | None, scale: float) -> AttemptSuccess:
    return AttemptSuccess(
        total=round(number * scale),
        succeeded=round((succeeded or 0) * scale),
        estimated=scale > 1,
    )
