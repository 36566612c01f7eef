"""Statements on `retention_runs` and `retention_sweeps`: what each run did, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Table, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import first_id_at
from hookfast.storage.database.keyset import newest_first
from hookfast.storage.retention.sweeps import Batch
from hookfast.storage.tables import RetentionRun, RetentionSweep

_RUNS: Table = RetentionRun.__table__
_SWEEPS: Table = RetentionSweep.__table__
_R, _S = _RUNS.c, _SWEEPS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with its sweeps, in their order."""

    run: RetentionRun
    sweeps: Sequence[RetentionSweep]


async def begin(
    connection: AsyncConnection,
    run: RetentionRun,
    *,
    cutoffs: Mapping[str, datetime | None],
) -> None:
    """Write down that a run begins, and what it will delete. The second time changes nothing: the
    cutoffs of a run are those of its beginning, whenever it is continued."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    row = dialect.insert(_RUNS).values(run.model_dump()).on_conflict_do_nothing()
    if (await connection.execute(row)).rowcount != 1:
        return
    await connection.execute(
        insert(_SWEEPS),
        [
            {
                "run_id": run.id,
                "name": name,
                "position": position,
                "cutoff": before,
                "deleted": 0,
                "kept": 0,
                "partitions": 0,
                "pinned": [],
                "done": False,
            }
            for position, (name, before) in enumerate(cutoffs.items())
        ],
    )


async def prepared(connection: AsyncConnection, run_id: str, *, partitions: int, days: int) -> None:
    """Note what came before the sweeps."""
    await connection.execute(
        update(_RUNS).where(_R.id == run_id).values(partitions=partitions, days=days)
    )


async def sweeps(connection: AsyncConnection, run_id: str) -> dict[str, RetentionSweep]:
    """A run's sweeps by name, in their order."""
    rows = await connection.execute(
        select(_SWEEPS).where(_S.run_id == run_id).order_by(_S.position)
    )
    return {row["name"]: RetentionSweep(**row) for row in rows.mappings()}


async def locked(connection: AsyncConnection, run_id: str, name: str) -> RetentionSweep:
    """One sweep, which nobody else moves in this transaction: an activity that Temporal gave up may
    still be at it when the next one begins."""
    rows = await connection.execute(
        select(_SWEEPS).where(_S.run_id == run_id, _S.name == name).with_for_update()
    )
    return RetentionSweep(**rows.mappings().one())


async def advance(connection: AsyncConnection, run_id: str, name: str, batch: Batch) -> None:
    """Move a sweep by a batch that this transaction makes."""
    await connection.execute(
        update(_SWEEPS)
        .where(_S.run_id == run_id, _S.name == name)
        .values(
            cursor=batch.cursor,
            deleted=_S.deleted + batch.deleted,
            kept=_S.kept + batch.kept,
            done=not batch.more,
        )
    )


async def dropped(
    connection: AsyncConnection, run_id: str, name: str, *, rows: int, partitions: int = 1
) -> None:
    """Count partitions that this transaction drops, with the rows in them."""
    await connection.execute(
        update(_SWEEPS)
        .where(_S.run_id == run_id, _S.name == name)
        .values(deleted=_S.deleted + rows, partitions=_S.partitions + partitions)
    )


async def pin(
    connection: AsyncConnection, run_id: str, name: str, pins: list[dict[str, Any]]
) -> None:
    """Tell which partitions are past their age and stay, and why."""
    await connection.execute(
        update(_SWEEPS).where(_S.run_id == run_id, _S.name == name).values(pinned=pins)
    )


async def finish(connection: AsyncConnection, run_id: str, *, now: datetime) -> None:
    """Note that a run is over."""
    await connection.execute(
        update(_RUNS)
        .where(_R.id == run_id, _R.finished_at.is_(None))
        .values(status="done", finished_at=now)
    )


async def forget(connection: AsyncConnection, *, before: datetime) -> int:
    """Delete what is known of the runs from before then; returns how many runs."""
    first = first_id_at("ret", before)
    await connection.execute(delete(_SWEEPS).where(_S.run_id < first))
    return (await connection.execute(delete(_RUNS).where(_R.id < first))).rowcount


async def get(connection: AsyncConnection, run_id: str) -> Run | None:
    """One run."""
    rows = await connection.execute(select(_RUNS).where(_R.id == run_id))
    row = rows.mappings().first()
    if row is None:
        return None
    return Run(run=RetentionRun(**row), sweeps=[*(await sweeps(connection, run_id)).values()])


async def kept_since(connection: AsyncConnection, name: str) -> datetime | None:
    """The latest time from before which some run deleted this table's rows; None where none did."""
    rows = await connection.execute(
        select(func.max(_S.cutoff))
        .join_from(_SWEEPS, _RUNS, _R.id == _S.run_id)
        .where(_S.name == name, _R.dry_run.is_(False))
    )
    cutoff: datetime | None = rows.scalar_one()
    return cutoff


async def newest(connection: AsyncConnection, *, limit: int) -> list[Run]:
    """The last runs, the newest first."""
    rows = await connection.execute(newest_first(select(_RUNS), _R.id, after=None, limit=limit))
    runs = [RetentionRun(**row) for row in rows.mappings()]
    of_run: dict[str, list[RetentionSweep]] = {run.id: [] for run in runs}
    found = await connection.execute(
        select(_SWEEPS).where(_S.run_id.in_(of_run)).order_by(_S.position)
    )
    for row in found.mappings():
        of_run[row["run_id"]].append(RetentionSweep(**row))
    return [Run(run=run, sweeps=of_run[run.id]) for run in runs]
