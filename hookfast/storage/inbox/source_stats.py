"""Statements on `source_stats`: counts of each source's requests by result."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Table, bindparam, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.rows import fetch_all, fetch_one
from hookfast.storage.tables import SourceStats

_STATS: Table = SourceStats.__table__
_C = _STATS.c
_TIME = _C.last_accepted_at.type


@dataclass(slots=True)
class ResultCounts:
    """How many verified requests of a source had each result."""

    accepted: int = 0
    duplicates: int = 0
    conflicts: int = 0
    suppressed: int = 0
    failed: int = 0


@dataclass(slots=True)
class Rejections:
    """How many requests of a source were rejected, and why the last one was."""

    number: int
    last_at: datetime
    last_error: str


_COUNT = (
    update(_STATS)
    .where(_C.source_id == bindparam("b_source"))
    .values(
        **{
            name: _C[name] + bindparam(f"b_{name}")
            for name in ("accepted", "duplicates", "conflicts", "suppressed", "failed")
        },
        last_accepted_at=func.coalesce(bindparam("b_at", type_=_TIME), _C.last_accepted_at),
    )
)
_COUNT_REJECTED = (
    update(_STATS)
    .where(_C.source_id == bindparam("b_source"))
    .values(
        rejected=_C.rejected + bindparam("b_number"),
        last_rejected_at=bindparam("b_at", type_=_TIME),
        last_error=bindparam("b_error"),
    )
)


async def add(connection: AsyncConnection, source_id: str) -> None:
    """Add the row of a new source."""
    await connection.execute(insert(_STATS).values(SourceStats(source_id=source_id).model_dump()))


async def get(connection: AsyncConnection, source_id: str) -> SourceStats | None:
    """Return a source's counts."""
    return await fetch_one(connection, select(_STATS).where(_C.source_id == source_id), SourceStats)


async def list_by_source(
    connection: AsyncConnection, source_ids: Collection[str]
) -> dict[str, SourceStats]:
    """Return the counts of these sources, by their ids."""
    statement = select(_STATS).where(_C.source_id.in_(sorted(source_ids)))
    return {one.source_id: one for one in await fetch_all(connection, statement, SourceStats)}


async def count(
    connection: AsyncConnection, counts: Mapping[str, ResultCounts], *, at: datetime
) -> None:
    """Add to the counts of these sources. Call it last in a transaction: all other transactions
    with requests to a source wait for its row."""
    rows = [
        {
            "b_source": source_id,
            "b_accepted": one.accepted,
            "b_duplicates": one.duplicates,
            "b_conflicts": one.conflicts,
            "b_suppressed": one.suppressed,
            "b_failed": one.failed,
            "b_at": at if one.accepted else None,
        }
        for source_id, one in sorted(counts.items())
    ]
    if rows:
        await connection.execute(_COUNT, rows)


async def claim_loop_report(
    connection: AsyncConnection, source_id: str, *, now: datetime, interval: timedelta
) -> bool:
    """Whether a loop at this source is to be reported now: not if it was within `interval`."""
    last = _C.loop_reported_at
    claimed = await connection.execute(
        update(_STATS)
        .where(_C.source_id == source_id, or_(last.is_(None), last <= now - interval))
        .values(loop_reported_at=now)
    )
    return claimed.rowcount > 0


async def count_rejected(
    connection: AsyncConnection, rejections: Iterable[tuple[str, Rejections]]
) -> None:
    """Add to the counts of rejected requests, by source."""
    rows = [
        {
            "b_source": source_id,
            "b_number": one.number,
            "b_at": one.last_at,
            "b_error": one.last_error,
        }
        for source_id, one in sorted(rejections, key=lambda pair: pair[0])
    ]
    if rows:
        await connection.execute(_COUNT_REJECTED, rows)
