"""The delay that one tenant's backlog causes for others, in seconds from emit to sink.

1. A single event, emitted while 12,000 deliveries of another tenant wait; then another one each
   second while the backlog lasts.
2. 5,000 deliveries to 250 new endpoints (20 events for all of them), emitted while 12,000
   deliveries to another endpoint of the same tenant wait: how long until each endpoint gets its
   first delivery, from the first of the 20 events.

The backlog is emitted in batches as fast as the API accepts it, and topped up until the API counts
that many pending, because deliveries are made meanwhile.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace

from bench.delivery.events import batch_body, count_waiting, create_endpoints, create_tenant
from bench.delivery.events import single_body as body_of
from bench.delivery.figures import Fairness
from bench.delivery.session import Session
from bench.loading import Plan

_BIG_BATCH = 1_000
_CONNECTIONS = 2
_MOST_TOP_UPS = 10
_GIVEN_UP_SECONDS = 180.0
_BACKLOG_TYPE = "order.backlog.grown"
_SINGLE_TYPE = "order.single.waited"
_NEW_TYPE = "order.endpoint.added"


async def measure_fairness(
    session: Session, *, backlog: int = 12_000, endpoints: int = 250, events: int = 20
) -> Fairness:
    """Measure both scenarios in turn."""
    bench = session.bench
    big = await create_tenant(bench, "Backlog")
    small = await create_tenant(bench, "Single")
    await create_endpoints(bench, ["/backlog"], tenant=big, event_type=_BACKLOG_TYPE)
    await create_endpoints(bench, ["/single"], tenant=small, event_type=_SINGLE_TYPE)
    new = [f"/new/{number}" for number in range(endpoints)]
    await create_endpoints(bench, new, tenant=big, event_type=_NEW_TYPE)
    await session.warm_up()

    session.progress.say(f"fairness: one event behind {backlog} of another tenant")
    await session.ask_sink("reset")
    emitted, waiting = await _grow(session, backlog, tenant=big)
    singles: list[float] = []
    while not singles or await count_waiting(bench, tenant=big) > 0:
        singles.append(await _single(session, len(singles), tenant=small))
        await asyncio.sleep(max(0.0, 1.0 - singles[-1]))
    await session.until_recorded(emitted + len(singles))
    await session.assert_all_delivered(emitted + len(singles))

    session.progress.say(f"fairness: {endpoints} new endpoints behind {backlog} of another")
    await session.ask_sink("reset")
    emitted, new_waiting = await _grow(session, backlog, tenant=big)
    begun = time.monotonic_ns()
    plan = Plan(
        url=f"{bench.api}/v1/events",
        bodies=(body_of(_NEW_TYPE, tenant=big).replace("{sent_at}", str(begun)),),
        count=events,
        expect=f'"deliveries":{endpoints}',
    )
    await session.load.send(plan)
    await session.until_recorded(emitted + events * endpoints)
    await session.assert_all_delivered(emitted + events * endpoints)
    paths = await session.ask_sink("paths")
    firsts = [min(paths[path]) / 1000 for path in new]
    return Fairness(
        database=session.database,
        mode=session.mode,
        waiting=waiting,
        singles=singles,
        new_endpoints=endpoints,
        new_deliveries=events * endpoints,
        new_waiting=new_waiting,
        new_first=min(firsts),
        new_median=statistics.median(firsts),
        new_last=max(firsts),
    )


async def _grow(session: Session, backlog: int, *, tenant: str) -> tuple[int, int]:
    """Emit until this many wait. Return how many were emitted, and how many wait."""
    plan = Plan(
        url=f"{session.bench.api}/v1/events/batch",
        bodies=(batch_body(_BACKLOG_TYPE, tenant=tenant, size=_BIG_BATCH),),
        count=-(-backlog // _BIG_BATCH),
        connections=_CONNECTIONS,
        expect=f'"accepted":{_BIG_BATCH}',
    )
    emitted = waiting = 0
    for _ in range(_MOST_TOP_UPS):
        await session.load.send(plan)
        emitted += plan.count * _BIG_BATCH
        waiting = await count_waiting(session.bench, tenant=tenant)
        if waiting >= backlog:
            break
        missing = backlog - waiting
        plan = replace(plan, count=-(-missing // _BIG_BATCH) + 1)
    return emitted, waiting


async def _single(session: Session, before: int, *, tenant: str) -> float:
    """Emit one event after `before` earlier ones. Return the seconds until it is at the sink."""
    plan = Plan(
        url=f"{session.bench.api}/v1/events",
        bodies=(body_of(_SINGLE_TYPE, tenant=tenant),),
        count=1,
    )
    await session.load.send(plan)
    begun = time.monotonic()
    while len(latencies := await session.ask_sink("report/single")) <= before:
        assert time.monotonic() - begun < _GIVEN_UP_SECONDS, "the single event did not come"
        await asyncio.sleep(0.05)
    return float(latencies[before]) / 1000
