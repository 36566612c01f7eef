"""Runs further workers beside the first ones, as the autoscaler decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from hookfast.supervisor.autoscaler import Autoscaler, Load
from hookfast.supervisor.cpu import Reading, cores
from hookfast.supervisor.processes import Keeper, Part, Supervisor

_SAMPLE_SECONDS = 1.0

log = structlog.get_logger()


async def scale(
    supervisor: Supervisor,
    autoscaler: Autoscaler,
    *,
    apis: Sequence[Keeper],
    workers: list[Keeper],
    worker: Callable[[int], Part],
) -> None:
    """Add workers to the list, and stop the last one, until cancelled. `worker` returns the part
    with this number, from 0 on."""
    available = cores()
    reading = Reading(supervisor.pids())
    while True:
        await asyncio.sleep(_SAMPLE_SECONDS)
        before, reading = reading, Reading(supervisor.pids())
        load = Load(
            workers=tuple(reading.cores_of(one.pid, since=before) for one in workers),
            apis=sum(reading.cores_of(one.pid, since=before) for one in apis),
            idle=reading.idle(since=before, of=available),
        )
        step = autoscaler.next(load)
        if step == "start":
            part = worker(len(workers))
            log.info("A further worker starts: the others are busy and cores idle.", part=part.name)
            workers.append(supervisor.keep(part))
        elif step == "stop":
            part = workers[-1].part
            log.info("The further worker stops: others need its core, or suffice.", part=part.name)
            await supervisor.stop(workers[-1])
            workers.pop()
