"""Counts by day of what retention deletes, kept for ever: an endpoint's deliveries, by the day they
were created, and its attempts, by their own.

A day is counted by reading its rows and replacing its counts: any number of times, until it is
final. Only then do rows of it go, and a final day is never counted again: a crash between counting
and deleting neither doubles nor loses.
What was still open on a final day stays counted as open, whatever became of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from sqlalchemy import Table, and_, case, delete, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.ids import Prefix, first_id_at, time_of
from hookfast.retention.ages import midnight
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Attempt, CountedDay, Delivery, DeliveryDay, Endpoint

BUCKETS: Final = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
"""Upper bounds of the columns `le_…`, in milliseconds."""

RECOUNTED: Final = timedelta(days=4)
"""How long after its end a day is counted anew each night: the default plan takes three days."""

_DELIVERIES: Table = Delivery.__table__
_ATTEMPTS: Table = Attempt.__table__
_DAYS: Table = DeliveryDay.__table__
_COUNTED: Table = CountedDay.__table__
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS_AT_ONCE = 1_000

Counts = Mapping[str, dict[str, Any]]
"""The columns of `delivery_days`, by endpoint."""


async def due(connection: AsyncConnection, *, today: date, final_before: date | None) -> list[date]:
    """The days that are over and are to be counted now, the oldest first: those never counted,
    those whose counts may have changed, and those about to lose rows, for the last time."""
    c = _COUNTED.c
    counted = {row.day: row.final for row in await connection.execute(select(c.day, c.final))}
    opened = await connection.execute(select(_DAYS.c.day).where(_DAYS.c.open > 0).distinct())
    changing = set(opened.scalars())
    found = []
    for day in await _days_with_rows(connection, today=today):
        again = day in changing or today - day <= RECOUNTED
        last_time = final_before is not None and day < final_before
        if not counted.get(day, False) and (day not in counted or again or last_time):
            found.append(day)
    return found


async def count(database: Database, day: date, *, final: bool, now: datetime) -> bool:
    """Count a day and replace its counts. `final`: its rows are about to go. Returns whether it was
    done: a day that someone made final meanwhile stays as it is."""
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
    connection: AsyncConnection,
    *,
    since: date,
    tenant_id: str | None = None,
    endpoint_id: str | None = None,
) -> list[dict[str, Any]]:
    """The counts of each day from `since`, the oldest first: of everything, of a tenant, or of an
    endpoint. Days on which there was nothing are left out, and so is today."""
    sums = [func.sum(_DAYS.c[name]).label(name) for name in _zero()]
    statement = select(_DAYS.c.day, *sums).where(_DAYS.c.day >= since).group_by(_DAYS.c.day)
    if tenant_id is not None:
        statement = statement.where(_DAYS.c.tenant_id == tenant_id)
    if endpoint_id is not None:
        statement = statement.where(_DAYS.c.endpoint_id == endpoint_id)
    rows = await connection.execute(statement.order_by(_DAYS.c.day))
    return [dict(row) for row in rows.mappings()]


async def _mark(connection: AsyncConnection, day: date, *, final: bool, now: datetime) -> bool:
    """Whether the day may be counted: it is not final yet. Locks it."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    row = dialect.insert(_COUNTED).values(day=day, final=final, counted_at=now)
    marked = await connection.execute(
        row.on_conflict_do_update(
            index_elements=["day"],
            set_={"final": row.excluded.final, "counted_at": row.excluded.counted_at},
            where=_COUNTED.c.final.is_(False),
        )
    )
    return marked.rowcount == 1


async def _days_with_rows(connection: AsyncConnection, *, today: date) -> list[date]:
    """The days before `today` that have a row that is counted: two look-ups in an index each."""
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
    made = await connection.execute(
        select(d.endpoint_id, d.status, func.count())
        .where(d.id >= first_id_at("dlv", start), d.id < first_id_at("dlv", start + _DAY))
        .group_by(d.endpoint_id, d.status)
    )
    for endpoint_id, status, number in made:
        counts[endpoint_id][_column(DeliveryStatus(status))] += number
    succeeded = case((a.result == Result.SUCCESS.value, 1), else_=0)
    tried = await connection.execute(
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
    for row in tried.mappings():
        facts = dict(row)
        counts[facts.pop("endpoint_id")].update(facts)
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
    """Whose these endpoints are. Deleted ones keep their rows."""
    c = Endpoint.__table__.c
    found: dict[str, str] = {}
    for start in range(0, len(endpoint_ids), _ROWS_AT_ONCE):
        some = endpoint_ids[start : start + _ROWS_AT_ONCE]
        rows = await connection.execute(select(c.id, c.tenant_id).where(c.id.in_(some)))
        found |= {row.id: row.tenant_id for row in rows}
    return found


def _column(status: DeliveryStatus) -> str:
    return status.value if status.finished else "open"


def _zero() -> dict[str, Any]:
    names = ["delivered", "dead", "gone", "cancelled", "open", "attempts", "succeeded"]
    names += ["duration_ms", *(f"le_{upper}" for upper in BUCKETS), "le_max"]
    return dict.fromkeys(names, 0)
