"""The faults of a run: each is one row of its table, under traffic of its own.

| row                    | what happens
|------------------------|-------------------------------------------------------------------------
| no fault               | to compare with
| a worker killed        | SIGKILL of one worker, which is started again after 5 s
| each worker killed     | the same with each, one after the other
| each API killed        | SIGKILL of one API; when it is back, of the other
| the only Temporal away | the cluster's other servers stop; the last gets SIGKILL, for 60 s
| each Temporal killed   | SIGKILL of one server of the cluster, for 20 s; when it is back, the next
| PostgreSQL restarted   | stopped (fast shutdown) and started again
| rolling restart        | SIGTERM of each worker and then each API, when the one before is ready
| two versions           | with `--old`: older code beside newer, then only older, then newer again
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT
from typing import Final

from bench.chaos.evidence import Evidence
from bench.chaos.storm import API_KILLED, TEMPORAL_KILLED, WORKER_KILLED
from bench.cluster.cluster import Cluster

POSTGRESQL_RESTARTED: Final = "PostgreSQL restarted"
_BACK_AFTER = 5.0
_ONLY_TEMPORAL_AWAY = 60.0
_TEMPORAL_AWAY = 20.0
_POSTGRESQL_STOP = 60.0
_OLDER_FOR = 15.0
_SETTLED = 5.0
"""Seconds of traffic before a fault, and after it."""

Act = Callable[[Cluster, Evidence], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table. `seconds`: for how long its traffic lasts at least; `temporals`: how many
    servers its cluster needs."""

    name: str
    seconds: float
    act: Act
    temporals: int = 1


def rows(*, old: Path | None) -> Sequence[Row]:
    """Return the rows in order. `old` is a folder with the code of another version."""
    found = [
        Row("no fault", 10, _nothing),
        Row("a worker killed", 20, _kill_a_worker),
        Row("each worker killed", 45, _kill_each_worker),
        Row("each API killed", 30, _kill_each_api),
        Row("the only Temporal away for 60 s", 80, _kill_the_only_temporal),
        Row("each Temporal killed", 70, _kill_each_temporal, temporals=2),
        Row("PostgreSQL restarted", 25, _restart_postgresql),
        Row("rolling restart", 45, _rolling_restart),
    ]
    if old is not None:
        found.append(Row("two versions", 60, _two_versions(old)))
    return found


async def _nothing(_: Cluster, __: Evidence) -> None:
    """Let the traffic run."""


async def _kill_a_worker(cluster: Cluster, evidence: Evidence) -> None:
    await _kill_worker(cluster, evidence, 0)


async def _kill_each_worker(cluster: Cluster, evidence: Evidence) -> None:
    for number in range(len(cluster.workers)):
        await _kill_worker(cluster, evidence, number)
        await asyncio.sleep(_SETTLED)


async def _kill_worker(cluster: Cluster, evidence: Evidence, number: int) -> None:
    worker = cluster.workers[number]
    with evidence.fault(WORKER_KILLED, worker.pid):
        await worker.kill()
        await asyncio.sleep(_BACK_AFTER)
        await cluster.start_worker(number)


async def _kill_each_api(cluster: Cluster, evidence: Evidence) -> None:
    for number, api in enumerate(cluster.apis):
        with evidence.fault(API_KILLED, api.pid):
            await api.kill()
            await asyncio.sleep(_BACK_AFTER)
            await cluster.start_api(number)
        await asyncio.sleep(_SETTLED)


async def _kill_the_only_temporal(cluster: Cluster, evidence: Evidence) -> None:
    backing = cluster.backing
    only, *others = backing.temporals
    for other in others:
        await cluster.stop(other)
    await asyncio.sleep(_SETTLED)
    with evidence.fault(TEMPORAL_KILLED, only.pid):
        await only.kill()
        await asyncio.sleep(_ONLY_TEMPORAL_AWAY)
        await only.start()
        await backing.wait_for_temporal(backing.frontends[0])
    await asyncio.sleep(_SETTLED)
    for other, frontend in zip(others, backing.frontends[1:], strict=True):
        await other.start()
        await backing.wait_for_temporal(frontend)


async def _kill_each_temporal(cluster: Cluster, evidence: Evidence) -> None:
    backing = cluster.backing
    for temporal, frontend in zip(backing.temporals, backing.frontends, strict=True):
        with evidence.fault(TEMPORAL_KILLED, temporal.pid):
            await temporal.kill()
            await asyncio.sleep(_TEMPORAL_AWAY)
            await temporal.start()
            await backing.wait_for_temporal(frontend)
        await asyncio.sleep(_SETTLED)


async def _restart_postgresql(cluster: Cluster, evidence: Evidence) -> None:
    postgresql = cluster.backing.postgresql
    with evidence.fault(POSTGRESQL_RESTARTED, postgresql.part.pid):
        await postgresql.part.kill(SIGINT, patience=_POSTGRESQL_STOP)
        await postgresql.start()


async def _rolling_restart(cluster: Cluster, _: Evidence) -> None:
    for number, worker in enumerate(cluster.workers):
        await cluster.stop(worker)
        await cluster.start_worker(number)
    for number, api in enumerate(cluster.apis):
        await cluster.stop(api)
        await cluster.start_api(number)


def _two_versions(old: Path) -> Act:
    async def act(cluster: Cluster, _: Evidence) -> None:
        """Go back with the first worker and the first API; later with all; then forwards again."""
        counts = len(cluster.workers), len(cluster.apis)
        await _use(cluster, code=old, workers=range(1), apis=range(1))
        await asyncio.sleep(_OLDER_FOR)
        await _use(cluster, code=old, workers=range(1, counts[0]), apis=range(1, counts[1]))
        await asyncio.sleep(_OLDER_FOR)
        await _use(cluster, code=None, workers=range(counts[0]), apis=range(counts[1]))

    return act


async def _use(
    cluster: Cluster, *, code: Path | None, workers: Sequence[int], apis: Sequence[int]
) -> None:
    """Restart these with other code, one after the other; None: the newest."""
    of = {} if code is None else {"code": code}
    for number in workers:
        await cluster.stop(cluster.workers[number])
        cluster.workers[number] = cluster.new_worker(number, **of)
        await cluster.start_worker(number)
    for number in apis:
        await cluster.stop(cluster.apis[number])
        cluster.apis[number] = cluster.new_api(number, **of)
        await cluster.start_api(number)
