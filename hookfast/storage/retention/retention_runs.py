"""Statements on `retention_runs` and `retention_sweeps`: each run's progress and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.ids import first_id_at
from hookfast.storage.database.keyset import newest_first
from hookfast.storage.database.rows import fetch_all, fetch_one
from hookfast.storage.database.upsert import insert_into
from hookfast.storage.retention.sweeps import Batch
from hookfast.storage.tables import RetentionRun, RetentionSweep

_RUNS: Table = RetentionRun.__table__
_SWEEPS: Table = RetentionSweep.__table__
_R, _S = _RUNS.c, _SWEEPS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of retention with its sweeps, in their order."""

    run: RetentionRun
    sweeps: Sequence[RetentionSweep]


async def begin(
    connection: AsyncConnection,
    run: RetentionRun,
    *,
    cutoffs: Mapping[str, datetime | None],
) -> None:
    """Add a run and its sweeps with their cutoffs. A second call changes nothing: a run keeps the
    cutoffs of its beginning, whenever it is continued."""
    row = insert_into(connection, _RUNS).values(run.model_dump()).on_conflict_do_nothing()
    if (await connection.execute(row)).rowcount != 1:
        return
    await connection.execute(
        insert(_SWEEPS),
        [
            RetentionSweep(run_id=run.id, name=name, position=at, cutoff=before).model_dump()
            for at, (name, before) in enumerate(cutoffs.items())
        ],
    )


async def count_partitions(connection: AsyncConnection, run_id: str, *, created: int) -> None:
    """Add to a run's number of partitions that were created for the days ahead."""
    await _add(connection, run_id, partitions=created)


async def count_figures(
    connection: AsyncConnection, run_id: str, *, rolled_up: int, deleted: int
) -> None:
    """Add to a run's counts the figures that this transaction adds up, and deletes by age."""
    await _add(connection, run_id, rolled_up=rolled_up, figures_deleted=deleted)


async def count_corrected(connection: AsyncConnection, run_id: str, *, gauges: int) -> None:
    """Add to a run's counts the gauges that this transaction corrects."""
    await _add(connection, run_id, gauges_corrected=gauges)


async def record_comparison(
    connection: AsyncConnection, run_id: str, *, endpoints: int, hours: int
) -> None:
    """Record of how many endpoints the gauges were compared with the rows, and how many hours
    differ."""
    compared = {"endpoints_compared": endpoints, "hours_different": hours}
    await connection.execute(update(_RUNS).where(_R.id == run_id).values(compared))


async def _add(connection: AsyncConnection, run_id: str, **numbers: int) -> None:
    added = {_R[name]: _R[name] + number for name, number in numbers.items()}
    await connection.execute(update(_RUNS).where(_R.id == run_id).values(added))


async def sweeps(connection: AsyncConnection, run_id: str) -> dict[str, RetentionSweep]:
    """Return a run's sweeps by name, in their order."""
    statement = select(_SWEEPS).where(_S.run_id == run_id).order_by(_S.position)
    return {one.name: one for one in await fetch_all(connection, statement, RetentionSweep)}


async def lock_sweep(connection: AsyncConnection, run_id: str, name: str) -> RetentionSweep:
    """Return a sweep, locked until the transaction ends: an activity that timed out in Temporal may
    still run when its retry begins."""
    rows = await connection.execute(select(_SWEEPS).where(_is(run_id, name)).with_for_update())
    return RetentionSweep(**rows.mappings().one())


async def advance(connection: AsyncConnection, run_id: str, name: str, batch: Batch) -> None:
    """Move a sweep's cursor, and add to its counts, after a batch of this transaction."""
    await connection.execute(
        update(_SWEEPS)
        .where(_is(run_id, name))
        .values(
            cursor=batch.cursor,
            deleted=_S.deleted + batch.deleted,
            kept=_S.kept + batch.kept,
            done=not batch.more,
        )
    )


async def count_dropped(connection: AsyncConnection, run_id: str, name: str, *, rows: int) -> None:
    """Add to a sweep's counts the partition that this transaction drops, and its rows."""
    await connection.execute(
        update(_SWEEPS)
        .where(_is(run_id, name))
        .values(deleted=_S.deleted + rows, partitions=_S.partitions + 1)
    )


async def set_pinned(
    connection: AsyncConnection, run_id: str, name: str, pins: list[dict[str, Any]]
) -> None:
    """Record which old partitions of a sweep's table stay, and why."""
    await connection.execute(update(_SWEEPS).where(_is(run_id, name)).values(pinned=pins))


async def finish(connection: AsyncConnection, run_id: str, *, now: datetime) -> None:
    """Mark a run as done."""
    await connection.execute(
        update(_RUNS)
        .where(_R.id == run_id, _R.finished_at.is_(None))
        .values(status="done", finished_at=now)
    )


async def delete_before(connection: AsyncConnection, *, before: datetime) -> int:
    """Delete the runs that began before this time, with their sweeps, and return how many."""
    first = first_id_at("ret", before)
    await connection.execute(delete(_SWEEPS).where(_S.run_id < first))
    return (await connection.execute(delete(_RUNS).where(_R.id < first))).rowcount


async def get(connection: AsyncConnection, run_id: str) -> Run | None:
    """Return a run by its id."""
    run = await fetch_one(connection, select(_RUNS).where(_R.id == run_id), RetentionRun)
    if run is None:
        return None
    return Run(run=run, sweeps=[*(await sweeps(connection, run_id)).values()])


async def kept_since(connection: AsyncConnection, name: str) -> datetime | None:
    """Return the latest cutoff with which a run deleted a table's rows; None if no run did."""
    rows = await connection.execute(
        select(func.max(_S.cutoff))
        .join_from(_SWEEPS, _RUNS, _R.id == _S.run_id)
        .where(_S.name == name, _R.dry_run.is_(False))
    )
    cutoff: datetime | None = rows.scalar_one()
    return cutoff


async def list_newest(connection: AsyncConnection, *, limit: int) -> list[Run]:
    """Return the last runs, the newest first."""
    newest = newest_first(select(_RUNS), _R.id, after=None, limit=limit)
    runs = await fetch_all(connection, newest, RetentionRun)
    by_run: dict[str, list[RetentionSweep]] = {run.id: [] for run in runs}
    statement = select(_SWEEPS).where(_S.run_id.in_(by_run)).order_by(_S.position)
    for sweep in await fetch_all(connection, statement, RetentionSweep):
        by_run[sweep.run_id].append(sweep)
    return [Run(run=run, sweeps=by_run[run.id]) for run in runs]


def _is(run_id: str, name: str) -> ColumnElement[bool]:
    return and_(_S.run_id == run_id, _S.name == name)
