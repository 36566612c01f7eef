"""Daily counts per endpoint, kept for ever after retention has deleted the rows: deliveries by the
day they were created on, attempts by the day they were made on.

A day is counted by reading its rows and replacing its counts, any number of times until it is
final. Only then are its rows deleted, and a final day is never counted again: a crash between
counting and deleting neither doubles nor loses a count. A delivery that was open when its day
became final stays counted as open, however it ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from sqlalchemy import Table, and_, case, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.ids import Prefix, first_id_at, time_of
from hookfast.retention.ages import midnight
from hookfast.storage.database.engine import Database
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import Attempt, CountedDay, Delivery, DeliveryDay, Endpoint

BUCKETS: Final = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
"""Upper bounds of the columns `le_…`, in milliseconds."""

RECOUNTED: Final = timedelta(days=4)
"""A day is counted again each night for this long: the default plan takes three days."""

_DELIVERIES: Table = Delivery.__table__
_ATTEMPTS: Table = Attempt.__table__
_DAYS: Table = DeliveryDay.__table__
_COUNTED: Table = CountedDay.__table__
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS_AT_ONCE = 1_000

Counts = Mapping[str, dict[str, Any]]
"""The columns of `delivery_days`, by endpoint."""


async def days_to_count(
    connection: AsyncConnection, *, today: date, final_before: date | None
) -> list[date]:
    """Return the past days to count now, the oldest first: days never counted, days whose counts
    may have changed, and, for the last time, days whose rows are about to be deleted."""
    c = _COUNTED.c
    counted = {row.day: row.final for row in await connection.execute(select(c.day, c.final))}
    with_open = await connection.execute(select(_DAYS.c.day).where(_DAYS.c.open > 0).distinct())
    changing = set(with_open.scalars())
    days = []
    for day in await _days_with_rows(connection, today=today):
        again = day in changing or today - day <= RECOUNTED
        last_time = final_before is not None and day < final_before
        if not counted.get(day, False) and (day not in counted or again or last_time):
            days.append(day)
    return days


async def count_day(database: Database, day: date, *, final: bool, now: datetime) -> bool:
    """Count a day and replace its counts. `final`: its rows are about to be deleted. Return whether
    it was counted: a day that has become final meanwhile is left as it is."""
    async with database.read() as connection:
        counts = await _read(connection, day)
    rows = list(counts.values())
    async with database.write() as connection:
        if not await _mark(connection, day, final=final, now=now):
            return False
        await connection.execute(delete(_DAYS).where(_DAYS.c.day == day))
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            await connection.execute(insert(_DAYS), rows[start : start + _ROWS_AT_ONCE])
    return True


async def list_days(
    connection: AsyncConnection, *, since: date, tenant_id: str | None = None
) -> list[dict[str, Any]]:
    """Return the counts of each day from `since`, the oldest first: of all endpoints, or of one
    tenant's. Days without deliveries and attempts are left out, and so is today."""
    sums = [func.sum(_DAYS.c[name]).label(name) for name in _zero()]
    statement = select(_DAYS.c.day, *sums).where(_DAYS.c.day >= since).group_by(_DAYS.c.day)
    if tenant_id is not None:
        statement = statement.where(_DAYS.c.tenant_id == tenant_id)
    rows = await connection.execute(statement.order_by(_DAYS.c.day))
    return [dict(row) for row in rows.mappings()]


async def _mark(connection: AsyncConnection, day: date, *, final: bool, now: datetime) -> bool:
    """Mark a day as counted and return True, unless it is final already. Locks it."""
    row = insert_into(connection, _COUNTED).values(day=day, final=final, counted_at=now)
    marked = await connection.execute(
        row.on_conflict_do_update(
            index_elements=["day"],
            set_={"final": row.excluded.final, "counted_at": row.excluded.counted_at},
            where=_COUNTED.c.final.is_(False),
        )
    )
    return marked.rowcount == 1


async def _days_with_rows(connection: AsyncConnection, *, today: date) -> list[date]:
    """Return the days before `today` that have rows to count, with two index look-ups for each."""
    days: set[date] = set()
    tables: tuple[tuple[Prefix, Table], ...] = (("dlv", _DELIVERIES), ("att", _ATTEMPTS))
    for prefix, table in tables:
        since = first_id_at(prefix, _EPOCH)
        while True:
            least = select(func.min(table.c.id)).where(table.c.id >= since)
            oldest = (await connection.execute(least)).scalar()
            at = None if oldest is None else time_of(oldest)
            if at is None or at.date() >= today:
                break
            days.add(at.date())
            since = first_id_at(prefix, midnight(at) + _DAY)
    return sorted(days)


async def _read(connection: AsyncConnection, day: date) -> Counts:
    start = datetime.combine(day, time(), UTC)
    counts: dict[str, dict[str, Any]] = defaultdict(_zero)
    d, a = _DELIVERIES.c, _ATTEMPTS.c
    by_status = await connection.execute(
        select(d.endpoint_id, d.status, func.count())
        .where(d.id >= first_id_at("dlv", start), d.id < first_id_at("dlv", start + _DAY))
        .group_by(d.endpoint_id, d.status)
    )
    for endpoint_id, status, number in by_status:
        counts[endpoint_id][_column(DeliveryStatus(status))] += number
    succeeded = case((a.result == Result.SUCCESS.value, 1), else_=0)
    attempts = await connection.execute(
        select(
            a.endpoint_id,
            func.count().label("attempts"),
            func.sum(succeeded).label("succeeded"),
            func.sum(a.duration_ms).label("duration_ms"),
            *_bucket_sums(),
        )
        .where(a.id >= first_id_at("att", start), a.id < first_id_at("att", start + _DAY))
        .group_by(a.endpoint_id)
    )
    for row in attempts.mappings():
        columns = dict(row)
        counts[columns.pop("endpoint_id")].update(columns)
    tenants = await _tenants(connection, list(counts))
    return {
        endpoint_id: columns
        | {"day": day, "endpoint_id": endpoint_id, "tenant_id": tenants[endpoint_id]}
        for endpoint_id, columns in counts.items()
        if endpoint_id in tenants
    }


def _bucket_sums() -> list[Any]:
    duration = _ATTEMPTS.c.duration_ms
    sums, lower = [], None
    for upper in BUCKETS:
        within = duration <= upper if lower is None else and_(duration > lower, duration <= upper)
        sums.append(func.sum(case((within, 1), else_=0)).label(f"le_{upper}"))
        lower = upper
    sums.append(func.sum(case((duration > BUCKETS[-1], 1), else_=0)).label("le_max"))
    return sums


async def _tenants(connection: AsyncConnection, endpoint_ids: Sequence[str]) -> dict[str, str]:
    """Return the tenants of these endpoints, deleted ones included."""
    c = Endpoint.__table__.c
    tenants: dict[str, str] = {}
    for start in range(0, len(endpoint_ids), _ROWS_AT_ONCE):
        some = endpoint_ids[start : start + _ROWS_AT_ONCE]
        rows = await connection.execute(select(c.id, c.tenant_id).where(c.id.in_(some)))
        tenants |= {row.id: row.tenant_id for row in rows}
    return tenants


def _column(status: DeliveryStatus) -> str:
    return status.value if status.finished else "open"


def _zero() -> dict[str, Any]:
    names = ["delivered", "dead", "gone", "cancelled", "open", "attempts", "succeeded"]
    names += ["duration_ms", *(f"le_{upper}" for upper in BUCKETS), "le_max"]
    return dict.fromkeys(names, 0)
