"""Statements on `source_stats`: how often a source's requests were taken in and refused."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Table, bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.tables import SourceStats

_STATS: Table = SourceStats.__table__
_C = _STATS.c
_TIME = _C.last_accepted_at.type


@dataclass(slots=True)
class Taken:
    """What became of requests that were verified."""

    accepted: int = 0
    duplicates: int = 0
    conflicts: int = 0
    suppressed: int = 0
    failed: int = 0


@dataclass(slots=True)
class Refusals:
    """Requests that were refused, and why the last one was."""

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
_REFUSE = (
    update(_STATS)
    .where(_C.source_id == bindparam("b_source"))
    .values(
        rejected=_C.rejected + bindparam("b_number"),
        last_rejected_at=bindparam("b_at", type_=_TIME),
        last_error=bindparam("b_error"),
    )
)


async def add(connection: AsyncConnection, source_id: str) -> None:
    """The row of a new source."""
    await connection.execute(insert(_STATS).values(SourceStats(source_id=source_id).model_dump()))


async def get(connection: AsyncConnection, source_id: str) -> SourceStats | None:
    """A source's counts."""
    rows = await connection.execute(select(_STATS).where(_C.source_id == source_id))
    row = rows.mappings().one_or_none()
    return None if row is None else SourceStats(**row)


async def of_sources(
    connection: AsyncConnection, source_ids: Collection[str]
) -> dict[str, SourceStats]:
    """The counts of these sources, by their ids."""
    rows = await connection.execute(select(_STATS).where(_C.source_id.in_(sorted(source_ids))))
    return {row["source_id"]: SourceStats(**row) for row in rows.mappings()}


async def count(connection: AsyncConnection, taken: Mapping[str, Taken], *, at: datetime) -> None:
    """Add to the counts of these sources, as the last thing of a transaction: each row is one that
    every other transaction with requests to its source waits for."""
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
        for source_id, one in sorted(taken.items())
    ]
    if rows:
        await connection.execute(_COUNT, rows)


async def refuse(connection: AsyncConnection, refused: Iterable[tuple[str, Refusals]]) -> None:
    """Add refusals, by source."""
    rows = [
        {
            "b_source": source_id,
            "b_number": one.number,
            "b_at": one.last_at,
            "b_error": one.last_error,
        }
        for source_id, one in sorted(refused, key=lambda pair: pair[0])
    ]
    if rows:
        await connection.execute(_REFUSE, rows)
