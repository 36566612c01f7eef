"""The cost of an endpoint that never answers for others: healthy deliveries' latencies with and
without it.

An open loop of single events at 0.3 of the mode's capacity. Nine in ten go to one endpoint; the
tenth goes to another endpoint of the same tenant, which answers in one turn, and in the next turn
accepts the connection and never answers, until the timeout of 5 s. Its circuit is set to stay
closed, so that it does harm all the time, and its retries come after the run. Only the nine are
measured, and not those of the first seconds of a turn, which follow a pause.
"""

from __future__ import annotations

import asyncio

from bench.delivery.events import create_endpoints, single_body
from bench.delivery.figures import BlackHole, Quantiles
from bench.delivery.latency import SHARE
from bench.delivery.session import Session
from bench.loading import Plan

_TIMEOUT_SECONDS = 5
_HEALTHY = 9
_NEVER_OPEN = {"failure_threshold": 1000, "min_span_seconds": 86_400}
_LATE_PLAN = {"delays_seconds": [86_400], "jitter": 0}
_WARM_SECONDS = 3.0
_STALLED_SECONDS = 60.0


async def measure_black_hole(session: Session, *, rounds: int, seconds: float) -> BlackHole:
    """Measure this many turns with and without the black hole, each this long."""
    rate = SHARE * await session.capacity()
    without: list[float] = []
    behind: list[float] = []
    multiples = []
    swallowed = 0
    for number in range(rounds):
        session.progress.say(f"black hole: {rate:.0f} a second, round {number + 1} of {rounds}")
        well = await _turn(session, f"well{number}", f"/well/{number}", rate, seconds)
        ill = await _turn(session, f"hole{number}", f"/hole/{number}", rate, seconds)
        swallowed += int(await session.ask_sink("swallowed"))
        multiples.append(Quantiles.of(ill).p99 / Quantiles.of(well).p99)
        without += well
        behind += ill
        await asyncio.sleep(_TIMEOUT_SECONDS + 1)  # until the last request is given up
    assert swallowed, "nothing went to the black hole"
    return BlackHole(
        database=session.database,
        mode=session.mode,
        rate=rate,
        without=Quantiles.of(without),
        behind=Quantiles.of(behind),
        multiples=multiples,
        swallowed=swallowed,
    )


async def _turn(
    session: Session, name: str, other: str, rate: float, seconds: float
) -> list[float]:
    """Return the warm healthy deliveries' milliseconds, while every tenth event goes to `other`."""
    bench, tenant = session.bench, session.tenant
    healthy_type, other_type = f"order.healthy.{name}", f"order.other.{name}"
    path = f"/healthy/{name}"
    await create_endpoints(bench, [path], tenant=tenant, event_type=healthy_type)
    await create_endpoints(
        bench,
        [other],
        tenant=tenant,
        event_type=other_type,
        timeout_seconds=_TIMEOUT_SECONDS,
        circuit=_NEVER_OPEN,
        retry_plan=_LATE_PLAN,
    )
    await session.ask_sink("reset")
    healthy = single_body(healthy_type, tenant=tenant)
    tens = max(1, int(rate * seconds / (_HEALTHY + 1)))
    warm = int(rate * _WARM_SECONDS / (_HEALTHY + 1))
    plan = Plan(
        url=f"{bench.api}/v1/events",
        bodies=(*[healthy] * _HEALTHY, single_body(other_type, tenant=tenant)),
        count=(warm + tens) * (_HEALTHY + 1),
        rate=rate,
        expect='"deliveries":1',
    )
    await session.load.send(plan)
    expected = (warm + tens) * _HEALTHY
    async with asyncio.timeout(_STALLED_SECONDS):
        while len(latencies := await session.ask_sink(f"report{path}")) < expected:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    assert len(latencies) == expected, f"{len(latencies)} for {expected} healthy deliveries"
    return list(latencies[warm * _HEALTHY :])
