"""How many of the attempts of a time window succeeded, by the attempts' own time.

The cost is bounded. Of all tenants, the window is read in parts, each a range of the attempts' ids;
of a part with more than `MAX_READ` attempts, the rest is estimated from the first ones. Attempts
have no index by tenant, so a tenant's are found by its deliveries: the newest `MAX_DELIVERIES`, and
those that wait for a retry. If it has more, only the time that those cover is counted, and the rest
of the window is assumed to be like it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, Select, Table, case, func, select
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
_SUCCESSES: ColumnElement[int] = func.sum(
    case((_A.result == Result.SUCCESS.value, 1), else_=0)
).label("succeeded")


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
    length = (end - start) / _PARTS
    parts = [(start + index * length, start + (index + 1) * length) for index in range(_PARTS)]
    found = AttemptSuccess()
    for index, number, succeeded, last in await connection.execute(parts_statement(parts)):
        if last is not None:
            found += _scaled(number, succeeded or 0, last=last, part=parts[index])
    return found


def parts_statement(
    parts: Sequence[tuple[datetime, datetime]],
) -> Select[int, int, int | None, str | None]:
    """Select of each part the number of attempts read, of successes, and the id of the newest."""
    counts = []
    for start, end in parts:
        times = created_between(_A.id, "att", start, end)
        some = select(_A.id, _A.result).where(*times).order_by(_A.id).limit(MAX_READ).subquery()
        succeeded = case((some.c.result == Result.SUCCESS.value, 1), else_=0)
        counts.append(
            select(
                _NUMBER, func.sum(succeeded).label("succeeded"), func.max(some.c.id).label("last")
            )
        )
    return sample.of_each(counts)


def _scaled(
    number: int, succeeded: int, *, last: str, part: tuple[datetime, datetime]
) -> AttemptSuccess:
    start, end = part
    until = time_of(last)
    if number < MAX_READ or until is None:
        return AttemptSuccess(total=number, succeeded=succeeded)
    scale = sample.scale(until - start, end - start)
    return AttemptSuccess(
        total=round(number * scale), succeeded=round(succeeded * scale), estimated=True
    )


async def _of_tenant(
    connection: AsyncConnection, start: datetime, end: datetime, *, tenant_id: str
) -> AttemptSuccess:
    newest = list((await connection.execute(newest_statement(tenant_id, start, end))).scalars())
    waiting = (await connection.execute(retrying_statement(tenant_id))).scalars()
    oldest = time_of(newest[-1]) if len(newest) == MAX_DELIVERIES else None
    since = start if oldest is None else max(start, min(oldest, end))
    ids = sorted({*newest, *waiting})
    total = succeeded = 0
    for chunk in sample.id_chunks(ids):
        row = (await connection.execute(attempts_statement(chunk, since, end))).one()
        total += row.number
        succeeded += row.succeeded or 0
    if since in (start, end):
        return AttemptSuccess(total=total, succeeded=succeeded)
    scale = (end - start) / (end - since)
    return AttemptSuccess(
        total=round(total * scale), succeeded=round(succeeded * scale), estimated=True
    )


def newest_statement(tenant_id: str, start: datetime, end: datetime) -> Select[str]:
    """Select a tenant's newest deliveries that may have had attempts in the window."""
    return (
        select(_D.id)
        .where(
            _D.tenant_id == tenant_id,
            *created_between(_D.id, "dlv", start - _RETRIED_FOR, end),
        )
        .order_by(_D.id.desc())
        .limit(MAX_DELIVERIES)
    )


def retrying_statement(tenant_id: str) -> Select[str]:
    """Select a tenant's newest deliveries that wait for a retry."""
    return (
        select(_D.id)
        .where(*undelivered(_D.status, DeliveryStatus.RETRYING.value), _D.tenant_id == tenant_id)
        .order_by(_D.id.desc())
        .limit(MAX_DELIVERIES)
    )


def attempts_statement(
    delivery_ids: Sequence[str], since: datetime, end: datetime
) -> Select[int, int]:
    """Select the number of these deliveries' attempts in the window, and of successes."""
    return select(_NUMBER, _SUCCESSES).where(
        where_delivery_in(delivery_ids), *created_between(Residual(_A.id), "att", since, end)
    )
