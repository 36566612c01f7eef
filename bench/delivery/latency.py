"""The time from a single event to its 202 and to the sink, at a fixed rate.

An open loop: the time of each event is fixed beforehand, and both times count from then, so that a
delayed sender counts for every event that was due meanwhile. Measuring starts after some seconds at
the same rate, when `auto` has decided. It is done once at the given rate, and once at 0.3 of the
mode's capacity in a closed loop. The floor's rate is measured right before, so that the aims can be
scaled to this machine as it is now.
"""

from __future__ import annotations

import asyncio
import time

from bench.delivery.figures import FLOOR, SINGLES, Latency, Quantiles, Side
from bench.delivery.session import Elsewhere, Session
from bench.loading import Outcome, Plan

SHARE = 0.3
_CALM_SECONDS = 3.0
"""Seconds until `auto` has noticed that new deliveries come slowly."""
_WARM_SECONDS = 3.0


async def measure_latency(session: Session, *, rate: float, seconds: float) -> list[Latency]:
    """Measure this rate, and SHARE of the mode's own capacity."""
    session.progress.say("latency: the floor")
    await session.capacity()
    await session.floor(seconds=2)
    measured = []
    for of_capacity in (None, SHARE):
        each = rate if of_capacity is None else of_capacity * await session.capacity()
        session.progress.say(f"latency: {each:.0f} a second for {seconds:g} s")
        await asyncio.sleep(_CALM_SECONDS)
        await send_singles(session, rate=each, seconds=_WARM_SECONDS)
        elsewhere = Elsewhere()
        outcome, cpu = await send_singles(session, rate=each, seconds=seconds)
        busy = elsewhere.cores((time.monotonic_ns() - outcome.begun) / 1e9, cpu)
        count = len(outcome.latencies)
        await session.assert_all_delivered(count)
        side = Side(SINGLES)
        side.add(count, seconds, cpu)
        measured.append(
            Latency(
                database=session.database,
                mode=session.mode,
                rate=each,
                of_capacity=of_capacity,
                floor=session.rates[FLOOR],
                accept=Quantiles.of(outcome.latencies),
                arrive=Quantiles.of(await session.ask_sink("report")),
                cpu={process: side.cpu_of(process) for process in side.cpu},
                elsewhere=busy,
            )
        )
    return measured


async def send_singles(
    session: Session, *, rate: float, seconds: float
) -> tuple[Outcome, dict[str, float]]:
    """Send single events in an open loop until all are recorded. Return the outcome, and CPU
    seconds by process."""
    way = session.ways[SINGLES]
    count = max(1, int(rate * seconds))
    plan = Plan(
        url=session.bench.api + way.path,
        bodies=(way.body,),
        count=count,
        rate=rate,
        expect=way.expect,
    )
    return await session.send(plan, deliveries=count)
